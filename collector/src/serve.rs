//! Starts and stops the collector: binds the listeners, opens the store, starts all services, and drains them in order
//! at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_store::{OpenError, Options, SeriesLimits, Store};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use fabriclens_api as api;
use fabriclens_api::Api;
use fabriclens_audit as audit;
use fabriclens_audit::{Auditor, Drift};
use fabriclens_config::Config;
use fabriclens_console as console;
use fabriclens_core::newest_signals::NewestSignals;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::reload::{Reload, run as run_reloads};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ns;
use fabriclens_correlate::Role;
use fabriclens_data::{Data, engine};
use fabriclens_evaluation::{kernel_log, live};
use fabriclens_forward::{ForwardError, Sink};
use fabriclens_gnmi as gnmi;
use fabriclens_incidents as incidents;
use fabriclens_incidents::{IncidentStore, IncidentStoreError, WrongSetting};
use fabriclens_ingest as ingest;
use fabriclens_ingest::Ingest;
use fabriclens_job_notifications as job_notifications;
use fabriclens_job_sources as jobs;
use fabriclens_job_sources::Jobs;
use fabriclens_jobs::Limits;
use fabriclens_probing as probing;
use fabriclens_probing::Probing;
use fabriclens_server::answers::Answers;
use fabriclens_server::auth::{ErrorFormat, Guard};
use fabriclens_server::listener::{ListenError, Listener, bind};
use fabriclens_server::route;
use fabriclens_server::startup_listener::{ListenerKind, StartupListener};
use fabriclens_server::tls::acceptor;
use fabriclens_state::AppState;
use fabriclens_topology as topology;
use fabriclens_topology::{Topologies, TopologiesError, TopologyInference};

/// Time for requests in progress to finish at the end.
const DRAIN: Duration = Duration::from_secs(10);
/// Time for the whole shutdown; the rest is done at the next start.
const STOP: Duration = Duration::from_secs(25);
/// Interval of reading memory use.
const MEMORY_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which idle senders are forgotten, normally and while memory is short.
const FORGET_INTERVAL: Duration = Duration::from_secs(300);
const FORGET_SHORT_INTERVAL: Duration = Duration::from_secs(20);
/// Memory of all queries of the smallest process, bytes.
const MIN_QUERY_MEMORY: usize = 1 << 20;

/// The collector cannot start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A listener cannot start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A token, password or authority file of another server cannot be used.
    #[error("{0}; give a file that this user can read")]
    Remote(#[from] fabriclens_core::endpoint::FileError),
    /// The token file cannot be used.
    #[error("auth.tokens: {0}; fabriclens token new --file writes such a file")]
    Tokens(String),
    /// A forward queue cannot be opened.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The job registry cannot be opened.
    #[error(transparent)]
    Jobs(#[from] fabriclens_jobs::RegistryError),
    /// The incident store cannot be opened.
    #[error(transparent)]
    Incidents(#[from] IncidentStoreError),
    /// The topology history cannot be opened.
    #[error(transparent)]
    Topology(#[from] TopologiesError),
    /// Anything else: a bug, or a system without sockets.
    #[error("cannot start: {0}")]
    Other(String),
}

/// A running collector. Dropping it without [`Running::stop`] does not drain requests, but loses nothing that was
/// acknowledged.
pub struct Running {
    /// Address of the main listener, with the actual port.
    pub http: SocketAddr,
    /// Address of OTLP over gRPC.
    pub otlp_grpc: SocketAddr,
    /// Address of OTLP over HTTP.
    pub otlp_http: SocketAddr,
    stop: watch::Sender<bool>,
    reload: Arc<Notify>,
    servers: Vec<JoinHandle<()>>,
    own: JoinHandle<()>,
    /// Background tasks.
    tasks: Vec<JoinHandle<()>>,
    api: Arc<Api>,
    ingest: Arc<Ingest>,
    incidents: Arc<IncidentStore>,
    store: Arc<Store>,
    sink: Arc<Sink>,
}

/// Memory of all queries, bytes: as configured, but at most a quarter of the process' limit. Otherwise the queries of one
/// reader could fill the memory, and samples would be rejected for it.
fn query_memory(configured: usize, limit: u64) -> usize {
    configured.min(usize::try_from(limit / 4).unwrap_or(usize::MAX)).max(MIN_QUERY_MEMORY)
}

/// Opens the store and starts all services; returns once the listeners serve requests.
///
/// # Errors
/// [`ServeError`]; then nothing keeps running.
pub async fn start(mut config: Config) -> Result<Running, ServeError> {
    let other = |e: &dyn std::fmt::Display| ServeError::Other(e.to_string());
    let telemetry = Telemetry::new().map_err(|e| other(&e))?;
    let tls = config.tls.as_ref().map(|t| acceptor(t, config.certificates_only(), &telemetry)).transpose()?;
    let guard = Arc::new(Guard::new(&config, &telemetry).map_err(ServeError::Tokens)?);
    // Ports before data: a second start on one machine most likely fails here, and touches nothing.
    let [http, grpc, otlp] = config.listen.all();
    let (http, grpc, otlp) = tokio::try_join!(bind(http.0, http.1), bind(grpc.0, grpc.1), bind(otlp.0, otlp.1))?;
    let local = |socket: &tokio::net::TcpListener| socket.local_addr().map_err(|e| other(&e));
    config.listen = fabriclens_config::Listen {
        http: local(&http)?,
        otlp_grpc: local(&grpc)?,
        otlp_http: local(&otlp)?,
        ..config.listen
    };

    let pressure = Arc::new(Pressure::new(config.memory));
    config.query.memory = query_memory(config.query.memory, pressure.limit());
    // Until the log is replayed, the open ports answer that clients must retry.
    let (stop, stopped) = watch::channel(false);
    let listener = Listener {
        guard: guard.clone(),
        tls: tls.clone(),
        limits: config.listen.connections,
        answers: Answers::new(config.query.memory, telemetry.slow_readers.clone()),
        telemetry: telemetry.clone(),
    };
    let startup_listeners = [(http, ListenerKind::Http), (grpc, ListenerKind::Grpc), (otlp, ListenerKind::Otlp)]
        .map(|(socket, kind)| StartupListener::start(listener.clone(), socket, kind, stopped.clone()));
    let store = open(&config, pressure.limit()).await?;
    let data = Arc::new(Data::new(store.clone(), &config, &telemetry)?);
    let sink = Arc::new(Sink::start(store.clone(), &config, &telemetry)?);
    let incidents = Arc::new(IncidentStore::open(&store, config.retention.incidents)?);
    let topologies = Arc::new(Topologies::open(&store, &config)?);
    let jobs = Arc::new(Jobs::open(&store, Limits::of_memory(pressure.limit()))?);
    let (limits, switches) = (config.ingest, config.switches.clone());
    let memory = pressure.limit();
    let part = |fraction: u64| usize::try_from(memory / fraction).unwrap_or(usize::MAX);
    let (addresses, plans) = (config.switches.addresses.clone(), part(PLANS_FRACTION));
    let probing = Arc::new(Probing::new(config.probes, addresses, telemetry.probes.clone(), plans));
    telemetry.subnet_paths.limit(part(TABLES_FRACTION));
    let ingest = Ingest::new(
        store.clone(),
        sink.clone(),
        telemetry.clone(),
        limits,
        switches,
        pressure.clone(),
        probing.clone(),
    );
    let ingest = Arc::new(ingest);
    let auditor = Arc::new(Auditor::new(config.baselines.clone()));
    let state = AppState {
        store: store.clone(),
        data: data.clone(),
        queried: Data::merged(data.clone(), &config.peers, &telemetry)?,
        sink: sink.clone(),
        jobs: jobs.clone(),
        incidents: incidents.clone(),
        topologies: topologies.clone(),
        auditor: auditor.clone(),
        probing: probing.clone(),
        newest_signals: Arc::new(NewestSignals::new(api::signals_of_ports())),
        pressure: pressure.clone(),
        telemetry: telemetry.clone(),
        config: config.clone(),
    };
    let api = Arc::new(Api::new(state.clone()));
    log_start(&config);

    let main = route::router(api::routes(), ErrorFormat::Http, &guard).with_state(api.clone());
    let main =
        main.merge(route::router(ingest::http::write_routes(), ErrorFormat::Http, &guard).with_state(ingest.clone()));
    let main =
        main.merge(route::router(ingest::switches::routes(), ErrorFormat::Http, &guard).with_state(ingest.clone()));
    let base = console::base_path(config.external_url.as_deref());
    let main = main.merge(route::router(console::routes::<()>(&base), ErrorFormat::Http, &guard));
    let grpc_routes = route::router(ingest::grpc::routes(), ErrorFormat::Grpc, &guard).with_state(ingest.clone());
    let otlp_routes = route::router(ingest::http::otlp_routes(), ErrorFormat::Http, &guard).with_state(ingest.clone());
    let routers = [
        route::fallback(main, api::unknown, ErrorFormat::Http, &guard),
        route::fallback(grpc_routes, ingest::grpc::other, ErrorFormat::Grpc, &guard),
        route::fallback(otlp_routes, ingest::http::other, ErrorFormat::Http, &guard),
    ];
    let servers =
        startup_listeners.into_iter().zip(routers).filter_map(|(startup, router)| startup.serve(router)).collect();
    let mut tasks = jobs::start_sources(&jobs, &data, &config, &telemetry, &stopped)?;
    // This task holds the store, which must be free for the next process, so it is awaited at the end.
    let memory = watch_memory(pressure, store.clone(), ingest.clone(), telemetry.clone(), stopped.clone());
    tasks.push(tokio::spawn(memory));
    let (reload, reloaded) =
        (Arc::<Notify>::default(), tls.map(|t| t as Arc<dyn Reload>).into_iter().chain(guard.reloaded()).collect());
    tasks.push(tokio::spawn(run_reloads(reloaded, reload.clone(), stopped.clone())));
    tasks.push(tokio::spawn(live::run(state, stopped.clone())));
    tasks.push(tokio::spawn(name_switches(ingest.clone(), topologies.clone(), stopped.clone())));
    let [wiring, traced] = [topologies.clone(), topologies.clone()];
    let planned = probing::run(
        probing,
        move || wiring.current(),
        move |source| traced.infer(TopologyInference::Traces, source),
        stopped.clone(),
    );
    tasks.push(tokio::spawn(planned));
    let services = audit::Services {
        data: data.clone(),
        engine: engine(&config.query),
        topologies: topologies.clone(),
        sink: sink.clone(),
        store: store.clone(),
        telemetry: telemetry.clone(),
    };
    let explained = incidents.clone();
    let tell = move |drifts: &[Drift]| explain_by_settings(&explained, drifts);
    tasks.push(tokio::spawn(audit::run(auditor, services, tell, stopped.clone())));
    tasks.push(tokio::spawn(kernel_log::run(incidents.clone(), data.clone(), stopped.clone())));
    let wired = topology::run(topologies, data.clone(), engine(&config.query), stopped.clone());
    tasks.push(tokio::spawn(wired));
    let rollups = jobs::roll_up(jobs.clone(), data, sink.clone(), engine(&config.query), stopped.clone());
    tasks.push(tokio::spawn(rollups));
    let written = incidents::series::run(
        incidents.clone(),
        jobs.clone(),
        store.clone(),
        sink.clone(),
        telemetry.clone(),
        stopped.clone(),
    );
    tasks.push(tokio::spawn(written));
    let switches =
        gnmi::serve(config.gnmi.clone(), sink.clone(), telemetry.clone(), part(SWITCHES_FRACTION), stopped.clone());
    tasks.push(tokio::spawn(switches));
    tasks.extend(incidents::notify(&incidents, &config, &telemetry, &stopped)?);
    let reported = api.clone();
    let read: job_notifications::ReadDigest = Arc::new(move |key, run| {
        let api = reported.clone();
        Box::pin(async move { api.digest(&key, run).await.map(digest) })
    });
    tasks.extend(job_notifications::start(&config, &store, &jobs, &telemetry, read, &stopped)?);
    let jobs = jobs::run(jobs, sink.clone(), config.clone(), stopped.clone());
    tasks.push(tokio::spawn(jobs));
    let own = ingest::store_own_metrics(
        store.clone(),
        sink.clone(),
        telemetry,
        instance(&config),
        config.self_metrics_interval,
        stopped,
    );
    Ok(Running {
        http: config.listen.http,
        otlp_grpc: config.listen.otlp_grpc,
        otlp_http: config.listen.otlp_http,
        stop,
        reload,
        servers,
        ingest,
        own: tokio::spawn(own),
        tasks,
        api,
        incidents,
        store,
        sink,
    })
}

/// How often ingest learns the names of switches from the topology.
const NAME_SWITCHES: Duration = Duration::from_secs(10);

/// Tells ingest how the topology calls its switches, until `stop` becomes true.
async fn name_switches(ingest: Arc<Ingest>, topologies: Arc<Topologies>, mut stop: watch::Receiver<bool>) {
    loop {
        let topology = topologies.current();
        let switches = topology.nodes.iter().filter(|node| node.role != Role::Host);
        ingest.name_switches_as(switches.map(|node| node.name.clone()));
        tokio::select! {
            () = tokio::time::sleep(NAME_SWITCHES) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// The report in three sentences, as messages to owners have it.
fn digest(of: api::Digest) -> job_notifications::Digest {
    let api::Digest { cost, cause, earlier, has_lost, is_complete, hosts } = of;
    job_notifications::Digest { cost, cause, earlier, has_lost, is_complete, hosts }
}

/// Adds the settings that an audit found wrong to the open incidents that they may explain.
fn explain_by_settings(incidents: &IncidentStore, drifts: &[Drift]) {
    let wrong = |drift: &Drift| WrongSetting {
        node: drift.host.clone(),
        port: drift.port.clone(),
        title: drift.title.clone(),
        severity: drift.severity,
        value: drift.value.clone(),
        expected: drift.expected.clone(),
        changed: drift.changed.as_ref().map(|changed| (changed.since_ms, changed.before.clone())),
    };
    incidents.add_settings(&drifts.iter().map(wrong).collect::<Vec<_>>(), now_ns());
}

/// Label `instance` of the collector's own series: its address, or the host name if it listens on all addresses.
fn instance(config: &Config) -> String {
    let http = config.listen.http;
    if !http.ip().is_unspecified() {
        return http.to_string();
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name}:{}", http.port())
}

/// Fraction of the memory limit for active series without their rows. A fleet of agents takes a third of its memory for them, and
/// is told to wait (near the limit) before its series are refused.
const SERIES_FRACTION: u64 = 2;
/// The same for offers of ports with the probe plans, and for the forwarding tables of InfiniBand subnets; readers of the latter
/// keep the tables before while new ones are told.
const PLANS_FRACTION: u64 = 8;
const TABLES_FRACTION: u64 = 16;
/// The same for the paths of switches that are read by gNMI, and for their samples on the way to the store.
const SWITCHES_FRACTION: u64 = 8;

async fn open(config: &Config, memory: u64) -> Result<Arc<Store>, ServeError> {
    let options = Options {
        retention: Some(config.retention.age),
        rollups: Some(config.retention.rollups).filter(|age| !age.is_zero()),
        max_bytes: config.retention.size,
        max_future: config.ingest.future,
        series: SeriesLimits {
            memory: usize::try_from(memory / SERIES_FRACTION).unwrap_or(usize::MAX),
            keep_for_bound: config.requires_authentication(),
            ..config.series.clone()
        },
        max_read_samples: usize::try_from(config.query.max_samples).unwrap_or(usize::MAX),
        ..Options::default()
    };
    let dir = config.data.clone();
    let began = Instant::now();
    let opened = tokio::task::spawn_blocking(move || Store::open(&dir, options)).await;
    let store = opened.map_err(|e| ServeError::Other(e.to_string()))??;
    let stats = store.stats();
    for damage in &stats.damage {
        tracing::warn!(?damage, "damage found in the data directory; everything else is intact");
    }
    tracing::info!(
        data = %config.data.display(), series = stats.head_series, blocks = stats.blocks,
        seconds = began.elapsed().as_secs_f64(), "store open"
    );
    Ok(Arc::new(store))
}

fn log_start(config: &Config) {
    let tls = config.tls.is_some();
    for (key, address) in config.listen.all() {
        tracing::info!(key, %address, tls, "listening");
        if config.insecure && !tls && !address.ip().is_loopback() {
            let risk = if config.requires_authentication() {
                "eavesdropping on tokens and samples"
            } else {
                "unauthenticated reads and writes"
            };
            tracing::warn!(key, %address, risk, "address is reachable without TLS (insecure = true)");
        }
    }
}

/// Reads memory use, and lets the store free memory when it is short.
async fn watch_memory(
    pressure: Arc<Pressure>,
    store: Arc<Store>,
    ingest: Arc<Ingest>,
    telemetry: Telemetry,
    mut stop: watch::Receiver<bool>,
) {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    telemetry.memory[1].set(whole(pressure.limit()));
    let mut before = Level::Normal;
    let mut forgot = Instant::now();
    loop {
        pressure.refresh();
        let full = ingest.admission().update(Instant::now());
        telemetry.memory[0].set(whole(pressure.used()));
        ingest.admission().count().iter().zip(&telemetry.senders).for_each(|(n, gauge)| gauge.set(whole(*n as u64)));
        telemetry.waiting.set(whole(ingest.gate().waiting() as u64));
        let level = pressure.level();
        if level > Level::Normal || full {
            store.relieve_memory();
        }
        if forgot.elapsed() >= if level > Level::Normal { FORGET_SHORT_INTERVAL } else { FORGET_INTERVAL } {
            forgot = Instant::now();
            let ingest = ingest.clone();
            // Walks all remembered senders.
            if tokio::task::spawn_blocking(move || ingest.forget_idle()).await.is_err() {
                tracing::warn!("cannot forget idle senders");
            }
        }
        if (level > Level::Normal) != (before > Level::Normal) {
            let (used, limit) = (pressure.used() >> 20, pressure.limit() >> 20);
            match level {
                Level::Normal => tracing::info!(mib = used, limit, "memory is no longer short"),
                _ => {
                    tracing::warn!(
                        mib = used,
                        limit,
                        "memory is short (limits.memory); samples are rejected and senders retry later"
                    )
                }
            }
            before = level;
        }
        if tokio::time::timeout(MEMORY_INTERVAL, stop.wait_for(|s| *s)).await.is_ok() {
            return;
        }
    }
}

impl Running {
    /// The incident store, for programs that embed a collector.
    pub fn incidents(&self) -> &Arc<IncidentStore> {
        &self.incidents
    }

    /// Reloads certificates and tokens now.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// Rejects new requests, lets those in progress finish, ends the collector's own series and closes the store, in
    /// bounded time.
    pub async fn stop(self) {
        if tokio::time::timeout(STOP, self.drain()).await.is_err() {
            let seconds = STOP.as_secs();
            tracing::warn!(seconds, "shutdown timed out; acknowledged samples are kept");
        }
    }

    async fn drain(self) {
        self.api.stopping();
        self.ingest.gate().close();
        self.stop.send_replace(true);
        let drained = async {
            for server in self.servers {
                if server.await.is_err() {
                    tracing::warn!("a listener panicked");
                }
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "requests did not finish in time and are aborted");
        }
        if self.own.await.is_err() {
            tracing::warn!("the writer of the collector's own metrics panicked");
        }
        let jobs = async {
            for task in self.tasks {
                if task.await.is_err() {
                    tracing::warn!("a background task panicked");
                }
            }
        };
        if tokio::time::timeout(DRAIN, jobs).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "background tasks did not stop in time and are abandoned");
        }
        self.sink.stop();
        let store = self.store;
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::warn!("closing the store failed; its log is replayed at the next start");
        }
    }
}
