//! The command line. One place for names, defaults and help; `tests/output/help.txt` pins what it prints.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fabriclens_client::args::{IncidentsArgs, JobsArgs, QueryArgs, ReportArgs, TopologyArgs};
use fabriclens_config::{Overrides, Roles};

/// Fabric telemetry: collect it, keep it, ask it.
#[derive(Debug, Parser)]
#[command(name = "fabriclens", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the collector
    ///
    /// Without arguments: data under ./fabriclens-data, listening on this host only (7470 for people, Grafana and
    /// remote write, 4317 for OTLP/gRPC, 4318 for OTLP/HTTP). The config can also send samples on to other servers, or
    /// leave them to another engine (docs/remote.md).
    Serve(ServeArgs),
    /// Ask a collector, or any Prometheus-compatible server, in PromQL
    Query(QueryArgs),
    /// List jobs: whose, where, since when
    Jobs(JobsArgs),
    /// What is wrong and was: list, show one, acknowledge, silence, reclassify
    ///
    /// docs/incidents.md tells what each field means, and where else incidents go.
    Incidents(Box<IncidentsArgs>),
    /// Judge a recording: what was wrong, where, since when, who suffered
    ///
    /// Runs the detectors over recorded counters as a live collector would have: each sample sees only what was before it.
    /// A recording is a directory with topology.json, jobs.json and ports.csv.gz (docs/verdicts.md).
    Backtest(BacktestArgs),
    /// Write what the network did for and to a job
    Report(ReportArgs),
    /// Make a token for somebody who asks a collector, or sends to it
    Token(TokenArgs),
    /// List cables: which port is wired to which, and how that is known
    Topology(TopologyArgs),
}

/// `backtest`
#[derive(Debug, Args)]
pub struct BacktestArgs {
    /// Directories with a recording each
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Verdicts::Text)]
    pub format: Verdicts,
    /// Multiply times and cumulative counters, so that ticks of a simulator (1 ms) stand for samples (1 s)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub stretch: u32,
    /// Whose counters to read
    #[arg(long, value_enum, default_value_t = PortsOf::All)]
    pub ports: PortsOf,
    /// Judge by another number than the default (docs/verdicts.md lists them); may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
}

/// How verdicts are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verdicts {
    /// For people
    Text,
    /// {"incidents": […]}
    Json,
}

/// Whose counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortsOf {
    /// Hosts' and switches'
    All,
    /// Hosts' alone, as where nobody reads the switches
    Hosts,
}

/// `token`
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// What to do
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Print a new token, once, and the line that makes it known to a collector (auth.tokens)
    New(NewToken),
}

/// `token new`
#[derive(Debug, Args)]
pub struct NewToken {
    /// Who gets it, for instance grafana; refusals and the audit log name it
    pub name: String,
    /// What for: ingest, read, write or admin; several with commas
    #[arg(long, value_name = "ROLES")]
    pub role: Roles,
    /// The only host of which it may write samples
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// How long it is good, for instance 365d [default: until its line is removed]
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<String>,
    /// Append the line to this file and print the token alone
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Directory for samples, created when missing [default: ./fabriclens-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address of API, page and remote write [default: 127.0.0.1:7470]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Address of OTLP over gRPC [default: 127.0.0.1:4317]
    #[arg(long, value_name = "ADDR")]
    pub otlp_grpc: Option<String>,
    /// Address of OTLP over HTTP [default: 127.0.0.1:4318]
    #[arg(long, value_name = "ADDR")]
    pub otlp_http: Option<String>,
    /// How long samples are kept, for instance 30d or 100y [default: 30d]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<String>,
    /// Config file (TOML); flags and FABRICLENS_… variables override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the config and exit
    #[arg(long)]
    pub check_config: bool,
}

impl ServeArgs {
    /// The flags that override config keys.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            data: self.data.clone(),
            http: self.http.clone(),
            otlp_grpc: self.otlp_grpc.clone(),
            otlp_http: self.otlp_http.clone(),
            retention: self.retention.clone(),
        }
    }
}
