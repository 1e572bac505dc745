//! Config in two types: as written (`RawConfig`) and as checked ([`Config`]). Flags beat environment beats file beats
//! defaults. `main` loads it once; nothing binds, opens or creates before all of it is valid.

#![forbid(unsafe_code)]

mod auth;
mod host_id;
mod jobs;
mod load;
mod notify;
mod proxy;
mod raw;
mod remote;
mod role;
mod secrets;
pub mod selector;
pub mod thresholds;

pub use auth::Auth;
pub use host_id::HostId;
pub use jobs::{Jobs, Kubernetes, Pods, Slurmrestd};
pub use load::{Overrides, load};
pub use notify::{Alertmanager, Webhook};
pub use proxy::{Network, Proxy};
pub use remote::{Endpoint, Forward, Remote};
pub use role::{Needs, ROLES, Role, Roles};

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::thresholds::ThresholdError;
use fabriclens_base::duration;
use fabriclens_correlate::Thresholds;
use fabriclens_store::SeriesLimits;

/// Everything the collector can be told, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Data directory; created when missing.
    pub data: PathBuf,
    /// Listeners on any address without TLS; logged at every start.
    pub insecure: bool,
    /// How often the collector stores its own metrics; zero: never.
    pub self_metrics_interval: Duration,
    /// Where it listens.
    pub listen: Listen,
    /// What it keeps.
    pub retention: Retention,
    /// Certificate for all listeners.
    pub tls: Option<Tls>,
    /// Who may do what.
    pub auth: Auth,
    /// Limits of the way in.
    pub ingest: Ingest,
    /// How many series are taken.
    pub series: SeriesLimits,
    /// Memory that the process may have, bytes; `None`: what its control group or the machine has.
    pub memory: Option<u64>,
    /// Limits of queries.
    pub query: Query,
    /// Where jobs are told of, beside requests.
    pub jobs: Jobs,
    /// Numbers that detectors judge by.
    pub thresholds: Thresholds,
    /// What samples that came late tell of is judged again when none has come for so long; zero: never.
    pub late: Duration,
    /// Files that describe the fabric, in any format that is known.
    pub topology: Vec<PathBuf>,
    /// Samples are kept by another engine, not here.
    pub store: Option<Remote>,
    /// Who else gets the samples.
    pub forward: Vec<Forward>,
    /// Other collectors whose samples are joined with the own when somebody asks.
    pub peers: Vec<Endpoint>,
    /// How people reach this collector, for links in messages; without it, the address that it listens on.
    pub external_url: Option<String>,
    /// Alertmanagers that are told of incidents.
    pub alertmanager: Alertmanager,
    /// Others that are told of incidents.
    pub webhook: Vec<Webhook>,
}

/// Addresses (port 0 takes any free port), and how many may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Prometheus API, remote write, page, metrics.
    pub http: SocketAddr,
    /// OTLP over gRPC.
    pub otlp_grpc: SocketAddr,
    /// OTLP over HTTP.
    pub otlp_http: SocketAddr,
    /// Connections of each of them.
    pub connections: ConnectionLimits,
    /// Requests of one caller in a second; zero: no limit.
    pub requests: u32,
}

/// How many connections a listener may have; bounds file descriptors and buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Beyond which new ones wait.
    pub all: usize,
    /// Beyond which new ones of the same address are closed; this host's own are not counted.
    pub of_address: usize,
}

/// Retention by age and by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Samples older than this are deleted and refused.
    pub age: Duration,
    /// Oldest samples go when blocks exceed this many bytes.
    pub size: Option<u64>,
    /// Rollups of one minute are kept so long, and as long as the samples; zero: there are none.
    pub rollups: Duration,
    /// Jobs that ended so long ago are forgotten; zero: never.
    pub jobs: Duration,
    /// Incidents that ended so long ago are forgotten; zero: never.
    pub incidents: Duration,
}

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// When set, clients must show a certificate signed by one of these.
    pub client_ca: Option<PathBuf>,
}

/// Limits of the way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// Largest request, compressed or not, bytes.
    pub message_size: usize,
    /// Requests decoded or written at the same time; more wait.
    pub in_flight: usize,
    /// Points further in the future than this are rejected.
    pub future: Duration,
}

/// Limits of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Queries evaluated at the same time; more wait.
    pub concurrency: usize,
    /// Longest evaluation.
    pub timeout: Duration,
    /// Most samples one query may load.
    pub max_samples: u64,
    /// Most memory that all queries together may take, bytes.
    pub memory: usize,
    /// How far back an instant vector looks for a sample.
    pub lookback: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data: PathBuf::from("fabriclens-data"),
            insecure: false,
            self_metrics_interval: Duration::from_secs(15),
            listen: Listen {
                http: loopback(7470),
                otlp_grpc: loopback(4317),
                otlp_http: loopback(4318),
                connections: ConnectionLimits { all: 4096, of_address: 1024 },
                requests: 1000,
            },
            retention: Retention {
                age: Duration::from_secs(30 * 86_400),
                size: None,
                rollups: Duration::from_secs(366 * 86_400),
                jobs: Duration::from_secs(366 * 86_400),
                incidents: Duration::from_secs(366 * 86_400),
            },
            tls: None,
            auth: Auth::default(),
            ingest: Ingest { message_size: 16 << 20, in_flight: 32, future: Duration::from_secs(600) },
            series: SeriesLimits::default(),
            memory: None,
            query: Query {
                concurrency: 20,
                timeout: Duration::from_secs(120),
                max_samples: 50_000_000,
                memory: 512 << 20,
                lookback: Duration::from_secs(300),
            },
            jobs: Jobs::default(),
            thresholds: Thresholds::default(),
            late: Duration::from_secs(120),
            topology: Vec::new(),
            store: None,
            forward: Vec::new(),
            peers: Vec::new(),
            external_url: None,
            alertmanager: Alertmanager::default(),
            webhook: Vec::new(),
        }
    }
}

impl Listen {
    /// Key and address of each listener, in the order they are bound.
    pub fn all(&self) -> [(&'static str, SocketAddr); 3] {
        [("listen.http", self.http), ("listen.otlp_grpc", self.otlp_grpc), ("listen.otlp_http", self.otlp_http)]
    }
}

impl Config {
    /// Every key with the value in force, as text, in the order of the key table.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let (tls, ca) = (self.tls.as_ref(), self.tls.as_ref().and_then(|t| t.client_ca.clone()));
        let values = [
            self.data.display().to_string(),
            self.insecure.to_string(),
            duration::format(self.self_metrics_interval),
            self.external_url.clone().unwrap_or_default(),
            self.listen.http.to_string(),
            self.listen.otlp_grpc.to_string(),
            self.listen.otlp_http.to_string(),
            self.listen.connections.all.to_string(),
            self.listen.connections.of_address.to_string(),
            self.listen.requests.to_string(),
            duration::format(self.retention.age),
            self.retention.size.map(|s| s.to_string()).unwrap_or_default(),
            duration::format(self.retention.rollups),
            duration::format(self.retention.jobs),
            duration::format(self.retention.incidents),
            path(&tls.map(|t| t.cert.clone())),
            path(&tls.map(|t| t.key.clone())),
            path(&ca),
            path(&self.auth.tokens),
            self.auth.host_id.text(),
            self.ingest.message_size.to_string(),
            self.ingest.in_flight.to_string(),
            duration::format(self.ingest.future),
            self.series.all.to_string(),
            self.series.of_metric.to_string(),
            self.series.tenant_label.clone(),
            self.series.of_tenant.to_string(),
            self.memory.map(|s| s.to_string()).unwrap_or_default(),
            self.query.concurrency.to_string(),
            duration::format(self.query.timeout),
            self.query.max_samples.to_string(),
            self.query.memory.to_string(),
            duration::format(self.query.lookback),
            path(&self.jobs.dir),
            self.jobs.squeue.clone().unwrap_or_default(),
            duration::format(self.late),
        ];
        raw::KEYS.iter().map(|(key, _)| *key).zip(values).collect()
    }
}

/// Why a config is refused; `Display` names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A secret that others can read.
    #[error("{what}: every user of this host can read {path}; run: chmod o-rwx {path}")]
    Exposed {
        /// The key.
        what: String,
        /// The file that holds the secret.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read config {path}: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// File or environment.
        place: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A key that does not exist.
    #[error("{place}: unknown key {key:?}{}", .hint.map(|h| format!("; did you mean {h:?}?")).unwrap_or_default())]
    UnknownKey {
        /// File.
        place: String,
        /// As written.
        key: String,
        /// The nearest valid key.
        hint: Option<&'static str>,
    },
    /// A number of a detector.
    #[error("verdicts.thresholds: {0}")]
    Threshold(#[from] ThresholdError),
    /// A value outside what makes sense.
    #[error("{key}: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A listener that others could reach without encryption.
    #[error(
        "{key} = {address} is not a loopback address, and there is no TLS; \
         set tls.cert and tls.key, or insecure = true to accept plain text from anyone who can reach it"
    )]
    Insecure {
        /// The key.
        key: &'static str,
        /// Its address.
        address: SocketAddr,
    },
}
