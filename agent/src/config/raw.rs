//! Configuration as written: every key once, as TOML tables. `load` turns it into `Config`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Conversion of an environment variable into a TOML value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Unchanged text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// List, separated by commas.
    List,
}

/// Every key, for hints and for the environment: `FABRICLENS_AGENT_COLLECTOR_URL` overrides `collector.url`.
/// `[samplers]` has one key per sampler and is checked against the samplers' table; `[rails]` has one key per device.
pub const KEYS: &[(&str, Form)] = &[
    ("host", Form::Text),
    ("log", Form::Text),
    ("state_dir", Form::Text),
    ("sandbox", Form::Text),
    ("budget.cpu", Form::Text),
    ("budget.memory", Form::Text),
    ("sampling.full", Form::Text),
    ("sampling.fast", Form::Text),
    ("sampling.slow", Form::Text),
    ("sampling.deadline", Form::Text),
    ("sampling.exclude_devices", Form::List),
    ("sampling.passthrough", Form::List),
    ("sampling.ring_sections", Form::Integer),
    ("destinations.rack", Form::List),
    ("destinations.fabric", Form::List),
    ("microburst.netdevs", Form::List),
    ("microburst.share", Form::Float),
    ("microburst.bytes", Form::Text),
    ("microburst.dumps", Form::Integer),
    ("ib_fabric.enabled", Form::Bool),
    ("ib_fabric.device", Form::Text),
    ("ib_fabric.period", Form::Text),
    ("ib_fabric.details", Form::Text),
    ("ib_fabric.sweep", Form::Text),
    ("ib_fabric.mads_per_second", Form::Integer),
    ("ib_fabric.timeout", Form::Text),
    ("ib_fabric.adapters", Form::Bool),
    ("ib_fabric.lease", Form::Bool),
    ("collectives.enabled", Form::Bool),
    ("collectives.period", Form::Text),
    ("collectives.timeout", Form::Text),
    ("collectives.port", Form::Integer),
    ("collectives.inspector", Form::Bool),
    ("collectives.inspector_dirs", Form::List),
    ("collectives.mpi", Form::Bool),
    ("collectives.mpi_dir", Form::Text),
    ("collectives.log_files", Form::List),
    ("probes.enabled", Form::Bool),
    ("probes.trace", Form::Bool),
    ("probes.rdma", Form::Bool),
    ("probes.tcp", Form::Bool),
    ("probes.trace_packets_per_second", Form::Integer),
    ("probes.probes_per_second", Form::Integer),
    ("probes.tcp_port", Form::Integer),
    ("probes.networks", Form::List),
    ("collector.url", Form::Text),
    ("collector.urls", Form::List),
    ("collector.mode", Form::Text),
    ("collector.steady", Form::Text),
    ("collector.compression", Form::Text),
    ("collector.flush", Form::Text),
    ("collector.urgent", Form::Text),
    ("collector.timeout", Form::Text),
    ("collector.drain", Form::Text),
    ("collector.batch", Form::Integer),
    ("collector.insecure", Form::Bool),
    ("collector.ca", Form::Text),
    ("collector.cert", Form::Text),
    ("collector.key", Form::Text),
    ("collector.token_file", Form::Text),
    ("spool.dir", Form::Text),
    ("spool.size", Form::Text),
    ("spool.age", Form::Text),
    ("spool.after", Form::Text),
    ("spool.rate", Form::Text),
    ("spool.jitter", Form::Text),
    ("http.enabled", Form::Bool),
    ("http.listen", Form::Text),
    ("http.cert", Form::Text),
    ("http.key", Form::Text),
    ("http.insecure", Form::Bool),
    ("http.names", Form::List),
];

/// The configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct RawConfig {
    pub host: Option<String>,
    pub log: Option<String>,
    pub state_dir: Option<String>,
    pub sandbox: Option<String>,
    pub budget: Budget,
    pub sampling: Sampling,
    pub samplers: BTreeMap<String, bool>,
    pub rails: BTreeMap<String, String>,
    pub destinations: Destinations,
    pub microburst: Microburst,
    pub ib_fabric: IbFabric,
    pub collectives: Collectives,
    pub probes: Probes,
    pub collector: Collector,
    pub spool: Spool,
    pub http: Http,
}

/// `[budget]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Budget {
    pub cpu: Option<String>,
    pub memory: Option<String>,
}

/// `[sampling]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Sampling {
    pub full: Option<String>,
    pub fast: Option<String>,
    pub slow: Option<String>,
    pub deadline: Option<String>,
    pub exclude_devices: Option<Vec<String>>,
    pub passthrough: Option<Vec<String>>,
    pub ring_sections: Option<usize>,
}

/// `[destinations]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Destinations {
    pub rack: Vec<String>,
    pub fabric: Vec<String>,
}

/// `[microburst]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Microburst {
    pub netdevs: Vec<String>,
    pub share: Option<f64>,
    pub bytes: Option<String>,
    pub dumps: Option<usize>,
}

/// `[ib_fabric]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct IbFabric {
    pub enabled: Option<bool>,
    pub device: Option<String>,
    pub period: Option<String>,
    pub details: Option<String>,
    pub sweep: Option<String>,
    pub mads_per_second: Option<u32>,
    pub timeout: Option<String>,
    pub adapters: Option<bool>,
    pub lease: Option<bool>,
}

/// `[collectives]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Collectives {
    pub enabled: Option<bool>,
    pub period: Option<String>,
    pub timeout: Option<String>,
    pub port: Option<u16>,
    pub inspector: Option<bool>,
    pub inspector_dirs: Vec<String>,
    pub mpi: Option<bool>,
    pub mpi_dir: Option<String>,
    pub log_files: Vec<String>,
}

/// `[probes]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Probes {
    pub enabled: Option<bool>,
    pub trace: Option<bool>,
    pub rdma: Option<bool>,
    pub tcp: Option<bool>,
    pub trace_packets_per_second: Option<u32>,
    pub probes_per_second: Option<u32>,
    pub tcp_port: Option<u16>,
    pub networks: Vec<String>,
}

/// `[collector]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Collector {
    pub url: Option<String>,
    pub urls: Vec<String>,
    pub mode: Option<String>,
    pub steady: Option<String>,
    pub compression: Option<String>,
    pub flush: Option<String>,
    pub urgent: Option<String>,
    pub timeout: Option<String>,
    pub drain: Option<String>,
    pub batch: Option<usize>,
    pub insecure: Option<bool>,
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    pub token_file: Option<String>,
}

/// `[spool]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Spool {
    pub dir: Option<String>,
    pub size: Option<String>,
    pub age: Option<String>,
    pub after: Option<String>,
    pub rate: Option<String>,
    pub jitter: Option<String>,
}

/// `[http]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each key is explained in deploy/config/agent.toml")]
pub struct Http {
    pub enabled: Option<bool>,
    pub listen: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    pub insecure: Option<bool>,
    pub names: Vec<String>,
}
