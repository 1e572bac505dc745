//! The command line. One place for names, defaults and help; `tests/output/help.txt` pins what it prints.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::auth::Roles;
use crate::config::Overrides;

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

/// The collector that a client talks to.
#[derive(Debug, Args)]
pub struct Server {
    /// Where to ask
    #[arg(
        long,
        value_name = "URL",
        env = "FABRICLENS_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7470"
    )]
    pub url: String,
    /// Certificate authority (PEM) of an https server; without it, the public ones
    #[arg(long, value_name = "FILE", env = "FABRICLENS_CA", hide_env_values = true)]
    pub ca: Option<PathBuf>,
    /// Certificate (PEM) to show to a server that asks for one
    #[arg(long, value_name = "FILE", env = "FABRICLENS_CERT", hide_env_values = true, requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", env = "FABRICLENS_KEY", hide_env_values = true, requires = "cert")]
    pub key: Option<PathBuf>,
    /// A file with the token that the server wants (`fabriclens token new`)
    #[arg(long, value_name = "FILE", env = "FABRICLENS_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
}

/// `jobs`
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Only those that run, or only those that are over
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Of one user
    #[arg(long)]
    pub user: Option<String>,
    /// That have this host
    #[arg(long)]
    pub host: Option<String>,
    /// Of one cluster
    #[arg(long)]
    pub cluster: Option<String>,
    /// That ran after this time, for instance -1d
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub start: Option<String>,
    /// That began before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub end: Option<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub server: Server,
    /// The server's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// `incidents`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct IncidentsArgs {
    /// Say something of them
    #[command(subcommand)]
    pub say: Option<Say>,
    /// Show this one in full
    #[arg(value_name = "ID", conflicts_with_all = ["open", "since", "kind", "node", "job"])]
    pub id: Option<String>,
    /// Only those that go on
    #[arg(long)]
    pub open: bool,
    /// That went on after this: how long ago (1h), Unix seconds, or RFC 3339
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Of one kind, for instance pfc_storm
    #[arg(long)]
    pub kind: Option<String>,
    /// That begin or suffer at this host or switch
    #[arg(long)]
    pub node: Option<String>,
    /// That this job causes or suffers from
    #[arg(long)]
    pub job: Option<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub server: Server,
    /// How to print
    #[arg(long, value_enum, default_value_t = IncidentsFormat::Text)]
    pub format: IncidentsFormat,
}

/// How incidents are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IncidentsFormat {
    /// For people
    Text,
    /// The server's answer as it came
    Json,
}

/// Who says something, and why.
#[derive(Debug, Args)]
pub struct Who {
    /// Who says so
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub by: String,
    /// Why, or what is being done
    #[arg(long, default_value = "", hide_default_value = true)]
    pub note: String,
}

/// What may be said of incidents.
#[derive(Debug, Subcommand)]
pub enum Say {
    /// Somebody looks after it: no more reminders
    Ack {
        /// Which incident
        id: String,
        /// Who.
        #[command(flatten)]
        who: Who,
        /// Whom to tell.
        #[command(flatten)]
        server: Server,
    },
    /// Nobody is told of one, or of all that fit, for a while
    Silence {
        /// Which incident
        #[arg(required_unless_present_any = ["kind", "node", "job"])]
        id: Option<String>,
        /// Of one kind, for instance pfc_storm
        #[arg(long)]
        kind: Option<String>,
        /// That begin or suffer at this host or switch
        #[arg(long)]
        node: Option<String>,
        /// That this job causes or suffers from
        #[arg(long)]
        job: Option<String>,
        /// How long, for instance 2h
        #[arg(long = "for", value_name = "DURATION")]
        duration: String,
        /// Who.
        #[command(flatten)]
        who: Who,
        /// Whom to tell.
        #[command(flatten)]
        server: Server,
    },
    /// End a silence before its time
    Unsilence {
        /// Which silence, as silence printed it
        id: String,
        /// Whom to tell.
        #[command(flatten)]
        server: Server,
    },
    /// Say what it really is: another kind, or not_a_problem
    Reclassify {
        /// Which incident
        id: String,
        /// For instance incast, or not_a_problem
        kind: String,
        /// Who.
        #[command(flatten)]
        who: Who,
        /// Whom to tell.
        #[command(flatten)]
        server: Server,
    },
}

/// `report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The scheduler's id, as `fabriclens jobs` prints it
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Whose id it is, where one collector serves several clusters
    #[arg(long)]
    pub cluster: Option<String>,
    /// Which run under this id, counted from 1 [default: the last]
    #[arg(long)]
    pub run: Option<u32>,
    /// How to write it [default: by the ending of --output, else md]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Where to write it, for instance report.html [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub server: Server,
}

/// `topology`
#[derive(Debug, Args)]
pub struct TopologyArgs {
    /// Of one host or switch
    #[arg(long)]
    pub node: Option<String>,
    /// As it was: Unix seconds, RFC 3339, or how long ago (-1d) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub server: Server,
    /// The server's answer as it came
    #[arg(long)]
    pub json: bool,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One file for a browser, to mail and to print
    Html,
    /// Markdown, for tickets and chats
    Md,
    /// All numbers, for programs (docs/report.schema.json)
    Json,
}

/// Whether a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// It does
    Running,
    /// It is over
    Ended,
}

/// `query`
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The expression in PromQL
    // Said apart: brackets are links in a doc comment.
    #[arg(help = "The expression, for instance 'topk(5, rate(fabric_port_io_bytes_total[1m]))'")]
    #[arg(value_name = "EXPR")]
    pub expression: String,
    /// Whom to ask.
    #[command(flatten)]
    pub server: Server,
    /// Ask about one moment: Unix seconds, RFC 3339, or how long ago (-15m) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["start", "end", "step"])]
    pub time: Option<String>,
    /// Ask about a range: its begin, for instance -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub start: Option<String>,
    /// End of the range [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "start")]
    pub end: Option<String>,
    /// Distance of points in the range [default: a 60th of it, at least 1s]
    #[arg(long, value_name = "DURATION", requires = "start")]
    pub step: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: a line for each series, or a block where lines would be wider than the terminal (COLUMNS)
    Table,
    /// For people: a line for each series, however wide
    Wide,
    /// The server's answer as it came
    Json,
    /// For spreadsheets: one line for each sample
    Csv,
}
