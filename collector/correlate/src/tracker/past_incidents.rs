//! Incidents that have ended, to tell which ones come back by the clock: a backup each night, a report each Monday.

use crate::detectors::paging::{RECURS_CHANCE, RECURS_LONGER, RECURS_PERIODS, RECURS_WITHIN};
use crate::detectors::thresholds::Thresholds;
use crate::model::incident::Incident;
use crate::model::kind::IncidentKind;
use crate::model::location::Location;
use std::collections::VecDeque;

/// Ended incidents that are kept, the latest: 500 a day for as long as weeks are compared.
const MOST: usize = 16_384;
const HOUR_NS: i64 = 3_600_000_000_000;
/// Schedules that are looked for: name, period in nanoseconds, and how many periods back.
const SCHEDULES: [(&str, i64, i64); 2] = [("days", 24 * HOUR_NS, 7), ("weeks", 168 * HOUR_NS, 4)];

/// An ended incident.
struct Past {
    kind: IncidentKind,
    root: Location,
    start_ns: i64,
    lasted_ns: i64,
}

/// Ended incidents of kinds that follow load, in the order in which they ended.
#[derive(Default)]
pub(super) struct PastIncidents(VecDeque<Past>);

/// A schedule on which incidents of one kind and location begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recurrence {
    /// `days` or `weeks`.
    unit: &'static str,
    /// In how many of the last `of` periods one began at this time.
    seen: i64,
    of: i64,
    /// How long one may last without being news, nanoseconds.
    pub longest_ns: i64,
}

impl PastIncidents {
    /// Takes an incident that has ended. Those that merged into another were never a problem of their own.
    pub fn add(&mut self, incident: &Incident) {
        let Some(end_ns) = incident.end_ns.filter(|_| incident.merged_into.is_none()) else { return };
        let named = !matches!(incident.root, Location::Job { .. });
        if !incident.kind.spec().follows_load || !named {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let lasted_ns = end_ns.saturating_sub(incident.start_ns);
        self.0.push_back(Past {
            kind: incident.kind,
            root: incident.root.clone(),
            start_ns: incident.start_ns,
            lasted_ns,
        });
    }

    /// The schedule that an incident which began at an instant (Unix ns) is on, if there is one.
    pub fn recurrence(
        &self,
        (kind, root): (IncidentKind, &Location),
        start_ns: i64,
        limits: &Thresholds,
    ) -> Option<Recurrence> {
        let alike = |past: &&Past| past.kind == kind && past.root == *root && past.start_ns < start_ns;
        let ages: Vec<(i64, i64)> =
            self.0.iter().filter(alike).map(|past| (start_ns - past.start_ns, past.lasted_ns)).collect();
        SCHEDULES.into_iter().find_map(|schedule| scheduled(&ages, schedule, limits))
    }
}

/// Whether incidents of these ages and lengths (ns) began whole periods ago, more often than by chance.
fn scheduled(
    ages: &[(i64, i64)],
    (unit, period_ns, of): (&'static str, i64, i64),
    limits: &Thresholds,
) -> Option<Recurrence> {
    let within_ns = (limits.get(&RECURS_WITHIN) * 1e9) as i64;
    let at = |back: i64| ages.iter().filter(move |(age, _)| (age - back * period_ns).abs() <= within_ns);
    let known: Vec<i64> = (1..=of).filter(|back| at(*back).next().is_some()).collect();
    let seen = known.len() as i64;
    // What begins at any time of the day begins at this one by chance: each period has one within that time with this
    // probability.
    let span_ns = of * period_ns;
    let each_ns = ages.iter().filter(|(age, _)| *age <= span_ns + within_ns).count() as f64 / span_ns as f64;
    let by_chance = 1.0 - (-each_ns * 2.0 * within_ns as f64).exp();
    let regular =
        seen as f64 >= limits.get(&RECURS_PERIODS) && at_least(seen, of, by_chance) < limits.get(&RECURS_CHANCE);
    let longest_ns = known.into_iter().flat_map(at).map(|(_, lasted)| *lasted).max()?;
    let longest_ns = (longest_ns as f64 * limits.get(&RECURS_LONGER)) as i64;
    regular.then_some(Recurrence { unit, seen, of, longest_ns })
}

/// Probability of at least `seen` of `of` events that have the probability `each`.
fn at_least(seen: i64, of: i64, each: f64) -> f64 {
    let ways = |k: i64| (0..k).fold(1.0, |ways, i| ways * (of - i) as f64 / (i + 1) as f64);
    (seen..=of).map(|k| ways(k) * each.powi(k as i32) * (1.0 - each).powi((of - k) as i32)).sum()
}

impl Recurrence {
    /// What it says to an operator.
    pub fn text(&self) -> String {
        let Self { unit, seen, of, longest_ns } = self;
        let minutes = (*longest_ns as f64 / 60e9).ceil();
        format!(
            " It began at this time in {seen} of the last {of} {unit}, so it pages only if it lasts longer than {minutes} min."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60_000_000_000;
    const DAY: i64 = 24 * 60;

    /// The schedule of incidents that began so many minutes ago and lasted for ten.
    fn of(minutes_ago: impl IntoIterator<Item = i64>) -> Option<Recurrence> {
        let ages: Vec<(i64, i64)> = minutes_ago.into_iter().map(|ago| (ago * MINUTE_NS, 10 * MINUTE_NS)).collect();
        SCHEDULES.into_iter().find_map(|schedule| scheduled(&ages, schedule, &Thresholds::default()))
    }

    #[test]
    fn what_began_at_this_time_of_several_days_recurs() {
        let nightly = of([DAY + 12, 2 * DAY - 8, 4 * DAY]).unwrap();
        assert_eq!((nightly.unit, nightly.seen, nightly.of, nightly.longest_ns), ("days", 3, 7, 20 * MINUTE_NS));
        assert_eq!(of([DAY, 2 * DAY]), None, "two nights may be chance");
        assert_eq!(of([DAY, DAY + 5, DAY + 10]), None, "one night counts once");
        assert_eq!(of([DAY + 40, 2 * DAY + 40, 3 * DAY + 40]), None, "forty minutes later than on the days before");
        assert_eq!(of([8 * DAY, 9 * DAY, 10 * DAY]), None, "it has stopped a week ago");
    }

    #[test]
    fn what_began_at_this_time_of_several_weeks_recurs() {
        assert_eq!(of([7 * DAY, 14 * DAY, 28 * DAY]).map(|weekly| (weekly.unit, weekly.seen)), Some(("weeks", 3)));
    }

    #[test]
    fn what_begins_at_any_time_does_not_recur() {
        assert_eq!(of((1..=7 * 24).map(|hour| hour * 60 + hour * 37 % 60)), None, "about once an hour, at any minute");
        assert!(of((1..=7 * 24).map(|hour| hour * 60)).is_some(), "each full hour");
    }

    #[test]
    fn chance_is_a_binomial_tail() {
        assert!((at_least(3, 7, 0.5) - 99.0 / 128.0).abs() < 1e-12);
        assert!((at_least(4, 4, 0.1) - 1e-4).abs() < 1e-12);
    }
}
