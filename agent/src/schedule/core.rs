//! What the threads of the engine share.

use super::Settings;
use super::congestion::Congestion;
use super::troubles::Troubles;
use crate::budget::Throttle;
use crate::device::{Runner, Shared};
use crate::state::State;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::Period;
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_workload::Jobs;
use fabriclens_wire::Section;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    pub roots: Arc<Roots>,
    pub settings: Settings,
    pub host: Arc<str>,
    pub clock: Arc<Clock>,
    pub ring: Arc<Ring<Section>>,
    pub shared: Mutex<Vec<Arc<Shared>>>,
    pub state: Option<State>,
    pub inventory: Mutex<Arc<Inventory>>,
    pub jobs: Arc<Jobs>,
    /// Sections that belong to no sampler: the host's facts and the agent's own metrics.
    pub own: Mutex<Vec<Section>>,
    /// Somebody saw a device vanish or appear.
    pub rediscover: Signal,
    /// Ends the sleep of the host's thread.
    pub wake_host: Signal,
    pub congestion: Congestion,
    pub troubles: Troubles,
    pub throttle: Throttle,
    pub stopping: AtomicBool,
    /// Devices that vanished since the start.
    pub gone: AtomicU64,
    /// Per-host phase of the ticks, so that a fleet does not send in one instant.
    pub phase: Duration,
}

impl Core {
    pub fn new(roots: Arc<Roots>, settings: Settings) -> Self {
        let host: Arc<str> = settings.host.as_str().into();
        Self {
            clock: Arc::new(Clock::new()),
            ring: Arc::new(Ring::new(settings.ring_sections, settings.ring_readers)),
            state: settings.state_dir.as_ref().and_then(|dir| State::open(dir, &host, &roots)),
            shared: Mutex::default(),
            inventory: Mutex::default(),
            jobs: settings.jobs(),
            own: Mutex::default(),
            rediscover: Signal::default(),
            wake_host: Signal::default(),
            congestion: Congestion::default(),
            troubles: Troubles::default(),
            throttle: Throttle::new(settings.budget),
            stopping: AtomicBool::new(false),
            gone: AtomicU64::new(0),
            phase: phase(&host, settings.full),
            host,
            roots,
            settings,
        }
    }

    /// Writes down what the next agent needs to go on.
    pub fn save(&self) {
        let Some(state) = &self.state else { return };
        let shared = self.shared.lock();
        let memory = |s: &Arc<Shared>| Some((s.target.clone(), s.memory.lock().clone()?));
        let targets = shared.iter().filter_map(memory).collect();
        drop(shared);
        state.save(targets);
    }

    /// What the agent before this one knew of a subject.
    pub fn recall(&self, runner: &mut Runner) {
        let subject = runner.subject();
        let memory = self.state.as_ref().and_then(|s| s.take(&subject.target(), &subject.identity()));
        runner.recall(memory);
    }

    /// Full period for now: longer while the agent costs too much.
    pub fn full(&self) -> Duration {
        self.throttle.full(self.settings.full)
    }

    /// Ends all threads: `watch` passes it on to those of devices.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.rediscover.set();
        self.wake_host.set();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Latest sections; those of sources that have fallen silent are left out, because nobody vouches for them.
    pub fn snapshot(&self) -> Vec<Section> {
        let now = self.clock.now();
        let (full, slow, deadline) = (self.full(), self.settings.slow, self.settings.deadline);
        let oldest = |period: Period| {
            let age = deadline + 3 * if period == Period::Full { full } else { slow };
            now.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
        };
        let mut sections = self.own.lock().clone();
        for shared in self.shared.lock().iter() {
            let periods: Vec<Period> = shared.accounts.lock().iter().map(|a| a.spec.period).collect();
            for (latest, period) in shared.latest.lock().iter().zip(periods) {
                sections.extend(latest.iter().flatten().filter(|s| s.end_ns >= oldest(period)).cloned());
            }
        }
        sections
    }
}

/// FNV-1a of the host's name, spread over the period.
fn phase(host: &str, period: Duration) -> Duration {
    let hash = host.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(hash % millis)
}

/// A flag that a thread sleeps on.
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

    /// Waits until `deadline` or until it is set; clears it. True when it was set.
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
