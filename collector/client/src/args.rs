//! Command-line arguments of the client commands: `query`, `top`, `jobs`, `incidents`, `report`, `compare`, `topology`,
//! `switches`, `probes`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The server of a client command.
#[derive(Clone, Debug, Args)]
pub struct Server {
    /// URL of the server
    #[arg(
        long,
        value_name = "URL",
        env = "FABRICLENS_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7470"
    )]
    pub url: String,
    /// Certificate authority (PEM) of an https server [default: the public ones]
    #[arg(long, value_name = "FILE", env = "FABRICLENS_CA", hide_env_values = true)]
    pub ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "FABRICLENS_CERT", hide_env_values = true, requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "FABRICLENS_KEY", hide_env_values = true, requires = "cert")]
    pub key: Option<PathBuf>,
    /// File with the access token (`fabriclens token new`)
    #[arg(long, value_name = "FILE", env = "FABRICLENS_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
}

/// Arguments of `jobs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct JobsArgs {
    /// Action.
    #[command(subcommand)]
    pub action: Option<JobsAction>,
    /// Only jobs in this state
    #[arg(long, value_enum)]
    pub state: Option<State>,
    /// Only jobs of this user
    #[arg(long)]
    pub user: Option<String>,
    /// Only jobs on this host
    #[arg(long)]
    pub host: Option<String>,
    /// Only jobs of this cluster
    #[arg(long)]
    pub cluster: Option<String>,
    /// Only jobs that this sender reported, as the JSON shows it in reported_by: caller/ann, host/gpu-01
    #[arg(long)]
    pub sender: Option<String>,
    /// Only jobs that ran after this time, for instance -1d
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub start: Option<String>,
    /// Only jobs that began before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub end: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Actions on jobs.
#[derive(Debug, Subcommand)]
pub enum JobsAction {
    /// Delete a job with all its runs, or all jobs of one sender; needs the role admin
    Delete {
        /// ID of the job
        #[arg(required_unless_present = "sender")]
        id: Option<String>,
        /// Cluster of the job, if the collector serves several clusters
        #[arg(long, conflicts_with = "sender")]
        cluster: Option<String>,
        /// Delete all jobs that only this sender reported, as the JSON shows it in reported_by: host/gpu-01
        #[arg(long, conflicts_with = "id")]
        sender: Option<String>,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
}

/// Arguments of `incidents`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct IncidentsArgs {
    /// Action.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Show this incident in full
    #[arg(value_name = "ID", conflicts_with_all = ["open", "since", "kind", "node", "job", "severity"])]
    pub id: Option<String>,
    /// Only open incidents
    #[arg(long)]
    pub open: bool,
    /// Only incidents open after this time: how long ago (1h), Unix seconds, or RFC 3339
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only incidents of this kind, for instance pfc_storm
    #[arg(long)]
    pub kind: Option<String>,
    /// Only incidents with this host or switch as cause or victim
    #[arg(long)]
    pub node: Option<String>,
    /// Only incidents with this job as culprit or victim
    #[arg(long)]
    pub job: Option<String>,
    /// Only incidents of this severity: critical, warning, or info (observations, which are not listed otherwise)
    #[arg(long)]
    pub severity: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Output format
    #[arg(long, value_enum, default_value_t = IncidentsFormat::Text)]
    pub format: IncidentsFormat,
}

/// Output format of `incidents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IncidentsFormat {
    /// For people
    Text,
    /// JSON of the server
    Json,
}

/// Author and note of an action.
#[derive(Debug, Args)]
pub struct Author {
    /// Your name
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub by: String,
    /// Note for other operators, for instance the reason
    #[arg(long, default_value = "", hide_default_value = true)]
    pub note: String,
}

/// Actions on incidents.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Acknowledge an incident: no more reminders
    Ack {
        /// ID of the incident
        id: String,
        /// Author and note.
        #[command(flatten)]
        author: Author,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
    /// Add a note to the history of an incident
    #[command(mut_arg("note", |note| note.required(true)))]
    Note {
        /// ID of the incident
        id: String,
        /// Author and note.
        #[command(flatten)]
        author: Author,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
    /// Silence an incident, or all matching ones: no notifications for a while
    Silence {
        /// ID of the incident
        #[arg(required_unless_present_any = ["kind", "node", "job"])]
        id: Option<String>,
        /// Kind, for instance pfc_storm
        #[arg(long)]
        kind: Option<String>,
        /// Host or switch that is cause or victim
        #[arg(long)]
        node: Option<String>,
        /// Job that is culprit or victim
        #[arg(long)]
        job: Option<String>,
        /// Duration, for instance 2h
        #[arg(long = "for", value_name = "DURATION")]
        duration: String,
        /// Author and note.
        #[command(flatten)]
        author: Author,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
    /// End a silence early
    Unsilence {
        /// ID of the silence, as printed by silence
        id: String,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
    /// Reclassify an incident as another kind, or as not_a_problem
    Reclassify {
        /// ID of the incident
        id: String,
        /// Kind, for instance incast, or not_a_problem
        kind: String,
        /// Author and note.
        #[command(flatten)]
        author: Author,
        /// Server.
        #[command(flatten)]
        server: Server,
    },
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// ID of the job, as printed by `fabriclens jobs`
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Cluster of the job, if the collector serves several clusters
    #[arg(long)]
    pub cluster: Option<String>,
    /// Run of this ID, counted from 1 [default: the last]
    #[arg(long)]
    pub run: Option<u32>,
    /// Format of the report [default: by the extension of --output, otherwise md]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// File to write, for instance report.html [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// ID of the first job, as printed by `fabriclens jobs`
    #[arg(value_name = "JOB_A")]
    pub job_a: String,
    /// ID of the second job; changes are those from the first to the second
    #[arg(value_name = "JOB_B")]
    pub job_b: String,
    /// Run of the first ID, counted from 1 [default: the last]
    #[arg(long, value_name = "RUN")]
    pub run_a: Option<u32>,
    /// Run of the second ID, counted from 1 [default: the last]
    #[arg(long, value_name = "RUN")]
    pub run_b: Option<u32>,
    /// Cluster of the jobs, if the collector serves several clusters
    #[arg(long)]
    pub cluster: Option<String>,
    /// Cluster of the second job [default: that of the first]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster_b: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Output format
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
}

/// Output format of `compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For people
    Text,
    /// JSON with all numbers
    Json,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print the tables once, as text, and exit
    #[arg(long)]
    pub once: bool,
    /// Time between two readings
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = fabriclens_base::duration::parse)]
    pub interval: std::time::Duration,
    /// Server.
    #[command(flatten)]
    pub server: Server,
}

/// Arguments of `switches`.
#[derive(Debug, Args)]
pub struct SwitchesArgs {
    /// List the metric names that are not understood
    #[arg(long)]
    pub unknown: bool,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Only settings of this host
    #[arg(long)]
    pub host: Option<String>,
    /// Only this setting (docs/audit.md lists them)
    #[arg(long)]
    pub setting: Option<String>,
    /// Only this severity: critical, warning or info
    #[arg(long)]
    pub severity: Option<String>,
    /// Print the settings of a healthy host as baselines for all hosts (audit.baselines)
    #[arg(long, value_name = "HOST", conflicts_with_all = ["host", "setting", "severity", "json"])]
    pub learn: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `probes`.
#[derive(Debug, Args)]
pub struct ProbesArgs {
    /// Show the plan of this host, the most important pairs first, and the last trace of each source port
    #[arg(long)]
    pub host: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `topology`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TopologyArgs {
    /// Another question.
    #[command(subcommand)]
    pub command: Option<TopologyCommand>,
    /// Only cables of this host or switch
    #[arg(long)]
    pub node: Option<String>,
    /// Topology at this time: Unix seconds, RFC 3339, or how long ago (-1d) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<String>,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Subcommands of `topology`.
#[derive(Debug, Subcommand)]
pub enum TopologyCommand {
    /// Print the path between two host ports of an InfiniBand subnet, by its forwarding tables
    Path(TopologyPathArgs),
}

/// Arguments of `topology path`.
#[derive(Debug, Args)]
pub struct TopologyPathArgs {
    /// Sending port, for instance node1:mlx5_0/1; the host alone if it has one port
    pub from: String,
    /// Receiving port
    pub to: String,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Print the JSON of the server
    #[arg(long)]
    pub json: bool,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One HTML file, to mail and to print
    Html,
    /// Markdown, for tickets and chats
    Md,
    /// JSON with all numbers (docs/report.schema.json)
    Json,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Running
    Running,
    /// Ended
    Ended,
}

/// Arguments of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// PromQL expression.
    // In an attribute, because brackets are links in a doc comment.
    #[arg(help = "PromQL expression, for instance 'topk(5, rate(fabric_port_io_bytes_total[1m]))'")]
    #[arg(value_name = "EXPR")]
    pub expression: String,
    /// Server.
    #[command(flatten)]
    pub server: Server,
    /// Time of an instant query: Unix seconds, RFC 3339, or how long ago (-15m) [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["start", "end", "step"])]
    pub time: Option<String>,
    /// Begin of a range query, for instance -15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub start: Option<String>,
    /// End of the range [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "start")]
    pub end: Option<String>,
    /// Step of the range [default: a 60th of it, at least 1s]
    #[arg(long, value_name = "DURATION", requires = "start")]
    pub step: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Output format of `query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: one line per series, or a block if lines would be wider than the terminal (COLUMNS)
    Table,
    /// For people: one line per series, however wide
    Wide,
    /// JSON of the server
    Json,
    /// CSV: one line per sample
    Csv,
}
