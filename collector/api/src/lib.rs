//! The HTTP API: the Prometheus query API as Grafana uses it, incidents, jobs, reports, topology, an overview, health,
//! the collector's own metrics. [`routes`] lists every route.
//!
//! ```
//! use fabriclens_config::{Access, ServeRole};
//!
//! let routes = fabriclens_api::routes(ServeRole::All);
//! let query = routes.iter().find(|route| route.path == "/api/v1/query").unwrap();
//! assert_eq!(query.access, Access::Read);
//! ```

#![forbid(unsafe_code)]

mod admin;
mod audit;
mod blocking;
mod elsewhere;
pub mod encode;
mod explore;
mod export;
mod federate;
mod health;
mod incidents;
mod jobs;
mod memory;
mod overview;
mod params;
mod pieces;
mod port_signals;
mod probes;
mod query;
mod report;
mod report_paths;
mod report_topology;
mod result_cache;
mod result_parts;
mod selector;
mod session;
mod status;
mod topology;
mod topology_path;
mod topology_signals;
mod unbound;

use std::sync::Arc;

use axum::http::{Method, Uri};
use fabriclens_promql::Engine;
use fabriclens_store::Store;
use tokio::sync::watch;

pub use elsewhere::elsewhere;
use fabriclens_audit::Auditor;
use fabriclens_config::{Access, Config, ServeRole};
use fabriclens_core::fair_turn::FairTurn;
use fabriclens_core::newest_signals::NewestSignals;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time;
use fabriclens_correlate::Signal;
use fabriclens_data::{Data, LOCAL, engine};
use fabriclens_forward::Sink;
use fabriclens_incidents::IncidentStore;
use fabriclens_job_sources::Jobs;
use fabriclens_probing::Probing;
pub use fabriclens_report::Digest;
use fabriclens_server::error::{ApiError, Kind};
use fabriclens_server::route::{Route, route};
pub use fabriclens_server::startup_listener::ALIVE;
use fabriclens_state::AppState;
use fabriclens_topology::Topologies;
use incidents::Listeners;
use memory::Pool;
use params::Params;
use result_cache::ResultCache;

/// Signals that the API shows of all ports.
pub fn signals_of_ports() -> impl Iterator<Item = Signal> {
    port_signals::of_tables()
}

/// Part (1/n) of the memory of queries in which results of range queries are kept, and the memory from which on.
const KEPT_RESULTS: (usize, usize) = (8, 16 << 20);

/// State shared by all handlers.
pub struct Api {
    /// Metadata of metrics, and statistics.
    store: Arc<Store>,
    /// Samples of this collector.
    data: Arc<Data>,
    /// Samples merged with those of peers.
    queried: Arc<Data>,
    sink: Arc<Sink>,
    jobs: Arc<Jobs>,
    incidents: Arc<IncidentStore>,
    topologies: Arc<Topologies>,
    auditor: Arc<Auditor>,
    probing: Arc<Probing>,
    newest_signals: Arc<NewestSignals>,
    pressure: Arc<Pressure>,
    engine: Engine,
    telemetry: Telemetry,
    config: Config,
    started_ms: i64,
    pool: Arc<Pool>,
    /// Results of range queries.
    results: ResultCache,
    stopping: watch::Sender<bool>,
    /// Open event streams of incidents.
    listeners: Arc<Listeners>,
    /// Turn to read or change jobs: one may have 65,536 hosts, and the registry waits for the disk.
    job_turn: Arc<FairTurn>,
    /// Turn to read incidents, the topology, and what agents trace and probe.
    list_turn: Arc<FairTurn>,
    /// Measured values of the overview.
    overview: overview::Shared,
}

impl Api {
    /// Creates the state of the API.
    pub fn new(state: AppState) -> Self {
        let AppState {
            store,
            data,
            queried,
            sink,
            jobs,
            incidents,
            topologies,
            auditor,
            probing,
            newest_signals,
            pressure,
            telemetry,
            config,
        } = state;
        let (part, least) = KEPT_RESULTS;
        let kept = if config.query.memory < least { 0 } else { config.query.memory / part };
        Self {
            store,
            data,
            queried,
            sink,
            jobs,
            incidents,
            topologies,
            auditor,
            probing,
            newest_signals,
            pressure,
            engine: engine(&config.query),
            pool: Pool::new(config.query.memory - kept, config.query.concurrency, telemetry.query_memory.clone()),
            results: ResultCache::new(kept, &telemetry),
            telemetry,
            config,
            started_ms: time::now_ms(),
            stopping: watch::Sender::new(false),
            listeners: Arc::default(),
            job_turn: FairTurn::new(),
            list_turn: FairTurn::new(),
            overview: overview::Shared::default(),
        }
    }

    /// The samples that a request queries: all, or only this collector's.
    fn data(&self, params: &Params) -> Arc<Data> {
        if params.get(LOCAL) == Some("true") { self.data.clone() } else { self.queried.clone() }
    }

    /// Makes `/readyz` fail from now on, so that load balancers use other collectors, and ends all streams.
    pub fn stopping(&self) {
        self.stopping.send_replace(true);
    }
}

const GET: &[Method] = &[Method::GET];
const POST: &[Method] = &[Method::POST];
const PATCH: &[Method] = &[Method::PATCH];
const DELETE: &[Method] = &[Method::DELETE];
/// Prometheus accepts long queries as forms, too.
const GET_POST: &[Method] = &[Method::GET, Method::POST];
const POST_PUT: &[Method] = &[Method::POST, Method::PUT];

/// Routes of the main listener in a role, except remote write and import.
pub fn routes(role: ServeRole) -> Vec<Route<Arc<Api>>> {
    let mut routes = all_routes();
    if !role.judges() {
        routes.retain(|route| elsewhere::is_of_ingest(route.path));
    }
    routes
}

fn all_routes() -> Vec<Route<Arc<Api>>> {
    use Access::{Admin, Public, Read, Write};
    vec![
        route(Public, GET, "/api/v1/session", session::session),
        route(Read, GET, "/api/v1/overview", overview::overview),
        route(Read, GET, "/metrics", health::metrics),
        route(Public, GET, "/healthz", health::alive),
        route(Public, GET, "/-/healthy", health::alive),
        route(Public, GET, "/readyz", health::ready),
        route(Public, GET, "/-/ready", health::ready),
        route(Read, GET, "/federate", federate::federate),
        route(Read, GET_POST, "/api/v1/export", export::export),
        route(Read, GET, "/api/v1/annotations", incidents::annotations::get),
        route(Read, POST, "/api/v1/annotations", incidents::annotations::post),
        route(Read, GET, "/api/v1/incidents", incidents::list),
        route(Read, GET, "/api/v1/incidents/stream", incidents::stream::stream),
        route(Read, GET, "/api/v1/incidents/{id}", incidents::one).linked(),
        route(Write, POST, "/api/v1/incidents/{id}/acknowledge", incidents::actions::acknowledge),
        route(Write, POST, "/api/v1/incidents/{id}/note", incidents::actions::note),
        route(Write, POST, "/api/v1/incidents/{id}/reclassify", incidents::actions::reclassify),
        route(Write, POST, "/api/v1/incidents/{id}/silence", incidents::actions::silence),
        route(Read, GET, "/api/v1/silences", incidents::actions::silences),
        route(Write, POST, "/api/v1/silences", incidents::actions::silence_all),
        route(Write, DELETE, "/api/v1/silences/{id}", incidents::actions::unsilence),
        route(Read, GET, "/api/v1/jobs", jobs::list),
        route(Write, POST, "/api/v1/jobs", jobs::begin),
        route(Admin, DELETE, "/api/v1/jobs", jobs::delete_all),
        route(Read, GET, "/api/v1/jobs/{id}", jobs::one),
        route(Write, PATCH, "/api/v1/jobs/{id}", jobs::change),
        route(Admin, DELETE, "/api/v1/jobs/{id}", jobs::delete),
        route(Write, POST, "/api/v1/jobs/{id}/end", jobs::end),
        route(Read, GET, "/api/v1/jobs/{id}/report", report::report).linked(),
        route(Read, GET, "/api/v1/topology", topology::topology),
        route(Read, GET, "/api/v1/audit", audit::audit),
        route(Read, GET, "/api/v1/audit/baseline", audit::baseline),
        route(Read, GET, "/api/v1/probes", probes::probes),
        route(Read, GET, "/api/v1/topology/path", topology_path::path),
        route(Read, GET, "/api/v1/topology/signals", topology_signals::signals),
        route(Read, GET_POST, "/api/v1/query", query::instant),
        route(Read, GET_POST, "/api/v1/query_range", query::range),
        route(Read, GET_POST, "/api/v1/format_query", query::format),
        route(Read, GET_POST, "/api/v1/query_exemplars", query::exemplars),
        route(Read, GET_POST, "/api/v1/series", explore::series),
        route(Read, GET_POST, "/api/v1/labels", explore::labels),
        route(Read, GET, "/api/v1/label/{name}/values", explore::label_values),
        route(Read, GET, "/api/v1/metadata", explore::metadata),
        route(Admin, DELETE, "/api/v1/metadata", explore::delete_metadata),
        route(Read, GET, "/api/v1/rules", status::rules),
        route(Read, GET, "/api/v1/alerts", status::alerts),
        route(Read, GET, "/api/v1/targets", status::targets),
        route(Read, GET, "/api/v1/alertmanagers", status::alertmanagers),
        route(Admin, POST_PUT, "/api/v1/admin/tsdb/snapshot", admin::snapshot),
        route(Read, GET, "/api/v1/status/buildinfo", status::buildinfo),
        route(Read, GET, "/api/v1/status/config", status::config),
        route(Read, GET, "/api/v1/status/flags", status::flags),
        route(Read, GET, "/api/v1/status/runtimeinfo", status::runtimeinfo),
        route(Read, GET, "/api/v1/status/tsdb", status::tsdb),
    ]
}

/// Answers unknown paths.
pub async fn unknown(uri: Uri) -> ApiError {
    ApiError::new(Kind::NotFound, format!("unknown path {}; see / for an overview", uri.path()))
}
