//! The command line: names, defaults and help of all commands; `tests/output/help.txt` pins the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fabriclens_client::args::{
    AuditArgs, CompareArgs, IncidentsArgs, JobsArgs, ProbesArgs, QueryArgs, ReportArgs, SwitchesArgs, TopArgs,
    TopologyArgs,
};
use fabriclens_config::{Overrides, Roles};

/// Fabriclens collector and command-line client
#[derive(Debug, Parser)]
#[command(name = "fabriclens", version, max_term_width = 100)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the collector
    ///
    /// Without arguments: data under ./fabriclens-data, listening on this host only (7470 for people, Grafana and
    /// remote write, 4317 for OTLP/gRPC, 4318 for OTLP/HTTP). The configuration can also forward samples to other
    /// servers, or store them in another engine (docs/remote.md).
    Serve(ServeArgs),
    /// Query a collector, or any Prometheus-compatible server, in PromQL
    Query(QueryArgs),
    /// Show incidents, ports and jobs in the terminal, refreshed
    Top(TopArgs),
    /// List jobs with their users, hosts and times; delete some
    Jobs(Box<JobsArgs>),
    /// List incidents; show, acknowledge, silence or reclassify one
    ///
    /// docs/incidents.md explains each field, and where else incidents are published.
    Incidents(Box<IncidentsArgs>),
    /// Run the detectors over recordings
    ///
    /// Evaluates recorded counters as a live collector would have: each sample sees only earlier ones. A recording is a
    /// directory with topology.json, jobs.json and ports.csv.gz (docs/verdicts.md).
    Backtest(BacktestArgs),
    /// Write the communication report of a job
    Report(ReportArgs),
    /// Compare two jobs, or two runs of a job, by their reports
    ///
    /// First what differs beyond noise, then all numbers (docs/report.md).
    Compare(CompareArgs),
    /// Create access tokens
    Token(TokenArgs),
    /// List cables: which ports they connect, and how each is known
    Topology(TopologyArgs),
    /// List switches that push their counters, and names that are not understood
    Switches(SwitchesArgs),
    /// Show what agents trace and probe, and which links that covers
    Probes(ProbesArgs),
    /// List settings of ports that differ from those of their kind; write a baseline
    ///
    /// Compares with the site's baselines (audit.baselines), the other end of the link, and most ports of the rail. docs/audit.md
    /// explains each setting.
    Audit(AuditArgs),
}

/// Arguments of `backtest`.
#[derive(Debug, Args)]
pub struct BacktestArgs {
    /// Directories with one recording each
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Verdicts::Text)]
    pub format: Verdicts,
    /// Multiply times and cumulative counters, so that ticks of a simulator (1 ms) stand for samples (1 s)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub stretch: u32,
    /// Ports whose counters are read
    #[arg(long, value_enum, default_value_t = PortsOf::All)]
    pub ports: PortsOf,
    /// Override a threshold (docs/verdicts.md lists them); may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
}

/// Output format of `backtest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verdicts {
    /// For people
    Text,
    /// {"incidents": […]}
    Json,
}

/// Ports whose counters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PortsOf {
    /// Ports of hosts and switches
    All,
    /// Ports of hosts only, as if switches were not monitored
    Hosts,
}

/// Arguments of `token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Command to run
    #[command(subcommand)]
    pub command: TokenCommand,
}

/// Subcommands of `token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token; prints it once, with the line that goes into the collector's token file (auth.tokens)
    New(NewToken),
}

/// Arguments of `token new`.
#[derive(Debug, Args)]
pub struct NewToken {
    /// Name of the owner, for instance grafana; shown in refusals and the audit log
    pub name: String,
    /// Roles: ingest, read, write or admin; separate several with commas
    #[arg(long, value_name = "ROLES")]
    pub role: Roles,
    /// The only host whose samples the owner may write
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Lifetime, for instance 365d [default: until its line is removed]
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<String>,
    /// Append the line to this file and print only the token
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Data directory, created if missing [default: ./fabriclens-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Part of a collector that this process is: all, ingest or judge (docs/roles.md) [default: all]
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Address of API, console and remote write [default: 127.0.0.1:7470]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Address of OTLP over gRPC [default: 127.0.0.1:4317]
    #[arg(long, value_name = "ADDR")]
    pub otlp_grpc: Option<String>,
    /// Address of OTLP over HTTP [default: 127.0.0.1:4318]
    #[arg(long, value_name = "ADDR")]
    pub otlp_http: Option<String>,
    /// Retention of samples, for instance 30d or 100y [default: 30d]
    #[arg(long, value_name = "DURATION")]
    pub retention: Option<String>,
    /// Configuration file (TOML); flags and FABRICLENS_… variables override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    pub check_config: bool,
}

impl ServeArgs {
    /// The flags that override configuration keys.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            data: self.data.clone(),
            role: self.role.clone(),
            http: self.http.clone(),
            otlp_grpc: self.otlp_grpc.clone(),
            otlp_http: self.otlp_http.clone(),
            retention: self.retention.clone(),
        }
    }
}
