//! Checked settings of an uplink and its spool. The agent's configuration fills them.

use crate::spool::Limits;
use crate::spread;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default spool directory; the package's service unit creates it. There is no spool if it does not exist.
const SPOOL_DIR: &str = "/var/lib/fabriclens-agent";

/// Settings of an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// `http://host:port` or `https://host:port`; the first one, if there are several.
    pub url: String,
    /// Further collectors, in the same form.
    pub others: Vec<String>,
    /// Use of several collectors.
    pub mode: Mode,
    /// Time that the first collector must answer before it is used again.
    pub steady: Duration,
    /// Compression of requests.
    pub compression: Compression,
    /// Longest time that a sample waits for the next request.
    pub flush: Duration,
    /// Shortest time between two requests for urgent samples; zero: urgent samples wait for `flush`.
    pub urgent: Duration,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Time that shutdown may take to send queued samples.
    pub drain: Duration,
    /// Limit of sections per request.
    pub batch: usize,
    /// Plain text beyond this host is accepted; logged as a warning at every start.
    pub insecure: bool,
    /// PEM files for `https`.
    pub tls: Tls,
    /// Bearer token, with or without a client certificate; a file of one line.
    pub token_file: Option<PathBuf>,
}

impl Collector {
    /// One collector with default settings.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            others: Vec::new(),
            mode: Mode::Failover,
            steady: Duration::from_secs(30),
            compression: Compression::Zstd,
            flush: Duration::from_secs(1),
            urgent: Duration::from_millis(200),
            timeout: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            batch: 4096,
            insecure: false,
            tls: Tls::default(),
            token_file: None,
        }
    }

    /// All files needed to connect.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let identity = self.tls.identity.iter().flat_map(|(cert, key)| [cert, key]);
        self.tls.ca.iter().chain(identity).chain(&self.token_file).map(PathBuf::as_path)
    }
}

/// Use of several collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first collector that answers gets all samples.
    Failover,
    /// As [`Mode::Failover`], in an order of this host's own: the hosts spread over the collectors.
    Spread,
    /// Every collector gets all samples.
    Duplicate,
}

impl Collector {
    /// Number of uplinks.
    pub fn uplink_count(&self) -> usize {
        if self.mode == Mode::Duplicate { 1 + self.others.len() } else { 1 }
    }

    /// Settings of each uplink of a host: several if samples are duplicated.
    pub fn ways(&self, host: &str) -> Vec<Self> {
        match self.mode {
            Mode::Failover => vec![self.clone()],
            Mode::Spread => {
                let mut urls: Vec<String> = std::iter::once(&self.url).chain(&self.others).cloned().collect();
                spread::prefer(host, &mut urls);
                let mut urls = urls.into_iter();
                vec![Self { url: urls.next().unwrap_or_default(), others: urls.collect(), ..self.clone() }]
            }
            Mode::Duplicate => std::iter::once(&self.url)
                .chain(&self.others)
                .map(|url| Self { url: url.clone(), others: Vec::new(), ..self.clone() })
                .collect(),
        }
    }
}

/// Settings of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    /// An existing directory, with one sub-directory per uplink. `None`: no spool.
    pub dir: Option<PathBuf>,
    /// The directory was configured explicitly.
    pub asked: bool,
    /// Limits of each uplink's spool.
    pub limits: Limits,
    /// Time that a collector must be unreachable before samples are spooled.
    pub after: Duration,
    /// Delivery rate, bytes per second.
    pub rate: u64,
    /// Longest random delay before delivery begins.
    pub jitter: Duration,
}

impl Default for Spool {
    fn default() -> Self {
        Self {
            dir: Some(PathBuf::from(SPOOL_DIR)),
            asked: false,
            limits: Limits { bytes: 256 << 20, age: Duration::from_secs(86_400) },
            after: Duration::from_secs(30),
            rate: 64 << 10,
            jitter: Duration::from_secs(30),
        }
    }
}

impl Spool {
    /// Whether this host has a spool: a recording, which several agents may replay, only if configured explicitly.
    pub fn is_for(&self, recorded: bool) -> bool {
        self.asked || !recorded
    }
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
    /// Gzip; every OTLP receiver supports it.
    Gzip,
    /// Uncompressed.
    None,
}
