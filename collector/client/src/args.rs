//! Arguments of the client commands: `query`, `jobs`, `incidents`, `report`, `topology`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
