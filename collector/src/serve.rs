//! Starts and stops the collector: binds the listeners, opens the store, starts all services, and drains them in order
//! at the end.

mod data_dir;
mod error;
mod judges;
mod judging;
mod standby;

pub use error::ServeError;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_store::Store;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use fabriclens_api as api;
use fabriclens_api::Api;
use fabriclens_audit::Auditor;
use fabriclens_config::{Config, ServeRole};
use fabriclens_console as console;
use fabriclens_core::failover_client::FailoverClient;
use fabriclens_core::judge_lease::JudgeLease;
use fabriclens_core::newest_signals::NewestSignals;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::reload::{Reload, run as run_reloads};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_gnmi as gnmi;
use fabriclens_incidents::IncidentStore;
use fabriclens_ingest as ingest;
use fabriclens_ingest::{Ingest, Relay};
use fabriclens_job_sources::Jobs;
use fabriclens_jobs::Limits;
use fabriclens_probing::Probing;
use fabriclens_server::answers::Answers;
use fabriclens_server::auth::{ErrorFormat, Guard};
use fabriclens_server::listener::{Listener, bind};
use fabriclens_server::route;
use fabriclens_server::startup_listener::{ListenerKind, NotReady, StartupListener};
use fabriclens_server::tls::acceptor;
use fabriclens_state::AppState;
use fabriclens_topology::Topologies;

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
    /// Given back last, when the data directory is closed.
    lease: Option<JudgeLease>,
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
    let not_ready = NotReady::default();
    let startup_listeners =
        [(http, ListenerKind::Http), (grpc, ListenerKind::Grpc), (otlp, ListenerKind::Otlp)].map(|(socket, kind)| {
            StartupListener::start(listener.clone(), socket, kind, not_ready.clone(), stopped.clone())
        });
    let lease = standby::wait(&config, &telemetry, &not_ready).await?;
    let store = standby::open_data(&config, pressure.limit(), lease.as_ref(), &not_ready).await?;
    let role = config.role;
    let data = Arc::new(Data::new(store.clone(), &config, &telemetry)?);
    let sink = Arc::new(Sink::start(store.clone(), &config, &telemetry)?);
    if role == ServeRole::Judge {
        // Nothing that an ingest collector sends may be missed: it is stored elsewhere.
        sink.sample_feed().open();
    }
    let incidents = Arc::new(IncidentStore::open(&store, config.retention.incidents)?);
    let topologies = Arc::new(Topologies::open(&store, &config, telemetry.host_senders.clone())?);
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
    let judges = Arc::new(FailoverClient::new(&config.judge.endpoints, &telemetry)?);
    let relay = (role == ServeRole::Ingest).then(|| Relay::new(judges.clone(), telemetry.judges.clone()));
    let ingest = Arc::new(ingest.with_relay(relay));
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

    let main = route::router(api::routes(role), ErrorFormat::Http, &guard).with_state(api.clone());
    let writes = if role == ServeRole::Judge { ingest::judge::routes() } else { ingest::http::write_routes() };
    let writes = route::router(writes, ErrorFormat::Http, &guard);
    let main = main.merge(writes.with_state(ingest.clone()));
    let main =
        main.merge(route::router(ingest::switches::routes(), ErrorFormat::Http, &guard).with_state(ingest.clone()));
    let base = console::base_path(config.external_url.as_deref());
    let main = if role.judges() {
        let main = main.merge(route::router(console::routes::<()>(&base), ErrorFormat::Http, &guard));
        route::fallback(main, api::unknown, ErrorFormat::Http, &guard)
    } else {
        route::fallback(main, api::elsewhere(&config.judge), ErrorFormat::Http, &guard)
    };
    let grpc_routes = route::router(ingest::grpc::routes(role), ErrorFormat::Grpc, &guard).with_state(ingest.clone());
    let otlp_routes = route::router(ingest::http::otlp_routes(role), ErrorFormat::Http, &guard);
    let otlp_routes = otlp_routes.with_state(ingest.clone());
    let routers = [
        main,
        route::fallback(grpc_routes, ingest::grpc::other, ErrorFormat::Grpc, &guard),
        route::fallback(otlp_routes, ingest::http::other, ErrorFormat::Http, &guard),
    ];
    let servers =
        startup_listeners.into_iter().zip(routers).filter_map(|(startup, router)| startup.serve(router)).collect();
    // This task holds the store, which must be free for the next process, so it is awaited at the end.
    let memory = watch_memory(pressure, store.clone(), ingest.clone(), telemetry.clone(), stopped.clone());
    let mut tasks = vec![tokio::spawn(memory)];
    let (reload, reloaded) =
        (Arc::<Notify>::default(), tls.map(|t| t as Arc<dyn Reload>).into_iter().chain(guard.reloaded()).collect());
    tasks.push(tokio::spawn(run_reloads(reloaded, reload.clone(), stopped.clone())));
    let switches =
        gnmi::serve(config.gnmi.clone(), sink.clone(), telemetry.clone(), part(SWITCHES_FRACTION), stopped.clone());
    tasks.push(tokio::spawn(switches));
    if role.judges() {
        tasks.extend(judging::start(state, &api, &ingest, &stopped)?);
    } else {
        tasks.push(tokio::spawn(judges::watch(judges, ingest.clone(), telemetry.clone(), stopped.clone())));
    }
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
        lease,
    })
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

/// Fraction of the memory limit for offers of ports with the probe plans, and for the forwarding tables of InfiniBand subnets; readers of the latter
/// keep the tables before while new ones are told.
const PLANS_FRACTION: u64 = 8;
const TABLES_FRACTION: u64 = 16;
/// The same for the paths of switches that are read by gNMI, and for their samples on the way to the store.
const SWITCHES_FRACTION: u64 = 8;

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

    /// Waits until this judge must stop judging, because it lost its lease; returns why. Never ends without a lease.
    pub async fn lease_lost(&self) -> String {
        match &self.lease {
            Some(lease) => lease.lost().await,
            None => std::future::pending().await,
        }
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
        // A standby takes over at once.
        if tokio::task::spawn_blocking(move || drop(self.lease)).await.is_err() {
            tracing::warn!("giving back the judge's lease failed; a standby takes over later");
        }
    }
}
