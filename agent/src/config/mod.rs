//! Config in two types: as written ([`raw`]) and as checked ([`Config`]). Flags beat environment beats file beats
//! defaults. `main` loads it once; nothing is opened, bound or started before all of it is valid.

mod load;
mod nearest;
pub mod raw;
mod units;

pub use load::{Overrides, load};
pub use nearest::nearest;
pub use units::{QuantityError, duration, size};

use crate::schedule::Settings;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::codegen::http::Uri;

/// Everything the agent can be told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to sample, and how often. `host` is empty unless it was set.
    pub settings: Settings,
    /// Where samples go; none: only `/metrics`.
    pub collector: Option<Collector>,
    /// Where `/metrics` is served; none: nowhere.
    pub http: Option<Http>,
    /// Directives of the log filter, for instance `info` or `warn,fabriclens_agent=debug`.
    pub log: String,
    /// Whether it shuts itself in once it runs.
    pub sandbox: bool,
}

impl Config {
    /// PEM files that it names.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tls = self.collector.as_ref().map(|c| &c.tls);
        let identities = [tls.and_then(|t| t.identity.as_ref()), self.http.as_ref().and_then(|h| h.identity.as_ref())];
        let pairs = identities.into_iter().flatten().flat_map(|(cert, key)| [cert, key]);
        pairs.chain(tls.and_then(|t| t.ca.as_ref())).map(PathBuf::as_path)
    }

    /// Ports of the collectors.
    pub fn collector_ports(&self) -> Vec<u16> {
        let port = |c: &Collector| {
            let url: Uri = c.url.parse().ok()?;
            Some(url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 }))
        };
        self.collector.iter().filter_map(port).collect()
    }
}

/// The way to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// `http://host:port` or `https://host:port`.
    pub url: String,
    /// Compression of requests.
    pub compression: Compression,
    /// Longest time that a sample waits when nothing is urgent.
    pub flush: Duration,
    /// Shortest time from a request to one that urgent samples ask for; zero: they wait as others do.
    pub urgent: Duration,
    /// Longest time for one request.
    pub timeout: Duration,
    /// How long shutdown may take to send what is queued.
    pub drain: Duration,
    /// Sections in one request.
    pub batch: usize,
    /// Plain text to another host was accepted; logged at every start.
    pub insecure: bool,
    /// PEM files for `https`.
    pub tls: Tls,
}

/// PEM files of the agent's side of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificate authorities to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Own certificate chain and private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Compression of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Zstandard.
    Zstd,
    /// Gzip: every OTLP receiver knows it.
    Gzip,
    /// None.
    None,
}

/// The listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Address; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Certificate chain and private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Plain text beyond loopback was accepted; logged at every start.
    pub insecure: bool,
}

/// Why a config is refused; `Display` names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A secret that others can read.
    #[error("{what}: every user of this host can read {path}; run: chmod o-rwx {path}")]
    Exposed {
        /// The key.
        what: &'static str,
        /// The file that holds the secret.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read config {path}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or a value has the wrong type.
    #[error("{place}: {message}")]
    Syntax {
        /// File or environment variable.
        place: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A key, variable or name that does not exist.
    #[error("{place}: unknown {what} {name:?}{}", .hint.as_ref().map(|h| format!("; did you mean {h:?}?")).unwrap_or_default())]
    Unknown {
        /// File or environment.
        place: String,
        /// `key`, `variable` or `sampler`.
        what: &'static str,
        /// As written.
        name: String,
        /// The nearest valid one.
        hint: Option<String>,
    },
    /// A duration that is none.
    #[error("{key}")]
    Quantity {
        /// The key.
        key: &'static str,
        /// Why.
        #[source]
        source: QuantityError,
    },
    /// A value outside what makes sense.
    #[error("{key}: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// Plain text beyond this host.
    #[error(
        "{key} = {value} is beyond this host and not encrypted; use {tls}, or set {insecure} = true to accept plain text"
    )]
    Insecure {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What would encrypt it.
        tls: &'static str,
        /// The key that accepts it.
        insecure: &'static str,
    },
}
