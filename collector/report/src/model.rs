//! What a report says. Its JSON is the answer of the API, `docs/report.schema.json` its published form.

mod cost;
mod evidence;

pub use cost::{Cost, Slowed, Why};
pub use evidence::{Finding, Health, Neighbour, Over, Pair, Pattern, Peers, Quality, Shares, Transport};
use fabriclens_jobs::Attribution as Surely;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of [`Report::version`]: changes when a field goes or means something else.
pub const VERSION: u32 = 1;

/// How surely a number is the job's.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// What was measured served this job alone.
    Exclusive,
    /// Counted for the job's own processes.
    PerProcess,
    /// Several jobs had it; the number is theirs together.
    Shared,
}

impl From<Surely> for Grade {
    fn from(grade: Surely) -> Self {
        match grade {
            Surely::Exclusive => Self::Exclusive,
            Surely::PerProcess => Self::PerProcess,
            Surely::Shared => Self::Shared,
        }
    }
}

impl Grade {
    /// As in JSON, in words for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::PerProcess => "per process",
            Self::Shared => "shared",
        }
    }
}

/// A unit of UCUM, as OpenTelemetry writes it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "By")]
    Bytes,
    /// Bytes a second.
    #[serde(rename = "By/s")]
    BytesPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// A share of one.
    #[serde(rename = "1")]
    Ratio,
    /// Things that are counted: packets, errors, events.
    #[serde(rename = "{count}")]
    Count,
    /// Things counted a second.
    #[serde(rename = "{count}/s")]
    CountPerSecond,
}

/// A number and how surely it is the job's. Parts of different grades are never added up; no part: not measured, which
/// is not zero.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of all parts.
    pub unit: Unit,
    /// One a grade.
    pub parts: Vec<Part>,
}

/// The part of a number that has one grade.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Part {
    /// How surely.
    pub grade: Grade,
    /// The number.
    pub value: f64,
    /// From how many ports or hosts.
    pub of: usize,
}

impl Figure {
    /// Not measured.
    pub fn none(unit: Unit) -> Self {
        Self { unit, parts: Vec::new() }
    }

    /// The part of a grade.
    pub fn part(&self, grade: Grade) -> Option<f64> {
        self.parts.iter().find(|p| p.grade == grade).map(|p| p.value)
    }

    /// The largest of the parts; `None`: not measured.
    pub fn largest(&self) -> Option<f64> {
        self.parts.iter().map(|p| p.value).max_by(f64::total_cmp)
    }
}

/// All of it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// When it was made, Unix nanoseconds.
    pub generated_ns: i64,
    /// Whose.
    pub job: About,
    /// Of which time, and how finely.
    pub range: Range,
    /// For those who read no further.
    pub summary: Summary,
    /// Bytes and rates.
    pub traffic: Traffic,
    /// Who held whom back.
    pub congestion: Congestion,
    /// Incidents at that time that concern the job.
    pub incidents: Vec<Incident>,
    /// Jobs that shared something with this one.
    pub neighbours: Vec<Neighbour>,
    /// Links, PCIe, configuration.
    pub health: Health,
    /// RDMA against sockets.
    pub transport: Transport,
    /// Who talks to whom.
    pub peers: Peers,
    /// What the numbers are worth.
    pub quality: Quality,
}

/// The job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct About {
    /// `""` where there is one.
    pub cluster: String,
    /// The scheduler's.
    pub id: String,
    /// Which run under this id, from 1.
    pub run: u32,
    /// `""` if nobody says.
    pub user: String,
    /// `""` if nobody says.
    pub name: String,
    /// Partition, account and the like.
    pub labels: BTreeMap<String, String>,
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds; absent: it runs, and this is what was so far.
    pub end_ns: Option<i64>,
    /// How many.
    pub hosts: usize,
    /// Where sources differ about it, in words.
    pub disagreements: Vec<String>,
}

/// The time that is told of.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Range {
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds.
    pub end_ns: i64,
    /// Between two points of plots.
    pub step_seconds: f64,
    /// How ports were read.
    pub method: Method,
}

/// How ports were read.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every sample.
    Samples,
    /// Counters at a few instants, and plots from the job's rollups: many ports for a long time.
    Checkpoints,
}

/// What a manager reads.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Summary {
    /// The main points, the most important first.
    pub points: Vec<Point>,
    /// How much time the network cost.
    pub cost: Cost,
    /// What most likely held the job back.
    pub cause: Cause,
    /// Earlier jobs of this user and size, the last one first.
    pub earlier: Vec<Earlier>,
}

/// A sentence.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// How bad.
    pub severity: Severity,
    /// In plain words.
    pub text: String,
}

/// How bad.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing wrong.
    Good,
    /// To know.
    Info,
    /// To look at.
    Warning,
    /// To act on.
    Critical,
}

impl Severity {
    /// As in JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What most likely held the job back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Which.
    pub kind: CauseKind,
    /// In plain words, with what speaks for it.
    pub text: String,
}

/// Kinds of causes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Nothing held it back, as far as was measured.
    None,
    /// A host or port of the job that did not take its data.
    SlowReceiver,
    /// A link of the job.
    Link,
    /// Several of its hosts sent to one at once.
    Incast,
    /// The job uses sockets.
    Sockets,
    /// Congestion of the fabric, or of others in it.
    Fabric,
    /// Too little was measured.
    Unknown,
}

/// An earlier job to compare with.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Earlier {
    /// The scheduler's.
    pub id: String,
    /// Which run.
    pub run: u32,
    /// `""` if nobody says.
    pub name: String,
    /// How long it ran, seconds.
    pub seconds: f64,
    /// Bytes that its ports sent.
    pub transmitted: Figure,
    /// Share of time in which its ports could not send, mean over its time and ports.
    pub paused: Figure,
    /// Share of its time that the network cost at most, as its rollups tell it.
    #[serde(default = "share")]
    pub at_most_share: Figure,
}

fn share() -> Figure {
    Figure::none(Unit::Ratio)
}

/// Bytes and rates.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes that the job's ports sent.
    pub transmitted: Figure,
    /// Bytes that they received.
    pub received: Figure,
    /// Of all ports together, sent.
    pub mean_rate: Figure,
    /// The highest point of the plot.
    pub peak_rate: Figure,
    /// By rail.
    pub rails: Vec<Rail>,
    /// Every host of the job.
    pub hosts: Vec<Host>,
    /// Sent, by rail, over time.
    pub plot: Plot,
    /// The host or port that stands out, in words; absent: none does.
    pub straggler: Option<Straggler>,
}

/// The host or port that stands out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct Straggler {
    /// Which host.
    pub host: String,
    /// Which device; absent: the host as a whole.
    pub device: Option<String>,
    /// Which rail.
    pub rail: Option<String>,
    /// By what it stands out.
    pub by: StandsOut,
    /// The same in words, with numbers.
    pub text: String,
}

/// By what a host or port stands out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum StandsOut {
    /// It pauses its switch far more than the others.
    Pausing,
    /// It takes link errors.
    LinkErrors,
    /// Most of the job's congestion notifications come from it: too much is sent to it at once.
    Incast,
    /// It sends far less than the others.
    Behind,
}

/// The ports of one rail.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Rail {
    /// As agents tell it, else the device's name.
    pub rail: String,
    /// How many ports.
    pub ports: usize,
    /// Bytes.
    pub transmitted: Figure,
    /// Bytes.
    pub received: Figure,
    /// Against the mean of rails: 1 is as much as the others.
    pub of_mean: Option<f64>,
    /// Time in which a port could not send, mean over ports, as a share.
    pub paused: Figure,
}

/// A host of the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Host {
    /// As the agent names it.
    pub host: String,
    /// Whether its ports were measured.
    pub measured: bool,
    /// Bytes.
    pub transmitted: Figure,
    /// Bytes.
    pub received: Figure,
    /// Share of time in which its worst port could not send.
    pub paused: Figure,
    /// Share of time in which its worst port kept others from sending.
    pub pausing: Figure,
    /// Congestion notifications that it sent.
    pub cnp_sent: Figure,
    /// Errors of its links.
    pub link_errors: Figure,
}

/// Lines over time.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Of the values.
    pub unit: Unit,
    /// Where the first point lies, Unix nanoseconds.
    pub start_ns: i64,
    /// Between points.
    pub step_seconds: f64,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// How surely it is the job's.
    pub grade: Grade,
    /// Null: not measured.
    pub points: Vec<Option<f64>>,
}

/// Who held whom back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Congestion {
    /// Suffered: share of time in which ports could not send for pause, mean over ports.
    pub paused: Figure,
    /// Caused: share of time in which ports kept others from sending, mean over ports.
    pub pausing: Figure,
    /// Suffered: share of the line rate lost to waiting for credits, mean over ports.
    pub xmit_wait: Figure,
    /// Suffered: notifications received and acted on.
    pub cnp_received: Figure,
    /// Caused: notifications sent, as what was sent to the job came marked.
    pub cnp_sent: Figure,
    /// Packets received with a mark.
    pub ecn_marked: Figure,
    /// Suffered, over time.
    pub suffered: Vec<Plot>,
    /// Caused, over time.
    pub caused: Vec<Plot>,
    /// The ports that stand out.
    pub ports: Vec<CongestedPort>,
}

/// A port that was held back or held others back.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct CongestedPort {
    /// Where.
    pub host: String,
    /// Which.
    pub device: String,
    /// Share of time it could not send.
    pub paused: Option<f64>,
    /// Share of time it kept others from sending.
    pub pausing: Option<f64>,
    /// Notifications it sent.
    pub cnp_sent: Option<f64>,
    /// How surely these are the job's.
    pub grade: Grade,
}

/// An incident that concerns the job.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct Incident {
    /// Its own.
    pub id: String,
    /// `pfc_storm` and the like.
    pub kind: String,
    /// How bad.
    pub severity: Severity,
    /// Unix nanoseconds.
    pub start_ns: i64,
    /// Unix nanoseconds; absent: it goes on.
    pub end_ns: Option<i64>,
    /// What happened, in plain words.
    pub explanation: String,
    /// What to do.
    pub action: String,
    /// What this job had to do with it: `culprit`, `victim` or `bystander`.
    pub role: String,
}
