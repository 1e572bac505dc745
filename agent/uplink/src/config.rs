//! Settings of an uplink and its spool, checked. The agent's configuration fills them.

use crate::spool::Limits;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default directory of the spool; the package's unit creates it. Without it there is no spool.
const SPOOL_DIR: &str = "/var/lib/fabriclens-agent";

/// The way to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// `http://host:port` or `https://host:port`; the first of several.
    pub url: String,
    /// The other ones, in the same form.
    pub others: Vec<String>,
    /// What several are for.
    pub mode: Mode,
    /// How long the first one must answer until it is used again.
    pub steady: Duration,
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
    /// What it is told that we are, beside or without a certificate; a file with one line.
    pub token_file: Option<PathBuf>,
}

impl Collector {
    /// One collector with the default of every other setting.
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

    /// Every file that is read to connect.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let identity = self.tls.identity.iter().flat_map(|(cert, key)| [cert, key]);
        self.tls.ca.iter().chain(identity).chain(&self.token_file).map(PathBuf::as_path)
    }
}

/// What several collectors are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One of them gets all samples: the first that answers.
    Failover,
    /// Each gets all samples.
    Duplicate,
}

impl Collector {
    /// One for each way that samples go: several where they are duplicated.
    pub fn ways(&self) -> Vec<Self> {
        match self.mode {
            Mode::Failover => vec![self.clone()],
            Mode::Duplicate => std::iter::once(&self.url)
                .chain(&self.others)
                .map(|url| Self { url: url.clone(), others: Vec::new(), ..self.clone() })
                .collect(),
        }
    }
}

/// Samples that wait on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spool {
    /// A directory that is there; below it each way has one. `None`: nowhere.
    pub dir: Option<PathBuf>,
    /// It is not the default, so somebody wants it.
    pub asked: bool,
    /// What it may hold, of each way.
    pub limits: Limits,
    /// How long a collector must be away before anything is written.
    pub after: Duration,
    /// Bytes a second that are delivered from it.
    pub rate: u64,
    /// Longest time until that begins.
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
    /// Whether a host has one: a recording, which several may look at, only where somebody asked for it.
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
    /// Gzip: every OTLP receiver knows it.
    Gzip,
    /// None.
    None,
}
