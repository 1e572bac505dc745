//! The thread of one device, and the thread of the host.

use super::congestion::TOO_CLOSE;
use super::core::{Control, Core};
use super::lanes::Lane;
use crate::budget::Cost;
use crate::device::{Runner, Tick};
use crate::health;
use crate::probing::ProbingCounts;
use crate::sandbox::Role;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_wire::Section;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The agent's own metrics are sampled in one of this many full ticks.
const HEALTH_EVERY: u32 = 5;

/// Shortest time between two reads of slow sources, however often settings change.
const SLOW_AT_MOST: Duration = Duration::from_secs(5);

/// Delays of further state reads after an event: the kernel reports a carrier before the port changes.
const SETTLING: [Duration; 3] = [Duration::from_millis(30), Duration::from_millis(120), Duration::from_millis(500)];

/// Samples the targets of one device until stopped; takes congestion samples only if the congestion thread does not.
pub(super) fn device(core: &Arc<Core>, control: &Control, lane: &Lane) {
    let mut pace = Pace::new(core);
    let mut has_fast = false;
    while let Some(tick) = pace.next(core, control, has_fast && lane.alone.load(Ordering::Relaxed)) {
        if control.stop.load(Ordering::Relaxed) || core.is_stopping() {
            break;
        }
        let mut runners = lane.runners.lock();
        let mut present = true;
        for runner in runners.iter_mut() {
            present &= runner.run(tick, &mut |section| {
                core.ring.push(section);
            });
        }
        has_fast = runners.iter().any(Runner::has_fast);
        if !present {
            core.rediscover.set();
        }
    }
    for runner in lane.runners.lock().iter_mut() {
        runner.close(&mut |section| {
            core.ring.push(section);
        });
    }
}

/// Samples the host's own sources and the agent's metrics.
pub(super) fn host(core: &Arc<Core>) {
    let mut runner = Runner::new(
        SamplingTarget::host(&core.roots, &core.host, &core.settings.destinations)
            .with_microburst(&core.settings.microburst)
            .with_jobs(&core.jobs)
            .with_kernel_log(&core.kernel_log),
        &core.settings,
        Arc::clone(&core.clock),
    );
    core.recall(&mut runner);
    core.shared.lock().insert(0, runner.shared());
    let mut health = health::Health::new(&core.host, core.clock.now());
    let mut pace = Pace::new(core);
    let (mut ticks, mut stepped) = (0_u32, None);
    while let Some(tick) = pace.next(core, &core.host_control, false) {
        if core.is_stopping() {
            break;
        }
        if core.clock.look() && stepped.is_none_or(|at: Instant| at.elapsed() >= core.settings.slow) {
            tracing::warn!("wall clock stepped; rates use the monotonic clock and are not affected");
            stepped = Some(Instant::now());
        }
        runner.run(tick, &mut |section| {
            core.ring.push(section);
        });
        if ticks == 0 {
            let again = !core.settings.microburst.netdevs.is_empty();
            capabilities::of_attached_probes(again, core.settings.looks_for_jobs());
            core.settings.sandbox.enter(Role::Probes { processes: capabilities::may_look() });
        }
        // Not before the other threads have read: a crash would lose the state that they have yet to restore.
        if tick == Tick::Slow && ticks > 0 {
            core.save();
        }
        if ticks.is_multiple_of(HEALTH_EVERY) {
            core.throttle.observe(Cost::now(), Instant::now());
            let sections = own(core, &mut health);
            for section in &sections {
                core.ring.push(section.clone());
            }
            *core.own.lock() = sections;
        }
        ticks = ticks.wrapping_add(1);
    }
    runner.close(&mut |section| {
        core.ring.push(section);
    });
}

/// Sections of the agent's own metrics and of facts of the host.
fn own(core: &Core, health: &mut health::Health) -> Vec<Section> {
    let mut stats = Vec::new();
    for shared in core.shared.lock().iter() {
        shared.statuses(core.settings.deadline);
        stats.extend(shared.stats.lock().iter().cloned());
    }
    let inventory = Arc::clone(&core.inventory.lock());
    let counts = health::Counts {
        ring_depth: core.ring.len(),
        ring_dropped: core.ring.dropped(),
        gone: core.gone.load(Ordering::Relaxed),
        deadline: core.settings.deadline,
        slowed: core.throttle.step(),
        used: core.throttle.used(),
        sandbox: core.settings.sandbox.state(),
        probing: core.settings.probe_plans.as_ref().map(|plans| ProbingCounts::of(plans, &core.tracing.lock())),
    };
    let mut sections = health.sections(&core.clock, &stats, &inventory, &counts);
    sections.push(health.host_facts(&core.roots, &core.host, &inventory, core.clock.now()));
    sections
}

/// Times of the next samples.
struct Pace {
    full: Instant,
    fast: Instant,
    slow: Instant,
    /// When slow sources may be read again.
    slow_again: Instant,
    /// Times of state reads after an event, the latest first.
    settling: Vec<Instant>,
    first: bool,
}

impl Pace {
    fn new(_: &Core) -> Self {
        let now = Instant::now();
        Self { full: now, fast: now, slow: now, slow_again: now, settling: Vec::new(), first: true }
    }

    /// Sleeps until a sample is due; `None` when stopping. Missed ticks are not made up for.
    fn next(&mut self, core: &Core, control: &Control, fast: bool) -> Option<Tick> {
        if std::mem::take(&mut self.first) {
            self.plan(core, true);
            return Some(Tick::Slow);
        }
        let settings = &core.settings;
        let fast = fast && core.throttle.fast() && self.fast + settings.fast / TOO_CLOSE < self.full;
        let due = if fast { self.fast } else { self.full };
        let settling = self.settling.last().copied().filter(|at| *at < due);
        let woken = control.wake.wait(settling.unwrap_or(due));
        if core.is_stopping() {
            return None;
        }
        if woken {
            self.settling = SETTLING.iter().rev().map(|delay| Instant::now() + *delay).collect();
            return Some(Tick::State);
        }
        if settling.is_some() {
            self.settling.pop();
            return Some(Tick::State);
        }
        if fast {
            self.fast = Instant::now() + core.clock.until_next(settings.fast, core.phase);
            return Some(Tick::Fast);
        }
        let slow = self.is_slow(control, Instant::now());
        self.plan(core, slow);
        Some(if slow { Tick::Slow } else { Tick::Full })
    }

    /// Whether the full sample at `now` reads slow sources, too.
    fn is_slow(&self, control: &Control, now: Instant) -> bool {
        now >= self.slow || (now >= self.slow_again && control.settings_changed.swap(false, Ordering::Relaxed))
    }

    fn plan(&mut self, core: &Core, slow: bool) {
        let settings = &core.settings;
        let now = Instant::now();
        self.full = now + core.clock.until_next(core.full(), core.phase);
        self.fast = now + core.clock.until_next(settings.fast, core.phase);
        if slow {
            self.slow = now + settings.slow;
            self.slow_again = now + SLOW_AT_MOST;
        }
    }
}
