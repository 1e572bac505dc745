//! Threads by device; everything ends in the ring and in the latest snapshot.

mod congestion;
mod core;
mod once;
#[cfg(test)]
mod tests;
mod troubles;
mod watch;
mod worker;

pub use once::once;
pub(crate) use troubles::words;

use crate::budget::{Budget, Throttle};
use crate::sandbox::Sandbox;
use core::Core;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::rails::Rails;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_probes::destinations::Destinations;
use fabriclens_agent_samplers::microburst::Microburst;
use fabriclens_agent_samplers::{Spec, by_name};
use fabriclens_agent_uplink::ring::Reader;
use fabriclens_agent_workload::Jobs;
use fabriclens_wire::Section;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What to sample, and how often.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `host` label.
    pub host: String,
    /// Period of a full sample.
    pub full: Duration,
    /// Period of the congestion sample.
    pub fast: Duration,
    /// Period of slow facts.
    pub slow: Duration,
    /// A read that takes longer is shown as stalled.
    pub deadline: Duration,
    /// Sampler name → on or off, where it differs from the sampler's default.
    pub samplers: BTreeMap<String, bool>,
    /// Devices and netdevs that are never touched, as globs.
    pub exclude_devices: Vec<String>,
    /// Raw vendor counters to pass through beside the canonical ones, as globs.
    pub passthrough: Vec<String>,
    /// Networks of the rack and of the fabric.
    pub destinations: Arc<Destinations>,
    /// Interfaces to look at closely, and what was recorded of them.
    pub microburst: Arc<Microburst>,
    /// Which device is on which rail.
    pub rails: Arc<Rails>,
    /// Where counters are remembered over a restart; `None` for nowhere.
    pub state_dir: Option<PathBuf>,
    /// Sections that the ring holds.
    pub ring_sections: usize,
    /// Who reads the ring: one uplink each. Without any it holds nothing.
    pub ring_readers: usize,
    /// Above it, the agent slows itself.
    pub budget: Budget,
    /// What its threads enter once they need no more than it leaves them.
    pub sandbox: Sandbox,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: String::new(),
            full: Duration::from_secs(1),
            fast: Duration::from_millis(100),
            slow: Duration::from_secs(30),
            deadline: Duration::from_secs(2),
            samplers: BTreeMap::new(),
            exclude_devices: Vec::new(),
            passthrough: Vec::new(),
            destinations: Arc::default(),
            microburst: Arc::default(),
            rails: Arc::default(),
            state_dir: None,
            ring_sections: 16_384,
            ring_readers: 1,
            budget: Budget::UNBOUNDED,
            sandbox: Sandbox::default(),
        }
    }
}

impl Settings {
    /// Whether that sampler is on.
    pub fn is_on(&self, spec: &Spec) -> bool {
        self.samplers.get(spec.name).copied().unwrap_or(spec.default)
    }

    /// The jobs of a host that is sampled so.
    pub fn jobs(&self) -> Arc<Jobs> {
        let jobs = Jobs::default();
        if !self.looks_for_jobs() {
            jobs.close();
        }
        Arc::new(jobs)
    }

    /// Whether processes are looked at.
    pub fn looks_for_jobs(&self) -> bool {
        by_name("workload").is_some_and(|spec| self.is_on(spec))
    }
}

/// How one source of one target does.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatus {
    /// Name in `samplers::ALL`.
    pub sampler: &'static str,
    /// Device, netdev or `host`.
    pub target: String,
    /// Last result.
    pub outcome: Outcome,
    /// Cost of one read.
    pub last_read: Option<Duration>,
    /// Reads so far.
    pub reads: u64,
    /// Failed reads so far.
    pub errors: u64,
    /// What it costs, where there is something to say.
    pub note: String,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Values came.
    Data {
        /// How many vendor counters and facts one read gives.
        counters: usize,
    },
    /// Nothing to read, and why.
    Absent(String),
    /// Failed; says what would help.
    Error(String),
    /// A read is under way for longer than the deadline.
    Stalled(Duration),
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No thread to be had.
    #[error("starting the thread {name}; raise the limit of tasks of this service")]
    Thread {
        /// Which one.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The running samplers.
#[derive(Debug)]
pub struct Engine {
    core: Arc<Core>,
    watch: Option<std::thread::JoinHandle<()>>,
    host: Option<std::thread::JoinHandle<()>>,
}

impl Engine {
    /// Discovers the host and starts all threads.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(roots: Arc<Roots>, settings: Settings) -> Result<Self, StartError> {
        let core = Arc::new(Core::new(roots, settings));
        let watch = guarded(&core, "watch", "the search for devices", watch::run)?;
        let host = guarded(&core, "host", "the host's own sources", worker::host)?;
        Ok(Self { core, watch: Some(watch), host: Some(host) })
    }

    /// The ring's reader with that number: sections in the order in which they were read.
    pub fn reader(&self, number: usize) -> Reader<Section> {
        self.core.ring.reader(number)
    }

    /// Sections that wait in the ring, and sections dropped because too many waited.
    pub fn ring(&self) -> (usize, u64) {
        (self.core.ring.len(), self.core.ring.dropped())
    }

    /// Latest section of each source that still gives data.
    pub fn snapshot(&self) -> Vec<Section> {
        self.core.snapshot()
    }

    /// State of each source.
    pub fn sources(&self) -> Vec<SourceStatus> {
        let deadline = self.core.settings.deadline;
        self.core.shared.lock().iter().flat_map(|shared| shared.statuses(deadline)).collect()
    }

    /// What is looked at closely, and what was recorded of it.
    pub fn microburst(&self) -> &Microburst {
        &self.core.settings.microburst
    }

    /// How it keeps to its budget.
    pub fn throttle(&self) -> &Throttle {
        &self.core.throttle
    }

    /// What is wrong with its own threads, in words.
    pub fn troubles(&self) -> Vec<String> {
        self.core.troubles.list(Instant::now())
    }

    /// What its threads are shut in by.
    pub fn sandbox(&self) -> &Sandbox {
        &self.core.settings.sandbox
    }

    /// What the host has, as of the last discovery.
    pub fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.core.inventory.lock())
    }

    /// Asks all threads to end and waits at most `deadline` for those that can.
    pub fn shutdown(mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        self.core.stop();
        for thread in self.watch.take().into_iter().chain(self.host.take()) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
        // Device threads end on their own; one that does not has been remembered by its last slow sample.
        while !self.core.shared.lock().iter().all(|s| s.ended.load(Ordering::Relaxed)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.core.save();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// Small stacks: a host has a thread per device.
const STACK: usize = 512 * 1024;

/// A thread of the engine whose panic is told: what it did is not done any more.
fn guarded(
    core: &Arc<Core>,
    name: &str,
    what: &str,
    body: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, StartError> {
    let (core, what) = (Arc::clone(core), what.to_owned());
    spawn(name, move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&core))) {
            let why = words(&*panic);
            tracing::error!(why, "a fault of this program has ended the thread of {what}; please report it");
            core.troubles
                .set(&what, format!("a fault of the agent has ended its thread ({why}); restart it, and report this"));
        }
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(STACK)
        .spawn(body)
        .map_err(|source| StartError::Thread { name: name.into(), source })
}
