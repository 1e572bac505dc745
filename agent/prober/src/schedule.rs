//! Which target is probed next, and from which source port.

use fabriclens_probe_plan::Target;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Shortest interval of a target.
const SHORTEST: Duration = Duration::from_millis(10);

/// A target and its turn.
#[derive(Debug)]
struct Entry {
    target: Arc<Target>,
    /// Position of the next source port.
    turn: usize,
}

/// A probe that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its target.
    pub target: Arc<Target>,
    /// UDP source port; 0: any.
    pub source_port: u16,
}

/// Targets of a port, each at its interval.
#[derive(Debug, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
    due: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl Schedule {
    /// Replaces the targets. Those that stay keep their turn; new ones are spread over their interval, so that a new plan of
    /// all hosts makes no burst.
    pub fn set(&mut self, targets: impl IntoIterator<Item = Arc<Target>>, now: Duration) {
        let due = std::mem::take(&mut self.due).into_iter().map(|Reverse((at, index))| (index, at));
        let due: HashMap<usize, Duration> = due.collect();
        let kept = std::mem::take(&mut self.entries).into_iter().enumerate();
        let mut kept: HashMap<Arc<Target>, (usize, Option<Duration>)> =
            kept.map(|(index, entry)| (entry.target, (entry.turn, due.get(&index).copied()))).collect();
        for target in targets.into_iter().filter(|target| target.probe_every_ms > 0) {
            let index = self.entries.len();
            let (turn, at) = kept.remove(&target).unwrap_or_default();
            let at = at.unwrap_or_else(|| now + interval(&target, 1.0).mul_f64(fraction(index)));
            self.due.push(Reverse((at, index)));
            self.entries.push(Entry { target, turn });
        }
    }

    /// When the next probe is due.
    pub fn next(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The next probe that is due, and sets the time of the one after it. `share` of the planned rate.
    pub fn take(&mut self, now: Duration, share: f64) -> Option<Due> {
        let Reverse((at, index)) = *self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.due.pop();
        let entry = self.entries.get_mut(index)?;
        let every = interval(&entry.target, share);
        // What was missed is not caught up with.
        self.due.push(Reverse(((at + every).max(now + every / 2), index)));
        let ports = &entry.target.source_ports;
        let source_port =
            ports.get(entry.turn % ports.len().max(1)).map_or(0, |port| u16::try_from(*port).unwrap_or(0));
        entry.turn = entry.turn.wrapping_add(1);
        Some(Due { target: Arc::clone(&entry.target), source_port })
    }
}

fn interval(target: &Target, share: f64) -> Duration {
    Duration::from_millis(target.probe_every_ms.into()).max(SHORTEST).div_f64(share.clamp(0.01, 1.0))
}

/// Spreads numbers evenly over 0 to 1 (steps of the golden ratio).
fn fraction(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_749_895).fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn target(host: &str, every: u32, ports: &[u32]) -> Arc<Target> {
        let source_ports = ports.to_vec();
        Arc::new(Target { host: host.into(), probe_every_ms: every, source_ports, ..Target::default() })
    }

    fn run(schedule: &mut Schedule, ms: std::ops::Range<u32>, share: f64) -> Vec<(u32, String, u16)> {
        let mut out = Vec::new();
        for at in ms {
            while let Some(due) = schedule.take(at * MS, share) {
                out.push((at, due.target.host.clone(), due.source_port));
            }
        }
        out
    }

    #[test]
    fn each_target_keeps_its_interval_and_source_ports_take_turns() {
        let mut schedule = Schedule::default();
        schedule.set(
            [target("a", 100, &[50_000, 50_001, 50_002]), target("b", 500, &[]), target("c", 0, &[])],
            Duration::ZERO,
        );
        let sent = run(&mut schedule, 0..3000, 1.0);
        let of = |host: &str| sent.iter().filter(|row| row.1 == host).collect::<Vec<_>>();
        assert_eq!((of("a").len(), of("b").len(), of("c").len()), (30, 6, 0));
        let ports: Vec<_> = of("a").iter().take(4).map(|row| row.2).collect();
        assert_eq!(ports, [50_000, 50_001, 50_002, 50_000]);
        assert_eq!(of("b")[0].2, 0);
        let slow = run(&mut schedule, 3000..13_000, 0.1);
        assert!((8..=14).contains(&slow.iter().filter(|row| row.1 == "a").count()), "a tenth of 100");
    }

    #[test]
    fn a_new_plan_keeps_turns_and_makes_no_burst() {
        let mut schedule = Schedule::default();
        let many: Vec<_> = (0..1000).map(|i| target(&i.to_string(), 1000, &[])).collect();
        schedule.set(many.clone(), Duration::ZERO);
        let sent = run(&mut schedule, 0..1000, 1.0);
        let most = (0..100).map(|bin| sent.iter().filter(|row| row.0 / 10 == bin).count()).max();
        assert!(most <= Some(15), "{most:?} in 10 ms of 10 that are even");
        // Half of them stay.
        schedule.set(many[..500].iter().cloned(), 1000 * MS);
        let again = run(&mut schedule, 1000..2000, 1.0);
        assert_eq!(again.len(), 500);
        let moved = again.iter().filter(|row| !sent.iter().any(|old| old.1 == row.1 && old.0 + 1000 == row.0)).count();
        assert_eq!(moved, 0);
    }

    #[test]
    fn what_was_missed_is_not_caught_up_with() {
        let mut schedule = Schedule::default();
        schedule.set([target("a", 10, &[])], Duration::ZERO);
        run(&mut schedule, 0..10, 1.0);
        assert_eq!(run(&mut schedule, 10_000..10_001, 1.0).len(), 1);
    }
}
