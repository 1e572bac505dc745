//! What the agent remembers over its own restart: the last reading of each counter and the total exported for it, so
//! that extended counters go on where they were. Written by the host's thread of `schedule`, read once at the start.
//!
//! The file is one line of magic, version and checksum, and JSON. It counts only within one boot and for the same
//! incarnation of a device: after anything else counters begin anew, and so do their series. A file that does not fit
//! is never an error of the agent: it says so and starts fresh.

use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILE: &str = "counters.state";
const MAGIC: &str = "fabriclens-agent-state 1";
/// A host with dozens of adapters has a few megabytes; anything beyond was not written by an agent.
const LARGEST: u64 = 64 << 20;

/// One exported series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// The catalog's name.
    pub metric: String,
    /// Labels beside the identity.
    pub labels: Vec<(String, String)>,
    /// Total, in units of `scale`.
    pub count: u64,
    /// Exported units of one count.
    pub scale: f64,
    /// Since when it counts, Unix ns.
    pub start: u64,
}

/// Sources of a target by sampler: last reading and recent pace (raw units per second) of each vendor counter.
pub type Readings = BTreeMap<String, HashMap<String, (u64, f64)>>;

/// What is remembered of one target.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Target {
    /// Incarnation of the device.
    pub identity: String,
    /// When it was read, nanoseconds of the boot clock.
    pub at: u64,
    /// Exported counters.
    pub series: Vec<Series>,
    /// Raw counters.
    pub readings: Readings,
}

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    host: String,
    boot_id: String,
    targets: BTreeMap<String, Target>,
}

impl Content {
    fn read(bytes: &[u8]) -> Result<Self, Unusable> {
        let end = bytes.iter().position(|b| *b == b'\n').ok_or(Unusable::Foreign)?;
        let (head, body) = (&bytes[..end], &bytes[end + 1..]);
        let sum = head.strip_prefix(MAGIC.as_bytes()).ok_or(Unusable::Foreign)?;
        if sum != format!(" {:016x}", checksum(body)).as_bytes() {
            return Err(Unusable::Checksum);
        }
        serde_json::from_slice(body).map_err(Unusable::Malformed)
    }
}

/// Why a state file counts for nothing.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    #[error("it is larger than {LARGEST} bytes")]
    Large,
    #[error("it is no state of this version of the agent")]
    Foreign,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its content is malformed")]
    Malformed(#[source] serde_json::Error),
    #[error("it is of another host or boot")]
    Stale,
}

/// The file, and what was in it at the start.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    host: String,
    boot_id: String,
    targets: parking_lot::Mutex<BTreeMap<String, Target>>,
}

impl State {
    /// Opens `dir`; `None`, after saying why, where nothing can be remembered there.
    pub fn open(dir: &Path, host: &str, roots: &Roots) -> Option<Self> {
        // Without it, a count of another boot could be taken for one of this.
        let boot_id = maybe(&roots.proc().join("sys/kernel/random/boot_id"))?;
        if let Err(error) = std::fs::create_dir_all(dir) {
            tracing::info!(dir = %dir.display(), %error, "nothing is remembered over a restart; set state_dir to a directory that can be written");
            return None;
        }
        let mut state = Self { dir: dir.to_owned(), host: host.to_owned(), boot_id, targets: Default::default() };
        match state.load() {
            Ok(targets) => state.targets = targets.into(),
            Err(Unusable::Read(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(why @ Unusable::Stale) => {
                tracing::info!(file = %state.file().display(), "the state is not used: {why}")
            }
            Err(why) => {
                let why = fabriclens_agent_host::batch::chain(&why);
                tracing::warn!(file = %state.file().display(), "the state is not used: {why}; extended counters start anew, and the file is replaced");
            }
        }
        Some(state)
    }

    fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn load(&self) -> Result<BTreeMap<String, Target>, Unusable> {
        let file = self.file();
        let meta = std::fs::symlink_metadata(&file).map_err(Unusable::Read)?;
        if !meta.is_file() {
            return Err(Unusable::Foreign);
        }
        if meta.len() > LARGEST {
            return Err(Unusable::Large);
        }
        let content = Content::read(&std::fs::read(&file).map_err(Unusable::Read)?)?;
        let ours = content.host == self.host && content.boot_id == self.boot_id;
        if ours { Ok(content.targets) } else { Err(Unusable::Stale) }
    }

    /// What was remembered of a target of that identity, and when it was read; given once.
    pub fn take(&self, target: &str, identity: &str) -> Option<(Target, Instant)> {
        let found = self.targets.lock().remove(target).filter(|t| t.identity == identity)?;
        let gap = Duration::from_nanos(boot_ns().checked_sub(found.at)?);
        Some((found, Instant::now().checked_sub(gap)?))
    }

    /// Replaces the file by `targets`.
    pub fn save(&self, targets: BTreeMap<String, Target>) {
        let content = Content { host: self.host.clone(), boot_id: self.boot_id.clone(), targets };
        if let Err(error) = self.replace(&content) {
            tracing::warn!(file = %self.file().display(), %error, "the state is not saved; a restart now would start extended counters anew");
        }
    }

    /// All of it or nothing: a new file takes the name of the old one.
    fn replace(&self, content: &Content) -> std::io::Result<()> {
        let bytes = sealed(&serde_json::to_vec(content)?);
        let new = self.dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        std::fs::rename(&new, self.file())
    }
}

/// Nanoseconds since boot, with time asleep.
pub fn boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// A file with this body. Public for `fuzz`, which gets behind the sum by it.
pub fn sealed(body: &[u8]) -> Vec<u8> {
    [format!("{MAGIC} {:016x}\n", checksum(body)).as_bytes(), body].concat()
}

/// FNV-1a: against torn and edited files, not against an enemy, who could not write there.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
