//! The agent watches its own cost. Above its budget it reads less often, step by step, and says so; below half of it for
//! a while it takes a step back. Asked by the threads of `schedule`; fed by the host's thread.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most that an agent may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Cores, averaged over [`WINDOW`].
    pub cpu: f64,
    /// Resident bytes.
    pub memory: u64,
}

impl Budget {
    /// None.
    pub const UNBOUNDED: Self = Self { cpu: f64::INFINITY, memory: u64::MAX };
    /// Several times what an agent with eight adapters costs, and less than the service's own limits.
    pub const USUAL: Self = Self { cpu: 0.02, memory: 96 << 20 };
}

/// What the process has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of processors.
    pub cpu: Duration,
    /// Resident bytes.
    pub memory: u64,
}

impl Cost {
    /// Of this process, now. Memory is 0 where it is not told.
    pub fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(cpu.tv_sec).unwrap_or_default();
        // Pages: size, resident, … `status` tells more and takes ten times as long to print. Always the real `/proc`.
        let pages = fabriclens_agent_host::sysfile::maybe(std::path::Path::new("/proc/self/statm"))
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        Self {
            cpu: Duration::new(seconds, u32::try_from(cpu.tv_nsec).unwrap_or_default()),
            memory: pages.unwrap_or(0) * rustix::param::page_size() as u64,
        }
    }
}

/// Time over which cost is averaged; a step is taken at most once in it.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Windows below half of the budget before a step back; twice as many after each time that it was too early.
const CALM: u32 = 5;
const LONGEST_CALM: u32 = 60;

/// How an agent that must cost less samples, from the usual to the slowest.
const STEPS: &[Step] = &[
    Step { full: 1, fast: true },
    Step { full: 1, fast: false },
    Step { full: 2, fast: false },
    Step { full: 4, fast: false },
    Step { full: 8, fast: false },
];

struct Step {
    /// Full periods that become one.
    full: u32,
    /// Whether there are congestion samples.
    fast: bool,
}

/// What the last whole window was like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Cores.
    pub cpu: f64,
    /// Resident bytes at its end.
    pub memory: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Throttle {
    budget: Budget,
    step: AtomicUsize,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    begin: Option<(Instant, Duration)>,
    last: Option<Used>,
    calm: u32,
    /// Windows of calm that are asked for.
    wanted: u32,
}

impl Throttle {
    /// At its usual pace.
    pub fn new(budget: Budget) -> Self {
        let window = Window { begin: None, last: None, calm: 0, wanted: CALM };
        Self { budget, step: AtomicUsize::new(0), window: Mutex::new(window) }
    }

    fn now(&self) -> &'static Step {
        &STEPS[self.step().min(STEPS.len() - 1)]
    }

    /// How many steps it is slower than usual.
    pub fn step(&self) -> usize {
        self.step.load(Ordering::Relaxed)
    }

    /// Full period for now.
    pub fn full(&self, usual: Duration) -> Duration {
        usual * self.now().full
    }

    /// Whether congestion is sampled for now.
    pub fn fast(&self) -> bool {
        self.now().fast
    }

    /// Cost in the last whole window.
    pub fn used(&self) -> Option<Used> {
        self.window.lock().last
    }

    /// Why it is slow, if it is.
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

    /// Takes what was spent so far; at the end of a window it may take a step, and logs it.
    pub fn observe(&self, cost: Cost, now: Instant) {
        let mut window = self.window.lock();
        let Some((begin, before)) = window.begin else {
            // What starting up cost is no part of it.
            window.begin = Some((now, cost.cpu));
            return;
        };
        let time = now.saturating_duration_since(begin);
        if time < WINDOW {
            return;
        }
        let cpu = cost.cpu.saturating_sub(before).as_secs_f64() / time.as_secs_f64();
        let used = Used { cpu, memory: cost.memory };
        window.begin = Some((now, cost.cpu));
        // Memory that is too much and grows no more would not get less by fewer samples.
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

/// A cost for people.
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

        /// Lets minutes go by with this cost; the steps after each.
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
    fn a_costly_agent_slows_down_step_by_step_and_no_further() {
        let mut process = Process::new();
        assert_eq!(process.run(3, 0.0199, 99), [0, 0, 0]);
        assert_eq!(process.throttle.reason(), None);
        assert_eq!(process.run(6, 0.05, 50), [1, 2, 3, 4, 4, 4]);
        assert_eq!((process.throttle.full(USUAL), process.throttle.fast()), (USUAL * 8, false));
        let reason = process.throttle.reason().unwrap();
        assert!(reason.contains("one full sample in 8 periods; it cost 5.0 % of a core"), "{reason}");
    }

    #[test]
    fn memory_counts_as_long_as_it_grows() {
        let mut process = Process::new();
        assert_eq!([101, 102].map(|memory| process.run(1, 0.0, memory)[0]), [1, 2]);
        assert!(!process.throttle.fast());
        assert_eq!(process.run(5, 0.0, 102), [2, 2, 2, 2, 1]);
    }

    #[test]
    fn it_comes_back_when_it_was_calm_and_later_each_time_it_was_too_early() {
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
    fn what_starting_up_costs_is_not_counted() {
        let throttle = Throttle::new(BUDGET);
        let now = Instant::now();
        throttle.observe(Cost { cpu: Duration::from_secs(60), memory: 0 }, now);
        throttle.observe(Cost { cpu: Duration::from_secs(60), memory: 0 }, now + WINDOW);
        assert_eq!((throttle.step(), throttle.used().unwrap().cpu), (0, 0.0));
    }

    #[test]
    fn without_a_budget_nothing_is_too_much() {
        let throttle = Throttle::new(Budget::UNBOUNDED);
        let now = Instant::now();
        throttle.observe(Cost::default(), now);
        throttle.observe(Cost { cpu: Duration::from_secs(6000), memory: u64::MAX - 1 }, now + WINDOW);
        assert_eq!(throttle.step(), 0);
    }

    #[test]
    fn the_cost_of_this_process_is_told() {
        assert!(Cost::now().memory > 1 << 20 && Cost::now().cpu > Duration::ZERO);
    }
}
