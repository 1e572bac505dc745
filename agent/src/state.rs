//! State that survives a restart of the agent: the last reading of each counter and its exported total, so that extended counters
//! continue, and the position in the kernel log. The host thread of `schedule` writes it; it is read once at startup.
//!
//! The file is one line of magic, version and checksum, then JSON. It is valid only within one boot and for the same
//! incarnation of a device; otherwise counters and their series start anew, and the kernel log is read from its beginning. An unusable file is logged and ignored,
//! never an error.

use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_agent_samplers::kernel_log::position::Start;
use fabriclens_base::owned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FILE: &str = "counters.state";
const MAGIC: &str = "fabriclens-agent-state 1";
/// Size limit of the file: a host with dozens of adapters has a few megabytes.
const LARGEST: u64 = 64 << 20;

/// One exported series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// Metric name of the catalog.
    pub metric: String,
    /// Labels besides the resource identity.
    pub labels: Vec<(String, String)>,
    /// Total, in counts of `scale`.
    pub count: u64,
    /// Exported units per count.
    pub scale: f64,
    /// Start of the series, Unix ns.
    pub start: u64,
}

/// Last reading and recent rate (raw units per second) of each vendor counter, by sampler and counter name.
pub type Readings = BTreeMap<String, HashMap<String, (u64, f64)>>;

/// State of one sampling target.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TargetMemory {
    /// Incarnation of the device.
    pub identity: String,
    /// Time of the reading, nanoseconds of the boot clock.
    pub at: u64,
    /// Exported counters.
    pub series: Vec<Series>,
    /// Raw counters.
    pub readings: Readings,
}

/// Content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    host: String,
    boot_id: String,
    targets: BTreeMap<String, TargetMemory>,
    /// Number of the next record of the kernel log.
    #[serde(default)]
    kernel_log: Option<u64>,
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

/// Reason why a state file is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    #[error("it is larger than {LARGEST} bytes")]
    Large,
    #[error("it is not a state file of this agent version")]
    Foreign,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its content is malformed")]
    Malformed(#[source] serde_json::Error),
    #[error("it belongs to another host")]
    OtherHost,
    #[error("it belongs to another boot")]
    OtherBoot,
}

/// The state file, and its content at startup.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    host: String,
    boot_id: String,
    targets: parking_lot::Mutex<BTreeMap<String, TargetMemory>>,
    kernel_log: Option<Start>,
}

impl State {
    /// Opens the state in `dir`; `None`, with a log message, if no state can be kept there.
    pub fn open(dir: &Path, host: &str, roots: &Roots) -> Option<Self> {
        // Without the boot id, a count of another boot could pass as one of this boot.
        let boot_id = maybe(&roots.proc().join("sys/kernel/random/boot_id"))?;
        let usable = std::fs::create_dir_all(dir).and_then(|()| owned::check_dir(dir));
        if let Err(error) = usable {
            tracing::info!(dir = %dir.display(), %error, "counter state is not kept over a restart; set state_dir to a writable directory");
            return None;
        }
        let mut state =
            Self { dir: dir.to_owned(), host: host.to_owned(), boot_id, targets: Default::default(), kernel_log: None };
        match state.load() {
            Ok(content) => {
                state.kernel_log = content.kernel_log.map(Start::At);
                state.targets = content.targets.into();
            }
            Err(Unusable::Read(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(why @ (Unusable::OtherHost | Unusable::OtherBoot)) => {
                state.kernel_log = matches!(why, Unusable::OtherBoot).then_some(Start::Boot);
                tracing::info!(file = %state.file().display(), %why, "state file is not used")
            }
            Err(why) => {
                let why = fabriclens_base::error_chain::with_causes(&why);
                tracing::warn!(file = %state.file().display(), %why, "state file is not used and is replaced; extended counters start anew");
            }
        }
        Some(state)
    }

    fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    fn load(&self) -> Result<Content, Unusable> {
        let file = self.file();
        let meta = std::fs::symlink_metadata(&file).map_err(Unusable::Read)?;
        if !meta.is_file() {
            return Err(Unusable::Foreign);
        }
        if meta.len() > LARGEST {
            return Err(Unusable::Large);
        }
        let content = Content::read(&std::fs::read(&file).map_err(Unusable::Read)?)?;
        if content.host != self.host {
            return Err(Unusable::OtherHost);
        }
        if content.boot_id == self.boot_id { Ok(content) } else { Err(Unusable::OtherBoot) }
    }

    /// Where reading of the kernel log goes on: after what the last agent told, or with the first record of a new boot. `None` if
    /// that is unknown.
    pub fn kernel_log(&self) -> Option<Start> {
        self.kernel_log
    }

    /// State of the target with that identity and the time of its reading; removed by the call.
    pub fn take(&self, target: &str, identity: &str) -> Option<(TargetMemory, Instant)> {
        let found = self.targets.lock().remove(target).filter(|t| t.identity == identity)?;
        let gap = Duration::from_nanos(boot_ns().checked_sub(found.at)?);
        Some((found, Instant::now().checked_sub(gap)?))
    }

    /// Replaces the content of the file; `kernel_log` is the number of the next record of the kernel log.
    pub fn save(&self, targets: BTreeMap<String, TargetMemory>, kernel_log: Option<u64>) {
        let content = Content { host: self.host.clone(), boot_id: self.boot_id.clone(), targets, kernel_log };
        if let Err(error) = self.replace(&content) {
            tracing::warn!(file = %self.file().display(), %error, "cannot save the state; a restart would start extended counters anew");
        }
    }

    /// Replaces the file atomically by renaming a new one.
    fn replace(&self, content: &Content) -> std::io::Result<()> {
        let bytes = sealed(&serde_json::to_vec(content)?);
        let new = self.dir.join(format!("{FILE}.new"));
        let _ = std::fs::remove_file(&new);
        let mut file = owned::options().write(true).create_new(true).open(&new)?;
        file.write_all(&bytes)?;
        std::fs::rename(&new, self.file())
    }
}

/// Nanoseconds since boot, including suspend.
pub fn boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Content of a file with this body. Public for `fuzz`, to produce valid checksums.
pub fn sealed(body: &[u8]) -> Vec<u8> {
    [format!("{MAGIC} {:016x}\n", checksum(body)).as_bytes(), body].concat()
}

/// FNV-1a: detects torn and edited files; an attacker could not write there.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
