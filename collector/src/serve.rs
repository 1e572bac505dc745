//! Build, run, drain: opens the store, binds all listeners, serves until told to stop, and stops in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_store::{OpenError, Options, Store};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use fabriclens_api as api;
use fabriclens_api::Api;
use fabriclens_config::Config;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::reload;
use fabriclens_core::reload::Reload;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_data::{Data, engine};
use fabriclens_evaluation::live;
use fabriclens_forward::{ForwardError, Sink};
use fabriclens_incidents as incidents;
use fabriclens_incidents::{Book, BookError};
use fabriclens_ingest as ingest;
use fabriclens_ingest::Ingest;
use fabriclens_job_sources as jobs;
use fabriclens_job_sources::Jobs;
use fabriclens_server::auth;
use fabriclens_server::auth::{Form, Guard};
use fabriclens_server::listener::{ListenError, Listener, bind};
use fabriclens_server::startup_listener::{Door, Speaks};
use fabriclens_server::tls::acceptor;
use fabriclens_state::AppState;
use fabriclens_topology as topology;
use fabriclens_topology::{Topologies, TopologiesError};

/// Requests that are under way get this long to finish.
const DRAIN: Duration = Duration::from_secs(10);
/// All that is done at the end gets this long; what is not done then is done at the next start.
const STOP: Duration = Duration::from_secs(25);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long a sender may be silent, at least, before what is remembered of it is forgotten; and when memory is short.
const FORGET: Duration = Duration::from_secs(300);
const FORGET_SOON: Duration = Duration::from_secs(20);

/// Why it does not start; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A file that names a token, a password or an authority of another server.
    #[error("{0}; give a file that this user can read")]
    Remote(#[from] fabriclens_core::endpoint::FileError),
    /// The tokens.
    #[error("auth.tokens: {0}; fabriclens token new --file writes such a file")]
    Tokens(String),
    /// A forward queue.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The registry of jobs.
    #[error(transparent)]
    Jobs(#[from] fabriclens_jobs::RegistryError),
    /// The book of incidents.
    #[error(transparent)]
    Incidents(#[from] BookError),
    /// The history of the topology.
    #[error(transparent)]
    Topology(#[from] TopologiesError),
    /// Anything else: a bug or a system without sockets.
    #[error("cannot start: {0}")]
    Other(String),
}

/// A running collector. Dropping it without [`Running::stop`] leaves no time to drain, but loses nothing acknowledged.
pub struct Running {
    /// Main address, with the port in use.
    pub http: SocketAddr,
    /// OTLP over gRPC.
    pub otlp_grpc: SocketAddr,
    /// OTLP over HTTP.
    pub otlp_http: SocketAddr,
    stop: watch::Sender<bool>,
    look: Arc<Notify>,
    servers: Vec<JoinHandle<()>>,
    own: JoinHandle<()>,
    /// Those who tell of jobs and of the topology, and who writes them.
    jobs: Vec<JoinHandle<()>>,
    api: Arc<Api>,
    ingest: Arc<Ingest>,
    book: Arc<Book>,
    store: Arc<Store>,
    sink: Arc<Sink>,
}

/// Opens the store and starts all listeners; returns when they take connections.
///
/// # Errors
/// [`ServeError`]; nothing is left running.
pub async fn start(mut config: Config) -> Result<Running, ServeError> {
    let other = |e: &dyn std::fmt::Display| ServeError::Other(e.to_string());
    let telemetry = Telemetry::new().map_err(|e| other(&e))?;
    let tls = config.tls.as_ref().map(|t| acceptor(t, config.certificates_only(), &telemetry)).transpose()?;
    let guard = Arc::new(Guard::new(&config, &telemetry).map_err(ServeError::Tokens)?);
    // Ports before data: a second start on one machine fails on what is most likely wrong, and touches nothing.
    let [http, grpc, otlp] = config.listen.all();
    let (http, grpc, otlp) = tokio::try_join!(bind(http.0, http.1), bind(grpc.0, grpc.1), bind(otlp.0, otlp.1))?;
    let local = |socket: &tokio::net::TcpListener| socket.local_addr().map_err(|e| other(&e));
    config.listen = fabriclens_config::Listen {
        http: local(&http)?,
        otlp_grpc: local(&grpc)?,
        otlp_http: local(&otlp)?,
        ..config.listen
    };

    // Whoever comes while the log is replayed is told to come again; nobody finds the port closed.
    let (stop, stopped) = watch::channel(false);
    let listener = Listener {
        guard: guard.clone(),
        tls: tls.clone(),
        limits: config.listen.connections,
        telemetry: telemetry.clone(),
    };
    let doors = [(http, Speaks::Http), (grpc, Speaks::Grpc), (otlp, Speaks::Otlp)]
        .map(|(socket, speaks)| Door::open(listener.clone(), socket, speaks, stopped.clone()));
    let store = open(&config).await?;
    let data = Arc::new(Data::new(store.clone(), &config, &telemetry)?);
    let sink = Arc::new(Sink::start(store.clone(), &config, &telemetry)?);
    let jobs = Arc::new(Jobs::open(&store)?);
    let book = Arc::new(Book::open(&store, config.retention.incidents)?);
    let topologies = Arc::new(Topologies::open(&store, &config)?);
    let pressure = Arc::new(Pressure::new(config.memory));
    let ingest = Arc::new(Ingest::new(store.clone(), sink.clone(), telemetry.clone(), config.ingest, pressure.clone()));
    let state = AppState {
        store: store.clone(),
        data: data.clone(),
        queried: Data::joined(data.clone(), &config.peers, &telemetry)?,
        sink: sink.clone(),
        jobs: jobs.clone(),
        book: book.clone(),
        topologies: topologies.clone(),
        pressure: pressure.clone(),
        telemetry: telemetry.clone(),
        config: config.clone(),
    };
    let api = Arc::new(Api::new(state.clone()));
    log_start(&config);

    let main = auth::router(api::routes(), Form::Http, &guard).with_state(api.clone());
    let main = main.merge(auth::router(ingest::http::write_routes(), Form::Http, &guard).with_state(ingest.clone()));
    let grpc_routes = auth::router(ingest::grpc::routes(), Form::Grpc, &guard).with_state(ingest.clone());
    let otlp_routes = auth::router(ingest::http::otlp_routes(), Form::Http, &guard).with_state(ingest.clone());
    let routers = [
        auth::fallback(main, api::unknown, Form::Http, &guard),
        auth::fallback(grpc_routes, ingest::grpc::other, Form::Grpc, &guard),
        auth::fallback(otlp_routes, ingest::http::other, Form::Http, &guard),
    ];
    let servers = doors.into_iter().zip(routers).filter_map(|(door, router)| door.serve(router)).collect();
    let mut tellers = jobs::ask(&jobs, &data, &config, &telemetry, &stopped)?;
    // It holds the store, which is free for the next process only when nobody does.
    let memory = watch_memory(pressure, store.clone(), ingest.clone(), telemetry.clone(), stopped.clone());
    tellers.push(tokio::spawn(memory));
    let (look, reloaded) =
        (Arc::<Notify>::default(), tls.map(|t| t as Arc<dyn Reload>).into_iter().chain(guard.reloaded()).collect());
    tellers.push(tokio::spawn(reload::run(reloaded, look.clone(), stopped.clone())));
    tellers.push(tokio::spawn(live::run(state, stopped.clone())));
    let wired = topology::run(topologies, data.clone(), engine(&config.query), stopped.clone());
    tellers.push(tokio::spawn(wired));
    let rollups = jobs::roll_up(jobs.clone(), data, sink.clone(), engine(&config.query), stopped.clone());
    tellers.push(tokio::spawn(rollups));
    let written = incidents::series::run(
        book.clone(),
        jobs.clone(),
        store.clone(),
        sink.clone(),
        telemetry.clone(),
        stopped.clone(),
    );
    tellers.push(tokio::spawn(written));
    tellers.extend(incidents::notify(&book, &config, &telemetry, &stopped)?);
    let jobs = jobs::run(jobs, sink.clone(), config.clone(), stopped.clone());
    tellers.push(tokio::spawn(jobs));
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
        look,
        servers,
        ingest,
        own: tokio::spawn(own),
        jobs: tellers,
        api,
        book,
        store,
        sink,
    })
}

/// What tells this collector's own series from those of another: where all addresses are listened on, the host's name.
fn instance(config: &Config) -> String {
    let http = config.listen.http;
    if !http.ip().is_unspecified() {
        return http.to_string();
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name}:{}", http.port())
}

async fn open(config: &Config) -> Result<Arc<Store>, ServeError> {
    let options = Options {
        retention: Some(config.retention.age),
        rollups: Some(config.retention.rollups).filter(|age| !age.is_zero()),
        max_bytes: config.retention.size,
        max_future: config.ingest.future,
        series: config.series.clone(),
        max_read_samples: usize::try_from(config.query.max_samples).unwrap_or(usize::MAX),
        ..Options::default()
    };
    let dir = config.data.clone();
    let began = Instant::now();
    let opened = tokio::task::spawn_blocking(move || Store::open(&dir, options)).await;
    let store = opened.map_err(|e| ServeError::Other(e.to_string()))??;
    let stats = store.stats();
    for damage in &stats.damage {
        tracing::warn!(?damage, "damage found in the data directory; the rest is intact");
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
            let risk = if config.asks_who() { "see tokens and samples on their way" } else { "read and write" };
            tracing::warn!(key, %address, "insecure = true: anyone who can reach this address can {risk}");
        }
    }
}

/// Keeps in mind how much memory there is, and has the store make room when it is short.
async fn watch_memory(
    pressure: Arc<Pressure>,
    store: Arc<Store>,
    ingest: Arc<Ingest>,
    telemetry: Telemetry,
    mut stop: watch::Receiver<bool>,
) {
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    telemetry.memory[1].set(whole(pressure.limit()));
    let mut before = Level::Calm;
    let mut told = Instant::now();
    loop {
        pressure.refresh();
        let full = ingest.admission().look(Instant::now());
        telemetry.memory[0].set(whole(pressure.used()));
        ingest.admission().count().iter().zip(&telemetry.senders).for_each(|(n, gauge)| gauge.set(whole(*n as u64)));
        telemetry.waiting.set(whole(ingest.gate().waiting() as u64));
        let level = pressure.level();
        if level > Level::Calm || full {
            store.relieve_memory();
        }
        if told.elapsed() >= if level > Level::Calm { FORGET_SOON } else { FORGET } {
            told = Instant::now();
            let ingest = ingest.clone();
            // It looks at all that is remembered.
            if tokio::task::spawn_blocking(move || ingest.forget_idle()).await.is_err() {
                tracing::warn!("what was remembered of senders that are gone could not be looked through");
            }
        }
        if (level > Level::Calm) != (before > Level::Calm) {
            let (used, limit) = (pressure.used() >> 20, pressure.limit() >> 20);
            match level {
                Level::Calm => tracing::info!(mib = used, limit, "memory is free again"),
                _ => {
                    tracing::warn!(mib = used, limit, "memory is short (limits.memory): senders are told to come back")
                }
            }
            before = level;
        }
        if tokio::time::timeout(LOOK, stop.wait_for(|s| *s)).await.is_ok() {
            return;
        }
    }
}

impl Running {
    /// The incidents, for those who run a collector in their own process.
    pub fn incidents(&self) -> &Arc<Book> {
        &self.book
    }

    /// Looks at certificates and tokens now, and not at the next pace.
    pub fn reload(&self) {
        self.look.notify_one();
    }

    /// Turns away who comes, lets running requests finish, ends its own series, closes the store; in bounded time.
    pub async fn stop(self) {
        if tokio::time::timeout(STOP, self.drain()).await.is_err() {
            let seconds = STOP.as_secs();
            tracing::warn!(seconds, "not all is done that is done at the end; what was acknowledged is kept");
        }
    }

    async fn drain(self) {
        self.api.stopping();
        self.ingest.gate().close();
        self.stop.send_replace(true);
        let drained = async {
            for server in self.servers {
                if server.await.is_err() {
                    tracing::warn!("a listener failed");
                }
            }
        };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "some requests did not finish in time and are cut off");
        }
        if self.own.await.is_err() {
            tracing::warn!("the writer of own metrics failed");
        }
        let jobs = async {
            for task in self.jobs {
                if task.await.is_err() {
                    tracing::warn!("a task of jobs or of the topology failed");
                }
            }
        };
        if tokio::time::timeout(DRAIN, jobs).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "a source of jobs does not answer and is left");
        }
        self.sink.stop();
        let store = self.store;
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::warn!("closing the store failed; its log is replayed at the next start");
        }
    }
}
