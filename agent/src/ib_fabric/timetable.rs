//! Shares the permitted datagrams between counters, details and sweeps, also in a subnet that needs more than are permitted.
//!
//! Counters go first. The details of a part of the ports follow each round, so that they take turns instead of delaying the
//! counters of all; the part is smaller while rounds are late. A sweep is not repeated before the counters had their time.

use super::IbFabric;
use std::time::{Duration, Instant};

/// Late rounds before it is a problem: a node that stopped answering delays one or two.
const LATE: u32 = 3;
/// Rounds in which each port gets its turn of details while rounds are late: their four attributes are then a quarter of the
/// datagrams.
const TURNS: usize = 16;
/// Share of the permitted datagrams for forwarding tables, while they change and otherwise.
const TABLES: [f64; 2] = [0.25, 0.05];
/// Least attributes of forwarding tables that follow a round of counters.
const FEW_TABLES: usize = 64;
/// Times of a sweep's duration from its end to the regular begin of the next.
const REST: u32 = 3;
/// Least time between a sweep and one that a lost link starts.
const SOONEST: Duration = Duration::from_secs(1);

/// Times of rounds and sweeps.
pub struct Timetable {
    period: Duration,
    details: Duration,
    sweep: Duration,
    per_second: u32,
    /// Counts up with each round that took longer than its period, and down with each that did not.
    late: u32,
}

impl Timetable {
    /// No round was late.
    pub fn new(config: &IbFabric) -> Self {
        let IbFabric { period, details, sweep, pace, .. } = *config;
        Self { period, details, sweep, per_second: pace.per_second, late: 0 }
    }

    /// Number of ports whose details follow a round of counters.
    pub fn turn(&self, ports: usize) -> usize {
        if self.late >= LATE {
            return ports.div_ceil(TURNS);
        }
        let share = (self.period.as_secs_f64() / self.details.as_secs_f64()).min(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the ports")]
        let turn = (ports as f64 * share).ceil() as usize;
        turn
    }

    /// Number of attributes of forwarding tables that follow a round of counters. While rounds are late they are as many as while
    /// nothing changes.
    pub fn tables(&self, are_changing: bool) -> usize {
        let share = TABLES[usize::from(!are_changing || self.late >= LATE)];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the datagrams")]
        let tables = (f64::from(self.per_second) * self.period.as_secs_f64() * share) as usize;
        tables.max(FEW_TABLES)
    }

    /// Takes the time of a round with its details.
    pub fn round(&mut self, took: Duration) {
        self.late = if took > self.period { (self.late + 1).min(2 * LATE) } else { self.late.saturating_sub(1) };
    }

    /// Begin of the next regular sweep, after one that ended at `now`.
    pub fn next_sweep(&self, now: Instant, took: Duration) -> Instant {
        now + (self.sweep.saturating_sub(took)).max(took * REST)
    }

    /// Begin of the next sweep if a link was lost; the last one ended at `swept`.
    pub fn sweep_for_loss(now: Instant, swept: Instant, took: Duration) -> Instant {
        (now + SOONEST).max(swept + took)
    }

    /// Why ports are read more rarely than configured.
    pub fn problem(&self) -> Option<String> {
        (self.late >= LATE).then(|| {
            format!(
                "reading all ports of the subnet takes longer than ib_fabric.period ({:?}); raise it, or \
                 ib_fabric.mads_per_second ({})",
                self.period, self.per_second
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timetable() -> Timetable {
        Timetable::new(&IbFabric::default())
    }

    #[test]
    fn details_take_turns_within_their_period() {
        let mut table = timetable();
        assert_eq!((table.turn(60), table.turn(1), table.turn(0)), (10, 1, 0), "5 s of 30 s");
        table.details = Duration::from_secs(1);
        assert_eq!(table.turn(60), 60);
    }

    #[test]
    fn details_yield_while_rounds_are_late_and_it_is_told() {
        let (mut table, late) = (timetable(), Duration::from_secs(25));
        table.round(late);
        table.round(late);
        assert_eq!((table.turn(40_000), table.problem()), (6_667, None), "two late rounds are chance");
        table.round(late);
        assert_eq!(table.turn(40_000), 2_500);
        assert_eq!([table.tables(true), timetable().tables(true), timetable().tables(false)], [500, 2_500, 500]);
        let problem = table.problem().expect("late");
        assert!(problem.contains("(5s)") && problem.contains("(2000)"), "{problem}");
        table.round(Duration::from_secs(4));
        assert_eq!((table.turn(40_000), table.problem()), (6_667, None));
    }

    #[test]
    fn sweeps_leave_time_for_counters() {
        let (table, now) = (timetable(), Instant::now());
        let second = Duration::from_secs;
        assert_eq!(table.next_sweep(now, second(1)), now + second(29), "each 30 s");
        assert_eq!(table.next_sweep(now, second(26)), now + second(78));
        // Flapping links of a large subnet do not take more than half of the time either.
        assert_eq!(Timetable::sweep_for_loss(now, now, second(26)), now + second(26));
        assert_eq!(Timetable::sweep_for_loss(now + second(20), now, second(2)), now + second(21));
    }
}
