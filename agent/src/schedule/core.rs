//! State shared by the threads of the engine.

use super::lanes::Congestion;
use super::settings::Settings;
use super::thread_health::ThreadHealth;
use crate::budget::Throttle;
use crate::device::{Runner, TargetState};
use crate::probing::TraceCounts;
use crate::state::{State, boot_ns};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::Period;
use fabriclens_agent_samplers::kernel_log::position::{LogPosition, Start};
use fabriclens_agent_uplink::TroubledJobs;
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_workload::Jobs;
use fabriclens_wire::Section;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared state of the engine.
#[derive(Debug)]
pub(super) struct Core {
    pub roots: Arc<Roots>,
    pub settings: Settings,
    pub host: Arc<str>,
    pub clock: Arc<Clock>,
    pub ring: Arc<Ring<Section>>,
    pub shared: Mutex<Vec<Arc<TargetState>>>,
    pub state: Option<State>,
    /// Position in the kernel log.
    pub kernel_log: Arc<LogPosition>,
    pub inventory: Mutex<Arc<Inventory>>,
    pub jobs: Arc<Jobs>,
    /// Jobs that incidents touch, as collectors say.
    pub troubled_jobs: Arc<TroubledJobs>,
    /// Sections without a sampler: facts of the host and the agent's own metrics.
    pub own: Mutex<Vec<Section>>,
    /// Set when a thread sees a device vanish or appear.
    pub rediscover: Signal,
    /// Steers the host thread.
    pub host_control: Control,
    /// Wakes the reader of the InfiniBand subnet.
    pub wake_ib_fabric: Signal,
    /// Latest series of collectives: from services, from files, and from counters of MPI operations.
    pub collectives: Mutex<[Option<Section>; 3]>,
    /// Counts of the tracer; `None` while it is off.
    pub tracing: Mutex<Option<TraceCounts>>,
    /// Latest series of probed ports.
    pub probed: Mutex<Vec<Section>>,
    pub congestion: Congestion,
    pub thread_health: ThreadHealth,
    pub throttle: Throttle,
    pub stopping: AtomicBool,
    /// Devices that vanished since the start.
    pub gone: AtomicU64,
    /// Offset of the ticks, derived from the host name, so that a fleet does not send at one instant.
    pub phase: Duration,
}

impl Core {
    pub fn new(roots: Arc<Roots>, settings: Settings) -> Self {
        let host: Arc<str> = settings.host.as_str().into();
        let state = settings.state_dir.as_ref().and_then(|dir| State::open(dir, &host, &roots));
        let kernel_log = state.as_ref().and_then(State::kernel_log).unwrap_or_else(|| first_record(&roots));
        Self {
            kernel_log: Arc::new(LogPosition::new(kernel_log)),
            clock: Arc::new(Clock::new()),
            ring: Arc::new(Ring::new(settings.ring_sections, settings.ring_readers)),
            state,
            shared: Mutex::default(),
            inventory: Mutex::default(),
            jobs: settings.jobs(),
            troubled_jobs: Arc::default(),
            own: Mutex::default(),
            rediscover: Signal::default(),
            host_control: Control::default(),
            wake_ib_fabric: Signal::default(),
            collectives: Mutex::default(),
            tracing: Mutex::default(),
            probed: Mutex::default(),
            congestion: Congestion::default(),
            thread_health: ThreadHealth::default(),
            throttle: Throttle::new(settings.budget),
            stopping: AtomicBool::new(false),
            gone: AtomicU64::new(0),
            phase: phase(&host, settings.full),
            host,
            roots,
            settings,
        }
    }

    /// Saves the state that the next agent process continues from.
    pub fn save(&self) {
        let Some(state) = &self.state else { return };
        let shared = self.shared.lock();
        let memory = |s: &Arc<TargetState>| Some((s.target.clone(), s.memory.lock().clone()?));
        let targets = shared.iter().filter_map(memory).collect();
        drop(shared);
        state.save(targets, self.kernel_log.next());
    }

    /// Restores the state of a sampling target from the previous agent process.
    pub fn recall(&self, runner: &mut Runner) {
        let target = runner.target();
        let memory = self.state.as_ref().and_then(|s| s.take(&target.name(), &target.identity()));
        runner.recall(memory);
    }

    /// Effective period of full samples: longer while the throttle is active.
    pub fn full(&self) -> Duration {
        self.throttle.full(self.settings.full)
    }

    /// Stops all threads: `watch` stops those of devices.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.rediscover.set();
        self.host_control.stop();
        self.wake_ib_fabric.set();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Latest sections, without those of sources that stopped giving data: their values may be outdated.
    pub fn snapshot(&self) -> Vec<Section> {
        let now = self.clock.now();
        let (full, slow, deadline) = (self.full(), self.settings.slow, self.settings.deadline);
        let oldest = |period: Period| {
            let age = deadline + 3 * if period == Period::Full { full } else { slow };
            now.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
        };
        let mut sections = self.own.lock().clone();
        sections.extend(self.probed.lock().iter().cloned());
        sections.extend(self.collectives.lock().iter().flatten().cloned());
        for shared in self.shared.lock().iter() {
            let periods: Vec<Period> = shared.stats.lock().iter().map(|a| a.spec.period).collect();
            for (latest, period) in shared.latest.lock().iter().zip(periods) {
                sections.extend(latest.iter().flatten().filter(|s| s.end_ns >= oldest(period)).cloned());
            }
        }
        sections
    }
}

/// Time since boot up to which an agent without state reads the kernel log from its beginning: the state is lost with a reboot
/// where it is kept in memory, and faults while a host boots are news.
const BOOTED_NS: u64 = 600_000_000_000;

/// Where an agent without state begins to read the kernel log.
fn first_record(roots: &Roots) -> Start {
    if roots.is_recorded() || boot_ns() < BOOTED_NS { Start::Boot } else { Start::End }
}

/// Offset within a period: FNV-1a of the host name.
fn phase(host: &str, period: Duration) -> Duration {
    let hash = host.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(hash % millis)
}

/// Flag that a thread can wait for.
#[derive(Debug, Default)]
pub(super) struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub fn set(&self) {
        *self.set.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until `deadline` or until the flag is set, and clears it. True if it was set.
    pub fn wait(&self, deadline: Instant) -> bool {
        let mut set = self.set.lock();
        while !*set {
            if self.changed.wait_until(&mut set, deadline).timed_out() {
                break;
            }
        }
        std::mem::take(&mut *set)
    }
}

/// How others steer the thread of a device or of the host.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub wake: Signal,
    /// Somebody has changed settings: the slow sources are read at the next full sample.
    pub settings_changed: AtomicBool,
    pub stop: AtomicBool,
}

impl Control {
    /// Asks the thread to end its series and return. A blocked thread does so when its read returns.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake.set();
    }
}
