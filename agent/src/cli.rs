//! Flags and subcommands. `main` calls [`execute`]; `tests/help.rs` pins what `--help` prints.

use crate::config::{self, Config, Overrides};
use crate::exposition::{self, Format};
use crate::schedule::Settings;
use crate::{capture, doctor, ib_fabric, local_client, run, schedule, status, top};
use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers as samplers;
use fabriclens_base::terminal;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Reads every RDMA, Ethernet and PCIe counter of this host, and sends or serves them.
#[derive(Debug, Parser)]
#[command(name = "fabriclens-agent", version, max_term_width = 100)]
pub struct Cli {
    /// Flags of every subcommand.
    #[command(flatten)]
    pub common: Common,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every subcommand.
#[derive(Debug, Args)]
pub struct Common {
    /// Config file (TOML); optional
    #[arg(long, global = true, value_name = "FILE", env = "FABRICLENS_AGENT_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Directory that holds /sys, /proc and /run: a bind mount of the host, or a recorded host
    #[arg(long, global = true, value_name = "DIR", env = "FABRICLENS_AGENT_ROOT", hide_env_values = true)]
    pub root: Option<PathBuf>,
    /// Name of this host in every series [default: the kernel's host name]
    #[arg(long, global = true, value_name = "NAME")]
    pub host: Option<String>,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Sample until stopped: serve /metrics and send to a collector
    Run(RunArgs),
    /// Print one sample and exit
    Once {
        /// Output format
        #[arg(long, value_enum, default_value_t = OnceFormat::Prometheus)]
        format: OnceFormat,
    },
    /// List every counter source with its state, the remedy if it has no data, and its read cost
    Doctor {
        /// Output format
        #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
        format: DoctorFormat,
    },
    /// Show the health of the agent running on this host; fails if it does not answer
    Status {
        /// Output format
        #[arg(long, value_enum, default_value_t = DoctorFormat::Text)]
        format: DoctorFormat,
    },
    /// Show what the ports of this host do now, from the agent running on it: rates, pause, waits, errors, jobs
    Top(TopArgs),
    /// Print the InfiniBand subnet of this host: switches, ports and links; reads it by management datagrams
    IbFabric {
        /// Print instead the path between two LIDs, by the forwarding tables
        #[arg(long, num_args = 2, value_names = ["FROM", "TO"])]
        path: Option<Vec<u16>>,
    },
    /// Record this host for support and tests; `once --root DIR` replays the recording
    Capture(CaptureArgs),
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Serve /metrics here [default: 127.0.0.1:7471]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Send to this collector by OTLP/gRPC, for instance http://127.0.0.1:4317
    #[arg(long, value_name = "URL")]
    pub collector: Option<String>,
    /// Check the config and exit
    #[arg(long)]
    pub check_config: bool,
}

/// Flags of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print the tables once, as text, and exit
    #[arg(long)]
    pub once: bool,
    /// Time between two readings
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = fabriclens_base::duration::parse)]
    pub interval: Duration,
}

/// Flags of `capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// New or empty directory to write to
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Number of recordings, written to DIR/0, DIR/1, …
    #[arg(long, value_name = "N")]
    pub ticks: Option<u32>,
    /// Time between two ticks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = fabriclens_base::duration::parse)]
    pub interval: Duration,
    /// Replace addresses, GUIDs, serial numbers and host names, consistently within the recording
    #[arg(long)]
    pub scrub: bool,
}

/// Formats of `once`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnceFormat {
    /// Prometheus text 0.0.4
    Prometheus,
    /// OpenMetrics 1.0
    Openmetrics,
    /// JSON, with the state of each source
    Json,
}

/// Formats of `doctor` and `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// Text for people
    Text,
    /// JSON
    Json,
}

/// Executes the subcommand.
///
/// # Errors
/// The first failure, with its causes; `main` prints the chain.
pub fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let roots = Arc::new(roots(&cli.common)?);
    let mut config = load(&cli)?;
    if config.settings.host.is_empty() {
        config.settings.host = host_name(&roots);
    }
    match cli.command {
        Command::Run(args) if args.check_config => {
            print("config is valid\n")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(_) => run::run(roots, config).map(|()| ExitCode::SUCCESS),
        Command::Once { format } => once(roots, &config.settings, format),
        Command::Doctor { format } => {
            let bounds = doctor::bounds(&roots, &config);
            let report = doctor::examine(roots, &config.settings).with_spool(&config).with_bounds(bounds);
            match format {
                DoctorFormat::Text => print(&report.text())?,
                DoctorFormat::Json => print(&format!("{:#}\n", report.json()))?,
            }
            Ok(if report.healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Status { format } => {
            let health = local_client::ask(config.http.as_ref(), "/healthz")?;
            match format {
                DoctorFormat::Text => print(&status::text(&health))?,
                DoctorFormat::Json => print(&format!("{health:#}\n"))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Top(args) => {
            let source = top::AgentSource::new(config.http);
            match args.once {
                true => print(&top::once(source, args.interval)?)?,
                false => fabriclens_top::run("fabriclens-agent top", source, args.interval)
                    .context("top; without a terminal, use --once")?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::IbFabric { path } => {
            // Works before it is enabled: what it prints helps to decide.
            let text = match path.as_deref() {
                Some(&[from, to]) => ib_fabric::path(&config.ib_fabric, &roots, from, to),
                _ => ib_fabric::report(&config.ib_fabric, &roots),
            };
            print(&text.map_err(anyhow::Error::msg)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Capture(args) => {
            let options = capture::Options {
                dir: args.dir,
                ticks: args.ticks,
                interval: args.interval,
                scrub: args.scrub,
                host: config.settings.host,
                exclude_devices: config.settings.exclude_devices,
            };
            let done = capture::capture(&roots, &options).context("capture")?;
            print(&format!("{done}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn once(roots: Arc<Roots>, settings: &Settings, format: OnceFormat) -> anyhow::Result<ExitCode> {
    let (sections, sources) = schedule::once(roots, settings);
    match format {
        OnceFormat::Prometheus => print(&exposition::render(&sections, Format::Prometheus))?,
        OnceFormat::Openmetrics => print(&exposition::render(&sections, Format::OpenMetrics))?,
        OnceFormat::Json => print(&format!("{:#}\n", exposition::json(&sections, &sources)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load(cli: &Cli) -> anyhow::Result<Config> {
    let mut flags = Overrides { host: cli.common.host.clone(), ..Overrides::default() };
    if let Command::Run(args) = &cli.command {
        flags.http.clone_from(&args.http);
        flags.collector.clone_from(&args.collector);
    }
    let names: Vec<&str> = samplers::ALL.iter().map(|s| s.name).collect();
    let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    Ok(config::load(cli.common.config.as_deref(), env, &flags, &names)?)
}

fn roots(common: &Common) -> anyhow::Result<Roots> {
    if let Some(root) = &common.root {
        let dir = std::fs::metadata(root).with_context(|| format!("--root {}", root.display()))?;
        anyhow::ensure!(dir.is_dir(), "--root {} is not a directory", root.display());
        let sys = root.join("sys");
        anyhow::ensure!(
            sys.is_dir(),
            "{} is missing; --root expects the directory that contains sys and proc",
            sys.display()
        );
    }
    Ok(Roots::new(common.root.clone()))
}

/// The kernel's host name; for a recording without one, its directory's name.
pub fn host_name(roots: &Roots) -> String {
    let kernel = std::fs::read_to_string(roots.proc().join("sys/kernel/hostname")).unwrap_or_default();
    let directory = || Some(roots.base().canonicalize().ok()?.file_name()?.to_string_lossy().into_owned());
    match kernel.trim() {
        "" => directory().unwrap_or_else(|| "localhost".to_owned()),
        name => name.to_owned(),
    }
}

/// Writes to standard output, without characters that act on a terminal. A closed pipe (`head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(terminal::lines(text).as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to standard output"),
    }
}
