//! The Prometheus HTTP API as Grafana calls it, health, the collector's metrics, and a page for people.

mod admin;
pub mod encode;
pub mod error;
mod explore;
pub(crate) mod export;
mod federate;
mod health;
mod incidents;
mod jobs;
mod memory;
pub mod number;
mod page;
mod params;
mod query;
mod report;
pub(crate) mod selector;
mod status;
pub mod time;
mod topology;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::routing::{delete, get, post};
use fabriclens_promql::Engine;
use fabriclens_store::Store;
use tokio::sync::{Semaphore, watch};

use crate::config::{self, Config};
use crate::data::{Data, LOCAL};
use crate::forward::Sink;
use crate::incidents::Book;
use crate::jobs::Jobs;
use crate::parts::Parts;
use crate::pressure::Pressure;
use crate::telemetry::Telemetry;
use crate::topology::Topologies;
use error::{ApiError, Kind};
pub use health::ALIVE;
use memory::Pool;
use params::Params;

/// An engine with the limits of the config.
pub fn engine(query: &config::Query) -> Engine {
    Engine::new(query::limits(query))
}

/// Who may listen to changes of incidents at the same time; each holds a connection.
const LISTENERS: usize = 256;

/// What every handler sees.
pub struct Api {
    /// Metadata, and numbers about itself.
    store: Arc<Store>,
    /// Samples of this collector.
    data: Arc<Data>,
    /// Joined with those of its peers.
    queried: Arc<Data>,
    sink: Arc<Sink>,
    jobs: Arc<Jobs>,
    book: Arc<Book>,
    topologies: Arc<Topologies>,
    pressure: Arc<Pressure>,
    engine: Engine,
    telemetry: Telemetry,
    config: Config,
    started_ms: i64,
    pool: Arc<Pool>,
    stopping: watch::Sender<bool>,
    /// Places of those who listen to changes of incidents.
    listeners: Arc<Semaphore>,
}

impl Api {
    /// Of the parts of a collector.
    pub fn new(parts: Parts) -> Self {
        let Parts { store, data, queried, sink, jobs, book, topologies, pressure, telemetry, config } = parts;
        Self {
            store,
            data,
            queried,
            sink,
            jobs,
            book,
            topologies,
            pressure,
            engine: engine(&config.query),
            pool: Pool::new(config.query.memory, config.query.concurrency, telemetry.query_memory.clone()),
            telemetry,
            config,
            started_ms: time::now_ms(),
            stopping: watch::Sender::new(false),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
        }
    }

    /// What a request asks: all there is, or this collector alone.
    fn data(&self, params: &Params) -> Arc<Data> {
        if params.get(LOCAL) == Some("true") { self.data.clone() } else { self.queried.clone() }
    }

    /// From now on `/readyz` says no, so that load balancers look elsewhere, and streams end.
    pub fn stopping(&self) {
        self.stopping.send_replace(true);
    }
}

/// What the main listener serves, beside remote write.
pub fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/metrics", get(health::metrics))
        .route("/healthz", get(health::alive))
        .route("/-/healthy", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/-/ready", get(health::ready))
        .route("/federate", get(federate::federate))
        .route("/api/v1/export", get(export::export).post(export::export))
        .route("/api/v1/annotations", get(incidents::annotations::get).post(incidents::annotations::post))
        .route("/api/v1/incidents", get(incidents::list))
        .route("/api/v1/incidents/stream", get(incidents::stream::stream))
        .route("/api/v1/incidents/{id}", get(incidents::one))
        .route("/api/v1/incidents/{id}/acknowledge", post(incidents::say::acknowledge))
        .route("/api/v1/incidents/{id}/reclassify", post(incidents::say::reclassify))
        .route("/api/v1/incidents/{id}/silence", post(incidents::say::silence))
        .route("/api/v1/silences", get(incidents::say::silences).post(incidents::say::silence_all))
        .route("/api/v1/silences/{id}", delete(incidents::say::unsilence))
        .route("/api/v1/jobs", get(jobs::list).post(jobs::begin))
        .route("/api/v1/jobs/{id}", get(jobs::one).patch(jobs::change))
        .route("/api/v1/jobs/{id}/end", post(jobs::end))
        .route("/api/v1/jobs/{id}/report", get(report::report))
        .route("/api/v1/topology", get(topology::topology))
        .route("/api/v1/query", get(query::instant).post(query::instant))
        .route("/api/v1/query_range", get(query::range).post(query::range))
        .route("/api/v1/format_query", get(query::format).post(query::format))
        .route("/api/v1/query_exemplars", get(query::exemplars).post(query::exemplars))
        .route("/api/v1/series", get(explore::series).post(explore::series))
        .route("/api/v1/labels", get(explore::labels).post(explore::labels))
        .route("/api/v1/label/{name}/values", get(explore::label_values))
        .route("/api/v1/metadata", get(explore::metadata))
        .route("/api/v1/rules", get(status::rules))
        .route("/api/v1/alerts", get(status::alerts))
        .route("/api/v1/targets", get(status::targets))
        .route("/api/v1/alertmanagers", get(status::alertmanagers))
        .route("/api/v1/admin/tsdb/snapshot", post(admin::snapshot).put(admin::snapshot))
        .route("/api/v1/status/buildinfo", get(status::buildinfo))
        .route("/api/v1/status/config", get(status::config))
        .route("/api/v1/status/flags", get(status::flags))
        .route("/api/v1/status/runtimeinfo", get(status::runtimeinfo))
        .route("/api/v1/status/tsdb", get(status::tsdb))
        .fallback(unknown)
        .with_state(api)
}

async fn unknown(uri: Uri) -> ApiError {
    ApiError::new(Kind::NotFound, format!("{} is not served here; see / for what is", uri.path()))
}
