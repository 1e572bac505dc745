//! Configuration of the collector in two types: as written (`RawConfig`) and as checked ([`Config`]). Flags override
//! environment variables, which override the file, which overrides the defaults. `main` loads it once, and nothing
//! binds, opens or creates anything before all of it is valid.
//!
//! ```
//! use fabriclens_config::{Overrides, load};
//! let env = [("FABRICLENS_RETENTION_AGE".to_owned(), "90d".to_owned())];
//! let config = load(None, env, &Overrides::default())?;
//! assert_eq!(config.retention.age.as_secs(), 90 * 86_400);
//! # Ok::<(), fabriclens_config::ConfigError>(())
//! ```

#![forbid(unsafe_code)]

mod auth;
mod endpoint;
mod gnmi;
mod host_id;
mod job_notification;
mod jobs;
mod judge;
mod keys;
mod load;
mod notify;
mod proxy;
mod raw;
mod remote;
mod role;
mod secrets;
pub mod selector;
mod template;
pub mod thresholds;
mod value;

pub use auth::Auth;
pub use endpoint::Endpoint;
pub use gnmi::{GnmiKind, GnmiTarget, GnmiTls};
pub use host_id::HostId;
pub use job_notification::{JOB_VARIABLES, JobNotification, JobNotificationTarget};
pub use jobs::{Jobs, Kubernetes, Pods, Slurmrestd};
pub use judge::{Judge, ServeRole};
pub use load::{Overrides, load};
pub use notify::{Alertmanager, Webhook};
pub use proxy::{Network, Proxy};
pub use remote::{Forward, Remote, WriteMessage};
pub use role::{Access, ROLES, Role, Roles};
pub use template::Template;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::thresholds::ThresholdError;
use fabriclens_base::duration;
use fabriclens_correlate::Thresholds;
use fabriclens_promql::Version;
use fabriclens_store::SeriesLimits;

/// The checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Data directory; created if missing.
    pub data: PathBuf,
    /// Part of a collector that this process is.
    pub role: ServeRole,
    /// Allows listeners on any address without TLS; logged at every start.
    pub insecure: bool,
    /// Interval at which the collector stores its own metrics; zero for never.
    pub self_metrics_interval: Duration,
    /// Listeners.
    pub listen: Listen,
    /// Retention of samples, rollups, jobs and incidents.
    pub retention: Retention,
    /// TLS of all listeners.
    pub tls: Option<Tls>,
    /// Authentication and authorization.
    pub auth: Auth,
    /// Limits of ingest.
    pub ingest: Ingest,
    /// Senders that are switches.
    pub switches: Switches,
    /// Limits of the number of series.
    pub series: SeriesLimits,
    /// Memory limit of the process, bytes; `None` for that of its control group or of the machine.
    pub memory: Option<u64>,
    /// Limits of queries.
    pub query: Query,
    /// Sources of jobs besides the API.
    pub jobs: Jobs,
    /// Thresholds of the detectors.
    pub thresholds: Thresholds,
    /// Late samples are evaluated again once no more arrive for this long; zero for never.
    pub late: Duration,
    /// Files that describe the fabric, in any supported format.
    pub topology: Vec<PathBuf>,
    /// Files with the settings that ports must have.
    pub baselines: Vec<PathBuf>,
    /// What agents may trace and probe.
    pub probes: Probes,
    /// Remote engine that stores the samples instead of this collector.
    pub store: Option<Remote>,
    /// Further servers that receive the samples.
    pub forward: Vec<Forward>,
    /// Where the judge is, and its lease.
    pub judge: Judge,
    /// Other collectors whose samples are merged into answers.
    pub peers: Vec<Endpoint>,
    /// URL by which people reach this collector, for links in messages; by default its address.
    pub external_url: Option<String>,
    /// Alertmanagers that are notified of incidents.
    pub alertmanager: Alertmanager,
    /// Webhooks that are notified of incidents.
    pub webhook: Vec<Webhook>,
    /// Receivers of the result of each job.
    pub job_notification: Vec<JobNotification>,
    /// Switches that are read by gNMI.
    pub gnmi: Vec<GnmiTarget>,
}

/// Switches that push their counters under names of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Name of the switch that sends from an address, for senders that name none.
    pub addresses: BTreeMap<IpAddr, String>,
    /// Foreign metric names that are also stored as they come; `*` at the end stands for any rest.
    pub raw: Vec<String>,
}

/// Bounds of what agents trace and probe. The agents' own configuration decides whether they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Probes per second that a port sends, and that are sent to it, TCP twins included; 0: none.
    pub per_port: u32,
    /// The same of all ports of a host.
    pub per_host: u32,
    /// Probes per second in the whole fabric.
    pub per_fabric: u32,
    /// Traces of source ports per second from the ports of a leaf, and to them; 0: none.
    pub traces_per_leaf: u32,
    /// Traffic class of packets (DSCP times 4); `None`: of each port, as settings of its host tell it, else 0.
    pub traffic_class: Option<u8>,
    /// InfiniBand: service level of probes, 0 to 15; `None`: not known, so 0.
    pub service_level: Option<u8>,
    /// Parallel paths between two leaves, where the topology does not tell them.
    pub paths: usize,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            per_port: 20,
            per_host: 100,
            per_fabric: 20_000,
            traces_per_leaf: 20,
            traffic_class: None,
            service_level: None,
            paths: 16,
        }
    }
}

/// Listener addresses (port 0 for any free port) and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// HTTP API, remote write, console, metrics.
    pub http: SocketAddr,
    /// OTLP over gRPC.
    pub otlp_grpc: SocketAddr,
    /// OTLP over HTTP.
    pub otlp_http: SocketAddr,
    /// Connections of each listener.
    pub connections: ConnectionLimits,
    /// Requests per second of one caller; zero for no limit.
    pub requests: u32,
}

/// Limits of the connections of a listener; they bound file descriptors and buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections beyond this wait to be accepted.
    pub all: usize,
    /// Connections beyond this from the same address are closed; loopback addresses are exempt.
    pub of_address: usize,
}

/// Retention by age and by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Samples older than this are deleted, and rejected on arrival.
    pub age: Duration,
    /// The oldest samples are deleted when blocks exceed this many bytes.
    pub size: Option<u64>,
    /// Retention of one-minute rollups, at least that of samples; zero for no rollups.
    pub rollups: Duration,
    /// Time after which ended jobs are deleted; zero for never.
    pub jobs: Duration,
    /// Time after which ended incidents are deleted; zero for never.
    pub incidents: Duration,
}

/// PEM files of the listeners' TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Authorities of client certificates; if set, clients must present one.
    pub client_ca: Option<PathBuf>,
}

/// Limits of ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingest {
    /// Largest request, compressed or not, bytes.
    pub message_size: usize,
    /// Requests that are decoded or written at the same time; others wait.
    pub in_flight: usize,
    /// Points further in the future than this are rejected.
    pub future: Duration,
}

/// Limits of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Queries evaluated at the same time; others wait.
    pub concurrency: usize,
    /// Timeout of an evaluation.
    pub timeout: Duration,
    /// Samples that one query may load.
    pub max_samples: u64,
    /// Memory of all queries together, bytes.
    pub memory: usize,
    /// How far back an instant vector looks for a sample.
    pub lookback: Duration,
    /// The version of Prometheus whose ranges and lookback apply.
    pub promql: Version,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data: PathBuf::from("fabriclens-data"),
            role: ServeRole::default(),
            insecure: false,
            self_metrics_interval: Duration::from_secs(15),
            listen: Listen {
                http: loopback(7470),
                otlp_grpc: loopback(4317),
                otlp_http: loopback(4318),
                connections: ConnectionLimits { all: 16_384, of_address: 1024 },
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
                promql: Version::default(),
            },
            jobs: Jobs::default(),
            thresholds: Thresholds::default(),
            late: Duration::from_secs(120),
            switches: Switches::default(),
            topology: Vec::new(),
            baselines: Vec::new(),
            probes: Probes::default(),
            store: None,
            forward: Vec::new(),
            judge: Judge::default(),
            peers: Vec::new(),
            external_url: None,
            alertmanager: Alertmanager::default(),
            webhook: Vec::new(),
            job_notification: Vec::new(),
            gnmi: Vec::new(),
        }
    }
}

impl Listen {
    /// Config key and address of each listener, in the order in which they are bound.
    pub fn all(&self) -> [(&'static str, SocketAddr); 3] {
        [("listen.http", self.http), ("listen.otlp_grpc", self.otlp_grpc), ("listen.otlp_http", self.otlp_http)]
    }
}

impl Config {
    /// Every key of the key table with its value in force, as text.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let (tls, ca) = (self.tls.as_ref(), self.tls.as_ref().and_then(|t| t.client_ca.clone()));
        let values = [
            self.data.display().to_string(),
            self.role.name().to_owned(),
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
            self.query.promql.text().to_owned(),
            path(&self.jobs.dir),
            self.jobs.squeue.clone().unwrap_or_default(),
            duration::format(self.late),
            self.probes.per_port.to_string(),
            self.probes.per_host.to_string(),
            self.probes.per_fabric.to_string(),
            self.probes.traces_per_leaf.to_string(),
            self.probes.traffic_class.map_or_else(String::new, |class| class.to_string()),
            self.probes.service_level.map_or_else(String::new, |level| level.to_string()),
            self.probes.paths.to_string(),
        ];
        keys::KEYS.iter().map(|(key, _)| *key).zip(values).collect()
    }
}

/// The configuration is refused; `Display` names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file with a secret that every user of the host can read.
    #[error("{what}: every user of this host can read {path}; run: chmod o-rwx {path}")]
    Exposed {
        /// Config key.
        what: String,
        /// File that holds the secret.
        path: PathBuf,
    },
    /// The configuration file cannot be read.
    #[error("cannot read config {path}: {source}; check the path and its permissions")]
    Read {
        /// Path.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is not TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// File or environment variable.
        place: String,
        /// Message of the parser, with line and column.
        message: String,
    },
    /// Unknown key.
    #[error("{place}: unknown key {key:?}{}", .hint.map(|h| format!("; did you mean {h:?}?")).unwrap_or_default())]
    UnknownKey {
        /// File.
        place: String,
        /// Key as written.
        key: String,
        /// Nearest valid key.
        hint: Option<&'static str>,
    },
    /// Invalid threshold of a detector.
    #[error("verdicts.thresholds: {0}")]
    Threshold(#[from] ThresholdError),
    /// Invalid value.
    #[error("{key}: {message}")]
    Value {
        /// Config key.
        key: &'static str,
        /// Problem, and the valid values.
        message: String,
    },
    /// Listener that is reachable from other hosts without encryption.
    #[error(
        "{key} = {address} is not a loopback address, and there is no TLS; \
         set tls.cert and tls.key, or insecure = true to accept plain text from anyone who can reach it"
    )]
    Insecure {
        /// Config key.
        key: &'static str,
        /// Address.
        address: SocketAddr,
    },
}
