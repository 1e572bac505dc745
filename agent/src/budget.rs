//! CPU and memory budget of the agent: a throttle that lowers the sampling rate step by step while the agent costs more
//! than its budget, and raises it again after some windows below half of it.
//! The host thread of `schedule` feeds it; all sampling threads read it.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Upper bound of the agent's own cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Cores, averaged over [`WINDOW`].
    pub cpu: f64,
    /// Resident bytes.
    pub memory: u64,
}

impl Budget {
    /// No budget.
    pub const UNBOUNDED: Self = Self { cpu: f64::INFINITY, memory: u64::MAX };
    /// Default budget: several times the cost of an agent with eight adapters, and less than the service unit allows.
    pub const USUAL: Self = Self { cpu: 0.02, memory: 96 << 20 };
}

/// Cost of the process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of processors.
    pub cpu: Duration,
    /// Resident bytes.
    pub memory: u64,
}

impl Cost {
    /// Cost of this process now. Memory is 0 if the kernel does not report it.
    pub fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(cpu.tv_sec).unwrap_or_default();
        // Pages: size, resident, … `status` has more and takes ten times as long to print. Always the real `/proc`.
        let pages = fabriclens_agent_host::sysfile::maybe(std::path::Path::new("/proc/self/statm"))
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        Self {
            cpu: Duration::new(seconds, u32::try_from(cpu.tv_nsec).unwrap_or_default()),
            memory: pages.unwrap_or(0) * rustix::param::page_size() as u64,
        }
    }
}

/// Averaging window; the throttle moves at most one step per window.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Windows below half of the budget before a step back. The number doubles after each step back that came too early.
const CALM: u32 = 5;
const LONGEST_CALM: u32 = 60;

/// Sampling rates, from the configured one to the slowest.
const STEPS: &[Step] = &[
    Step { full: 1, fast: true },
    Step { full: 1, fast: false },
    Step { full: 2, fast: false },
    Step { full: 4, fast: false },
    Step { full: 8, fast: false },
];

struct Step {
    /// Number of full periods that are merged into one.
    full: u32,
    /// Whether congestion samples are taken.
    fast: bool,
}

/// Cost in the last complete window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowUsage {
    /// CPU cores.
    pub cpu: f64,
    /// Resident bytes at the end of the window.
    pub memory: u64,
}

/// Throttle of the sampling rate.
#[derive(Debug)]
pub struct Throttle {
    budget: Budget,
    step: AtomicUsize,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    begin: Option<(Instant, Duration)>,
    last: Option<WindowUsage>,
    calm: u32,
    /// Windows below half of the budget that the next step back needs.
    wanted: u32,
}

impl Throttle {
    /// Starts at the configured sampling rate.
    pub fn new(budget: Budget) -> Self {
        let window = Window { begin: None, last: None, calm: 0, wanted: CALM };
        Self { budget, step: AtomicUsize::new(0), window: Mutex::new(window) }
    }

    fn now(&self) -> &'static Step {
        &STEPS[self.step().min(STEPS.len() - 1)]
    }

    /// Number of steps below the configured sampling rate.
    pub fn step(&self) -> usize {
        self.step.load(Ordering::Relaxed)
    }

    /// Effective period of full samples.
    pub fn full(&self, usual: Duration) -> Duration {
        usual * self.now().full
    }

    /// Whether congestion samples are taken now.
    pub fn fast(&self) -> bool {
        self.now().fast
    }

    /// Cost in the last complete window; `None` before the first one.
    pub fn used(&self) -> Option<WindowUsage> {
        self.window.lock().last
    }

    /// Explanation for people while the throttle is active.
    pub fn reason(&self) -> Option<String> {
        if self.step() == 0 {
            return None;
        }
        let (now, used) = (self.now(), self.used().unwrap_or_default());
        let pace = match now.full {
            1 => "no congestion samples are taken".to_owned(),
            n => format!("no congestion samples are taken, and one full sample in {n} periods"),
        };
        Some(format!(
            "the agent slows itself: {pace}; it cost {}, and may cost {}; see budget.cpu and budget.memory",
            text(used.cpu, used.memory),
            text(self.budget.cpu, self.budget.memory)
        ))
    }

    /// Records the cost so far. At the end of a window it may move one step, which is logged.
    pub fn observe(&self, cost: Cost, now: Instant) {
        let mut window = self.window.lock();
        let Some((begin, before)) = window.begin else {
            // The cost of starting up is not counted.
            window.begin = Some((now, cost.cpu));
            return;
        };
        let time = now.saturating_duration_since(begin);
        if time < WINDOW {
            return;
        }
        let cpu = cost.cpu.saturating_sub(before).as_secs_f64() / time.as_secs_f64();
        let used = WindowUsage { cpu, memory: cost.memory };
        window.begin = Some((now, cost.cpu));
        // Fewer samples do not free memory that is above the budget but no longer grows.
        let grows = window.last.replace(used).is_none_or(|last| used.memory > last.memory);
        let (step, share) = (self.step(), used.cpu / self.budget.cpu);
        if share > 1.0 || used.memory > self.budget.memory && grows {
            window.calm = 0;
            if step + 1 < STEPS.len() {
                self.step.fetch_add(1, Ordering::Relaxed);
            }
        } else if share < 0.5 && step > 0 {
            window.calm += 1;
            if window.calm >= window.wanted {
                window.calm = 0;
                window.wanted = (window.wanted * 2).min(LONGEST_CALM);
                self.step.fetch_sub(1, Ordering::Relaxed);
            }
        } else {
            window.calm = 0;
        }
        drop(window);
        match (step, self.step()) {
            (before, after) if after > before => {
                if let Some(reason) = self.reason() {
                    tracing::warn!("{reason}");
                }
            }
            (before, 0) if before > 0 => tracing::info!("the agent is within its budget and samples as usual again"),
            (before, after) if after < before => {
                tracing::info!(steps_left = after, "the agent is within its budget and samples more often again");
            }
            _ => {}
        }
    }
}

/// A cost for people, such as `1.5 % of a core and 40 MiB`.
pub fn text(cpu: f64, memory: u64) -> String {
    let mib = memory as f64 / f64::from(1 << 20);
    format!("{:.1} % of a core and {mib:.0} MiB", cpu * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { cpu: 0.02, memory: 100 };
    const USUAL: Duration = Duration::from_secs(1);

    /// A process whose clock and cost are given.
    struct Process {
        throttle: Throttle,
        now: Instant,
        cost: Cost,
    }

    impl Process {
        fn new() -> Self {
            let process = Self { throttle: Throttle::new(BUDGET), now: Instant::now(), cost: Cost::default() };
            process.throttle.observe(process.cost, process.now);
            process
        }

        /// Simulates minutes at this cost; returns the step after each minute.
        fn run(&mut self, minutes: u32, cores: f64, memory: u64) -> Vec<usize> {
            let minute = |_| {
                for _ in 0..12 {
                    self.now += WINDOW / 12;
                    self.cost.cpu += (WINDOW / 12).mul_f64(cores);
                    self.cost.memory = memory;
                    self.throttle.observe(self.cost, self.now);
                }
                self.throttle.step()
            };
            (0..minutes).map(minute).collect()
        }
    }

    #[test]
    fn throttle_moves_step_by_step_to_its_limit() {
        let mut process = Process::new();
        assert_eq!(process.run(3, 0.0199, 99), [0, 0, 0]);
        assert_eq!(process.throttle.reason(), None);
        assert_eq!(process.run(6, 0.05, 50), [1, 2, 3, 4, 4, 4]);
        assert_eq!((process.throttle.full(USUAL), process.throttle.fast()), (USUAL * 8, false));
        let reason = process.throttle.reason().unwrap();
        assert!(reason.contains("one full sample in 8 periods; it cost 5.0 % of a core"), "{reason}");
    }

    #[test]
    fn only_growing_memory_throttles() {
        let mut process = Process::new();
        assert_eq!([101, 102].map(|memory| process.run(1, 0.0, memory)[0]), [1, 2]);
        assert!(!process.throttle.fast());
        assert_eq!(process.run(5, 0.0, 102), [2, 2, 2, 2, 1]);
    }

    #[test]
    fn early_recovery_doubles_the_wait() {
        let mut process = Process::new();
        process.run(1, 0.03, 0);
        // Between half and all of the budget nothing changes.
        assert_eq!(process.run(30, 0.015, 0), [1; 30]);
        assert_eq!(process.run(5, 0.005, 0), [1, 1, 1, 1, 0]);
        assert_eq!((process.throttle.full(USUAL), process.throttle.fast()), (USUAL, true));
        process.run(1, 0.03, 0);
        assert_eq!(process.run(10, 0.005, 0), [1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn startup_cost_is_not_counted() {
        let throttle = Throttle::new(BUDGET);
        let now = Instant::now();
        throttle.observe(Cost { cpu: Duration::from_secs(60), memory: 0 }, now);
        throttle.observe(Cost { cpu: Duration::from_secs(60), memory: 0 }, now + WINDOW);
        assert_eq!((throttle.step(), throttle.used().unwrap().cpu), (0, 0.0));
    }

    #[test]
    fn unbounded_budget_never_throttles() {
        let throttle = Throttle::new(Budget::UNBOUNDED);
        let now = Instant::now();
        throttle.observe(Cost::default(), now);
        throttle.observe(Cost { cpu: Duration::from_secs(6000), memory: u64::MAX - 1 }, now + WINDOW);
        assert_eq!(throttle.step(), 0);
    }

    #[test]
    fn cost_of_this_process_is_reported() {
        assert!(Cost::now().memory > 1 << 20 && Cost::now().cpu > Duration::ZERO);
    }
}
