//! The `fabriclens` binary: parses the command line and runs the command; everything else is in the libraries.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use fabriclens::cli::{Cli, Command, ServeArgs};
use fabriclens::{backtest, serve, token};
use fabriclens_base::open_files;
use fabriclens_base::terminal::{self, LogWriter};
use fabriclens_client as client;
use fabriclens_config as config;
use tracing_subscriber::EnvFilter;

// Other allocators keep freed memory of requests and queries in thread caches or almost empty pages: as much again as
// is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Serve(args) => run_serve(args),
        Command::Query(args) => client::query(args).map_err(anyhow::Error::from),
        Command::Top(args) => client::top(args).map_err(anyhow::Error::from),
        Command::Incidents(args) => client::incidents(args).map_err(anyhow::Error::from),
        Command::Jobs(args) => client::jobs(args).map_err(anyhow::Error::from),
        Command::Backtest(args) => backtest::run(args).map_err(anyhow::Error::from),
        Command::Token(args) => token::run(args).map_err(anyhow::Error::msg),
        Command::Topology(args) => client::topology(args).map_err(anyhow::Error::from),
        Command::Switches(args) => client::switches(args).map_err(anyhow::Error::from),
        Command::Probes(args) => client::probes(args).map_err(anyhow::Error::from),
        Command::Audit(args) => client::audit(args).map_err(anyhow::Error::from),
        Command::Report(args) => client::report(args).map_err(anyhow::Error::from),
        Command::Compare(args) => client::compare(args).map_err(anyhow::Error::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fabriclens: {}", terminal::lines(&format!("{e:#}")));
            ExitCode::FAILURE
        }
    }
}

/// Default log filter, unless FABRICLENS_LOG is set. h2 would log a warning for each stream that a peer resets.
const LOG: &str = "info,h2=error";

fn run_serve(args: &ServeArgs) -> anyhow::Result<()> {
    let config = config::load(args.config.as_deref(), std::env::vars(), &args.overrides())?;
    if args.check_config {
        println!("config is valid");
        return Ok(());
    }
    let filter = EnvFilter::try_from_env("FABRICLENS_LOG").unwrap_or_else(|_| EnvFilter::new(LOG));
    let ansi = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(ansi);
    log.with_writer(move || LogWriter::new(std::io::stderr(), ansi)).init();
    raise_open_files(config.listen.connections.all);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let running = tokio::select! {
            started = serve::start(config) => started?,
            signal = signals.ending() => {
                tracing::info!(signal, "stopped before it was ready");
                return anyhow::Ok(());
            }
        };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), page = %format!("http://{}/", running.http), "ready");
        let signal = loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    "SIGHUP" => running.reload(),
                    signal => break signal,
                },
                // Another judge may judge already: ends without a word to anybody.
                why = running.lease_lost() => anyhow::bail!("no longer the active judge: {why}"),
            }
        };
        tracing::info!(signal, "stopping");
        tokio::select! {
            () = running.stop() => tracing::info!("stopped"),
            signal = signals.next() => tracing::warn!(signal, "stopped at once; acknowledged samples are kept"),
        }
        anyhow::Ok(())
    })?;
    // Blocking reads that still run hold nothing that must be finished.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    Ok(())
}

/// Files of the store, at most.
const STORE_FILES: u64 = 1024;

/// Raises the limit of open files, since each agent has a connection; warns if so many connections do not fit.
fn raise_open_files(connections: usize) {
    let limit = open_files::raise().unwrap_or_else(|(error, limit)| {
        tracing::warn!(%error, "cannot raise the limit of open files");
        limit
    });
    if limit < connections as u64 + STORE_FILES {
        tracing::warn!(
            limit,
            connections,
            "may open fewer files than connections (listen.connections); set LimitNOFILE"
        );
    }
}

/// Signals that stop the process or make it reload files.
struct Signals {
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal that ends the process.
    async fn ending(&mut self) -> &'static str {
        loop {
            match self.next().await {
                "SIGHUP" => {}
                signal => return signal,
            }
        }
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.hangup.recv() => "SIGHUP",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
