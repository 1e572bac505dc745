//! What the threads of all ports share: settings, targets, the host's budget, and the state of each port.

use crate::bucket::Bucket;
use crate::port_prober::Time;
use crate::stats::PortStats;
use fabriclens_agent_host::clock::Clock;
use fabriclens_kernel::datagrams::PortSource;
use fabriclens_probe_plan::{ProbeResult, ProbedPort, Target, octets};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Most probes of a host, per second, over all its ports and with TCP twins.
const PER_HOST: u32 = 2000;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Sends and answers RDMA probes.
    pub rdma: bool,
    /// Sends and answers TCP twins.
    pub tcp: bool,
    /// Most probes from one port, per second; a TCP twin is one more.
    pub per_second: u32,
    /// TCP port that answers TCP twins.
    pub tcp_port: u16,
}

/// State of a port for RDMA probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    /// RDMA probes are off.
    Off,
    /// Not opened yet.
    Opening,
    /// Sends and answers.
    Open {
        /// Number of the queue pair that answers.
        queue_pair: u32,
        /// UDP source ports, if the driver fixes them.
        source_ports: Vec<u32>,
        /// Whether times are the NIC's.
        hardware_time: bool,
    },
    /// Cannot, with the reason and the remedy.
    Failed(String),
}

/// A port.
#[derive(Debug)]
pub(crate) struct PortEntry {
    /// How it is opened, or why it cannot be.
    pub source: Result<PortSource, String>,
    pub state: PortState,
    /// Whether TCP twins are answered; the reason if not.
    pub tcp: Result<(), String>,
    /// Sums of its thread.
    pub stats: PortStats,
    /// Sums of the thread of TCP twins.
    pub tcp_stats: PortStats,
    /// Cleared when its thread shall end.
    pub wanted: Arc<AtomicBool>,
}

/// Takes the result of a probe.
pub type Report = Box<dyn Fn(&Target, ProbeResult) + Send + Sync>;

/// Shared state of the prober.
pub struct Prober {
    pub(crate) settings: Settings,
    /// Random number of this run.
    pub(crate) run: u32,
    /// Unix nanoseconds of the start.
    pub(crate) start_ns: u64,
    origin: Instant,
    clock: Arc<Clock>,
    budget: Mutex<Bucket>,
    targets: Mutex<Arc<[Arc<Target>]>>,
    /// Raised when targets or ports have changed.
    version: AtomicU64,
    pub(crate) ports: Mutex<BTreeMap<String, PortEntry>>,
    pub(crate) threads: AtomicUsize,
    pub(crate) has_tcp_thread: AtomicBool,
    stopping: AtomicBool,
    /// One of so many probes is sent, as a power of two.
    reduction: AtomicU32,
    /// Probes that asked for a token.
    asked: AtomicU64,
    pub(crate) report: Report,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prober").field("settings", &self.settings).field("run", &self.run).finish_non_exhaustive()
    }
}

impl Prober {
    /// Nothing to probe yet.
    pub fn new(settings: Settings, clock: Arc<Clock>, report: Report) -> Self {
        // The keys of the standard library's hash tables are random.
        let random = RandomState::new().build_hasher().finish();
        Self {
            settings,
            run: (random >> 32) as u32,
            start_ns: clock.now(),
            origin: Instant::now(),
            clock,
            budget: Mutex::new(Bucket::new(PER_HOST, Duration::ZERO)),
            targets: Mutex::new(Arc::default()),
            version: AtomicU64::new(1),
            ports: Mutex::default(),
            threads: AtomicUsize::new(0),
            has_tcp_thread: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            reduction: AtomicU32::new(0),
            asked: AtomicU64::new(0),
            report,
        }
    }

    /// Replaces the targets of all ports.
    pub fn set_targets(&self, targets: impl IntoIterator<Item = Target>) {
        *self.targets.lock() = targets.into_iter().map(Arc::new).collect();
        self.changed();
    }

    /// Ends all threads, each within a fraction of a second.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Ports as they are offered to the collector: those that answer RDMA probes or TCP twins.
    pub fn offers(&self) -> Vec<ProbedPort> {
        self.ports.lock().iter().filter_map(|(name, entry)| offer(name, entry, self.settings)).collect()
    }

    /// Ports that do not answer RDMA probes or TCP twins as they should, each with the reason and the remedy.
    pub fn problems(&self) -> Vec<String> {
        let ports = self.ports.lock();
        let rdma = ports.values().filter_map(|entry| match &entry.state {
            PortState::Failed(why) => Some(why.clone()),
            _ => None,
        });
        let tcp = ports.iter().filter_map(|(name, entry)| {
            let why = entry.tcp.as_ref().err()?;
            Some(format!("{name} does not answer TCP twins: {why}"))
        });
        rdma.chain(tcp).collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// All targets.
    pub(crate) fn targets(&self) -> Arc<[Arc<Target>]> {
        Arc::clone(&self.targets.lock())
    }

    /// Sends only one of 2^`steps` probes, because the agent costs too much.
    pub fn reduce(&self, steps: u32) {
        self.reduction.store(steps.min(4), Ordering::Relaxed);
    }

    /// Takes a token of the host's budget.
    pub(crate) fn take(&self, now: Duration) -> bool {
        let every = 1_u64 << self.reduction.load(Ordering::Relaxed);
        let is_turn = self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(every);
        is_turn && self.budget.lock().take(now)
    }

    /// Changes a port's entry, if it still is of the thread with this flag.
    pub(crate) fn update(&self, name: &str, wanted: &Arc<AtomicBool>, change: impl FnOnce(&mut PortEntry)) {
        if let Some(entry) = self.ports.lock().get_mut(name).filter(|entry| Arc::ptr_eq(&entry.wanted, wanted)) {
            change(entry);
        }
    }
}

impl Time for Prober {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn unix_ns(&self) -> u64 {
        self.clock.now()
    }
}

fn offer(name: &str, entry: &PortEntry, settings: Settings) -> Option<ProbedPort> {
    let source = entry.source.as_ref().ok()?;
    let mut port = ProbedPort {
        name: name.to_owned(),
        address: source.gid.map(|gid| octets(gid.1)).unwrap_or_default(),
        lid: source.lid.into(),
        ..ProbedPort::default()
    };
    if let PortState::Open { queue_pair, source_ports, hardware_time } = &entry.state {
        (port.queue_pair, port.hardware_time) = (*queue_pair, *hardware_time);
        port.source_ports.clone_from(source_ports);
    }
    if settings.tcp && source.gid.is_some() && entry.tcp.is_ok() {
        port.tcp_port = settings.tcp_port.into();
    }
    (port.queue_pair != 0 || port.tcp_port != 0).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_one_budget_and_reduces_it() {
        let settings = Settings { rdma: true, tcp: true, per_second: 100, tcp_port: 7472 };
        let prober = Prober::new(settings, Arc::new(Clock::new()), Box::new(|_, _| ()));
        let second =
            |from: u64| (0..10_000).filter(|step| prober.take(Duration::from_micros(from + 100 * step))).count();
        let all = second(0);
        assert!((2000..=2501).contains(&all), "{all}");
        prober.reduce(3);
        let some = second(1_000_000);
        assert!((1240..=1250).contains(&some), "{some} of 10,000");
        prober.reduce(99);
        assert!(second(2_000_000) > 600, "never none");
    }
}
