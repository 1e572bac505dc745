//! The daemon: builds engine, uplinks and HTTP server, waits for a signal, stops them in order.

use crate::config::Config;
use crate::http::{App, Counters, Server, View};
use crate::sandbox::{Role, Sandbox, SandboxRuleset};
use crate::schedule::Engine;
use crate::uplinks::uplinks;
use anyhow::Context as _;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_uplink::{
    ForwardingTask, LeaseTask, PlanTask, ProbePlans, ReaderLease, ReportTask, SharedTables, Uplink,
};
use fabriclens_base::terminal::LogWriter;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Time that sampling threads have to end; a thread stuck in a driver is abandoned.
const THREADS: Duration = Duration::from_secs(2);
/// Blocking threads per collector: for the spool's disk, which may hang, and for name resolution.
const BLOCKING: usize = 4;
/// Time that HTTP answers in progress have at shutdown.
const HTTP: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT, then sends the queued samples. A second signal ends the process at once.
///
/// # Errors
/// Only before sampling begins: an address that cannot be bound, a certificate that cannot be read.
pub fn run(roots: Arc<Roots>, config: Config) -> anyhow::Result<()> {
    start_log(&config.log)?;
    raise_open_files();
    capabilities::of_agent();
    // One thread is enough: sampling has its own threads, and this one waits for sockets.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING * (1 + config.collector.as_ref().map_or(0, |c| c.uplink_count())))
        .build()
        .context("starting the runtime")?;
    let end = runtime.block_on(serve(roots, config));
    runtime.shutdown_background();
    end
}

/// Raises the limit of open files: each counter file stays open.
fn raise_open_files() {
    if let Err((error, limit)) = fabriclens_base::open_files::raise() {
        tracing::warn!(%error, limit, "cannot raise the limit of open files; set LimitNOFILE on hosts with many adapters");
    }
}

async fn serve(roots: Arc<Roots>, config: Config) -> anyhow::Result<()> {
    let host: Arc<str> = config.settings.host.as_str().into();
    let mut signals = [signal(SignalKind::terminate()), signal(SignalKind::interrupt())]
        .into_iter()
        .collect::<Result<Vec<Signal>, _>>()
        .context("listening for signals")?;
    warn_of_plain_text(&config);
    let (mut settings, mut config) = (config.settings.clone(), config);
    settings.ring_readers = config.collector.as_ref().map_or(0, |c| c.uplink_count());
    if roots.is_recorded() {
        // Several agents may replay a recording at once, and it is of another boot.
        settings.state_dir = None;
    }
    if !config.spool.is_for(roots.is_recorded()) {
        config.spool.dir = None;
    }
    let sandbox = if config.sandbox { Sandbox::new(SandboxRuleset::of(&roots, &config)) } else { Sandbox::default() };
    settings.sandbox = sandbox.clone();
    // Without a collector the agent reads without a lease.
    let asks = config.collector.is_some() && settings.ib_fabric.as_ref().is_some_and(|fabric| fabric.lease);
    settings.reader_lease = asks.then(|| Arc::new(ReaderLease::new(&host)));
    // Only the holder of the lease may tell them.
    settings.forwarding_tables = asks.then(Arc::<SharedTables>::default);
    let lease = settings.reader_lease.clone().zip(settings.forwarding_tables.clone());
    // Without a collector there is no plan, so nothing is traced or probed; nor is it from the ports of a recording.
    let plans = settings.ring_readers > 0 && settings.probing.is_some() && !roots.is_recorded();
    settings.probe_plans = plans.then(|| Arc::new(ProbePlans::new(&host, settings.ring_readers)));
    let plans = settings.probe_plans.clone();
    let engine = Arc::new(Engine::start(roots, settings)?);
    capabilities::without_probes();
    sandbox.enter(Role::Plain);
    let (stop, stopped) = watch::channel(false);
    let (stop_http, http_stopped) = watch::channel(false);

    let http_counters = Arc::new(Counters::default());
    let uplinks = match &config.collector {
        Some(collector) => uplinks(collector, &config.spool, &host, &engine, &http_counters)?,
        None => Vec::new(),
    };
    let counters = uplinks.iter().map(Uplink::counters).collect();
    let mut http = None;
    if let Some(config) = &config.http {
        let view: Arc<dyn View> = engine.clone();
        let app = App { view, uplinks: counters, counters: http_counters, host: Arc::clone(&host) };
        let server = Server::bind(config, app).await?;
        let scheme = if config.identity.is_some() { "https" } else { "http" };
        tracing::info!("serving {scheme}://{}/metrics", server.address().unwrap_or(config.listen));
        http = Some(tokio::spawn(server.serve(ended(http_stopped))));
    } else if uplinks.is_empty() {
        tracing::warn!("neither a collector nor http is configured: samples go nowhere");
    }
    let mut running = JoinSet::new();
    if let Some((lease, tables)) = lease {
        running.spawn(LeaseTask::new(&lease, &uplinks).run(stopped.clone()));
        for task in ForwardingTask::of(&lease, &tables, &uplinks) {
            running.spawn(task.run(stopped.clone()));
        }
    }
    if let Some(plans) = plans {
        running.spawn(PlanTask::new(&plans, &uplinks).run(stopped.clone()));
        for task in ReportTask::of(&plans, &uplinks) {
            running.spawn(task.run(stopped.clone()));
        }
    }
    for uplink in uplinks {
        running.spawn(uplink.run(stopped.clone()));
    }

    let ended = signalled(&mut signals, &mut running).await;
    match &ended {
        Ok(()) => tracing::info!("stopping; a second signal ends at once"),
        Err(error) => tracing::error!("{error}; stopping"),
    }
    let end = async {
        _ = stop_http.send(true);
        if let Some(http) = http {
            // A scraper that never reads its answer must not delay shutdown.
            _ = tokio::time::timeout(HTTP, http).await;
        }
        // Samplers stop before the uplink, so that its last batch holds their last values. If a scraper still holds the
        // engine, its threads end with the process.
        if let Some(engine) = Arc::into_inner(engine) {
            _ = tokio::task::spawn_blocking(move || engine.shutdown(THREADS)).await;
        }
        _ = stop.send(true);
        while running.join_next().await.is_some() {}
    };
    tokio::select! {
        () = end => {}
        () = next(&mut signals) => tracing::warn!("ended by a second signal; queued samples are lost"),
    }
    ended
}

/// Waits for a signal. Fails if an uplink ends before: the service manager then restarts the agent, which is better
/// than sampling without delivery.
async fn signalled(signals: &mut [Signal], uplinks: &mut JoinSet<()>) -> anyhow::Result<()> {
    tokio::select! {
        () = next(signals) => Ok(()),
        Some(ended) = uplinks.join_next() => {
            let why = ended.err().map(|error| error.to_string()).unwrap_or_default();
            anyhow::bail!("an uplink task panicked ({why}); please report this bug")
        }
    }
}

async fn ended(mut stopped: watch::Receiver<bool>) {
    _ = stopped.wait_for(|s| *s).await;
}

async fn next(signals: &mut [Signal]) {
    let waits = signals.iter_mut().map(|s| Box::pin(async move { s.recv().await }));
    let mut waits: Vec<_> = waits.collect();
    std::future::poll_fn(|cx| {
        let arrived = waits.iter_mut().any(|w| w.as_mut().poll(cx).is_ready());
        if arrived { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

fn warn_of_plain_text(config: &Config) {
    if let Some(http) = config.http.as_ref().filter(|h| h.insecure) {
        tracing::warn!(address = %http.listen, "insecure: /metrics is served in plain text beyond this host");
    }
    if let Some(collector) = config.collector.as_ref().filter(|c| c.insecure) {
        tracing::warn!(collector = collector.url, others = ?collector.others, "insecure: samples leave this host in plain text");
    }
}

/// Modules of this crate that became crates: old log target and new one.
const MOVED_TARGETS: &[(&str, &str)] = &[
    ("fabriclens_agent::discover", "fabriclens_agent_host::discover"),
    ("fabriclens_agent::privileges", "fabriclens_agent_host::capabilities"),
    ("fabriclens_agent::ebpf", "fabriclens_agent_probes"),
    ("fabriclens_agent::samplers", "fabriclens_agent_samplers::sources"),
    ("fabriclens_agent::spool", "fabriclens_agent_uplink::spool"),
    ("fabriclens_agent::uplink", "fabriclens_agent_uplink"),
    ("fabriclens_agent::workload", "fabriclens_agent_workload"),
];

/// Rewrites former module names in a log filter, so that existing configurations keep their effect.
fn current_targets(filter: &str) -> String {
    let rewrite = |directive: &str| {
        let directive = directive.trim();
        let moved = MOVED_TARGETS.iter().find_map(|(old, new)| {
            let rest = directive.strip_prefix(old)?;
            (rest.is_empty() || rest.starts_with(['=', '[', ':'])).then(|| format!("{new}{rest}"))
        });
        moved.unwrap_or_else(|| directive.to_owned())
    };
    filter.split(',').map(rewrite).collect::<Vec<_>>().join(",")
}

fn start_log(filter: &str) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(current_targets(filter))
        .with_context(|| format!("log = {filter:?} is not a log filter; write for example info"))?;
    let colours = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.with_writer(move || LogWriter::new(std::io::stderr(), colours));
    // The journal adds time stamps itself.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let started = if journal { log.without_time().try_init() } else { log.try_init() };
    started.map_err(|e| anyhow::anyhow!("starting the log: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_log_targets_keep_their_effect() {
        let old = "warn, fabriclens_agent::uplink=debug,fabriclens_agent::uplinks=info,fabriclens_agent::uplink::live";
        let new = "warn,fabriclens_agent_uplink=debug,fabriclens_agent::uplinks=info,fabriclens_agent_uplink::live";
        assert_eq!(current_targets(old), new);
    }

    #[tokio::test]
    async fn an_uplink_that_fails_ends_the_agent_and_says_so() {
        let mut signals = [signal(SignalKind::user_defined1()).expect("listening")];
        let mut uplinks = JoinSet::new();
        uplinks.spawn(std::future::pending());
        uplinks.spawn(async { panic!("broken on purpose") });
        let error = signalled(&mut signals, &mut uplinks).await.expect_err("it has failed");
        assert!(error.to_string().contains("broken on purpose"), "{error}");
    }

    #[tokio::test]
    async fn without_an_uplink_a_signal_is_what_ends_it() {
        let mut signals = [signal(SignalKind::user_defined2()).expect("listening")];
        let (own, mut none) = (rustix::process::getpid(), JoinSet::new());
        let (ended, ()) = tokio::join!(signalled(&mut signals, &mut none), async {
            tokio::task::yield_now().await;
            rustix::process::kill_process(own, rustix::process::Signal::USR2).expect("sent");
        });
        assert!(ended.is_ok());
    }
}
