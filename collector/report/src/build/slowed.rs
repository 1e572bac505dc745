//! Time lost to the network, from the job's own throughput: the loss against its baseline while there are signs of
//! congestion. Low throughput without such signs is computing and costs nothing.

use crate::model::Why;
use fabriclens_correlate::JobLoad;

/// Signs of congestion, each with its threshold.
pub(super) const SIGNS: [(Why, f64); 4] = [
    // Fractions of time of the worst port.
    (Why::Paused, 0.02),
    (Why::NoCredits, 0.02),
    // Per second, all ports together.
    (Why::ToldToSlowDown, 100.0),
    (Why::SentAgain, 10.0),
];
/// A sign counts only above this multiple of its usual value: some jobs get notifications all the time and are no
/// slower.
const BEYOND: f64 = 3.0;
/// Undisturbed steps around a period that form its baseline: the maximum, and the minimum for a baseline to exist.
const USUAL: usize = 60;
const KNOWN: usize = 8;
/// Multiple of the noise of the rate that the lower bound deducts.
const CHANCES: f64 = 2.0;

/// One time step of a job.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub seconds: f64,
    /// Bytes per second, sent and received; `None`: not measured.
    pub moved: Option<f64>,
    /// Values of the signs, in the order of [`SIGNS`].
    pub signs: [Option<f64>; 4],
    /// Whether the job is the victim of an incident.
    pub victim: bool,
}

impl Step {
    /// Seconds in which the worst port could not send.
    pub fn held(&self) -> Option<f64> {
        let [paused, waits, ..] = self.signs;
        Some(together(paused, waits)?.min(1.0) * self.seconds)
    }
}

/// Sum of two optional values; `None` if both are missing.
pub(super) fn together(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    (a.is_some() || b.is_some()).then(|| a.unwrap_or(0.0) + b.unwrap_or(0.0))
}

/// Consecutive steps with signs of congestion, or with an incident alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SlowPeriod {
    /// Range of step indexes.
    pub steps: std::ops::Range<usize>,
    pub why: Vec<Why>,
    /// Mean throughput, bytes per second.
    pub moved: f64,
    /// Baseline throughput, bytes per second; `None`: too few undisturbed steps.
    pub usual: Option<f64>,
    /// Lower bound of lost time, seconds; `None`: no baseline.
    pub at_least: Option<f64>,
    /// Upper bound of lost time, seconds.
    pub at_most: f64,
}

/// All slow periods, in order of time.
pub(super) fn slow_periods(steps: &[Step]) -> Vec<SlowPeriod> {
    let usual = std::array::from_fn(|sign| usually(steps, sign));
    let why: Vec<Vec<Why>> = steps.iter().map(|step| reasons(step, &usual)).collect();
    let calm: Vec<usize> = (0..steps.len()).filter(|n| why[*n].is_empty() && steps[*n].moved.is_some()).collect();
    let mut slow_periods = Vec::new();
    let mut from = 0;
    while from < steps.len() {
        if why[from].is_empty() {
            from += 1;
            continue;
        }
        // An incident outlasts its signs for a while; that time is a separate period.
        let alone = |n: usize| why[n] == [Why::Incident];
        let ends = |n: &usize| why[*n].is_empty() || alone(*n) != alone(from);
        let to = (from..steps.len()).find(ends).unwrap_or(steps.len());
        let mut all: Vec<Why> = why[from..to].concat();
        all.sort_unstable();
        all.dedup();
        slow_periods.push(slow_period(steps, from..to, all, &calm));
        from = to;
    }
    slow_periods
}

/// Usual value of a sign while the job communicates: the lower quartile, so that congestion during half of the time
/// does not become usual.
fn usually(steps: &[Step], sign: usize) -> f64 {
    let moved = steps.iter().filter_map(|s| s.moved);
    let mean = moved.clone().sum::<f64>() / moved.count().max(1) as f64;
    let busy = steps.iter().filter(|s| s.moved.is_none_or(|m| m > 0.1 * mean));
    let mut values: Vec<f64> = busy.filter_map(|s| s.signs[sign]).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(0.0)
}

fn reasons(step: &Step, usual: &[f64; 4]) -> Vec<Why> {
    // Without a rate there is nothing to compare.
    if step.moved.is_none() {
        return Vec::new();
    }
    let signs = SIGNS.iter().zip(step.signs).zip(usual);
    let counts = signs.filter(|(((_, least), value), usual)| value.is_some_and(|v| v >= *least && v > BEYOND * *usual));
    counts.map(|(((why, _), _), _)| *why).chain(step.victim.then_some(Why::Incident)).collect()
}

fn slow_period(steps: &[Step], range: std::ops::Range<usize>, why: Vec<Why>, calm: &[usize]) -> SlowPeriod {
    let of = &steps[range.clone()];
    let seconds: f64 = of.iter().map(|s| s.seconds).sum();
    let moved = of.iter().map(|s| s.moved.unwrap_or(0.0) * s.seconds).sum::<f64>() / seconds;
    let held: f64 = of.iter().filter_map(Step::held).sum();
    let near: Vec<f64> = nearest(calm, &range).iter().filter_map(|n| steps[*n].moved).collect();
    let load = (near.len() >= KNOWN).then(|| JobLoad::of(near, 0)).flatten();
    let lost = |of: f64| seconds * (1.0 - of).max(0.0);
    let (at_least, slow) = match &load {
        None => (None, seconds),
        Some(load) => {
            let (ratio, ticks) = (moved / load.mean(), of.len());
            let spread = load.spread(ticks);
            (Some(lost(ratio + CHANCES * spread.noise)), lost(ratio / spread.peak))
        }
    };
    // Paused time and lost throughput overlap: the longer one counts, never both.
    SlowPeriod {
        steps: range,
        why,
        moved,
        usual: load.map(|l| l.mean()),
        at_least,
        at_most: slow.max(held).min(seconds),
    }
}

/// Undisturbed steps around a period, half of them before it if there are as many.
fn nearest<'c>(calm: &'c [usize], range: &std::ops::Range<usize>) -> &'c [usize] {
    let before = calm.partition_point(|n| *n < range.start);
    let after = calm.len() - before;
    let first = before.saturating_sub((USUAL / 2).max(USUAL.saturating_sub(after)));
    &calm[first..calm.len().min(first + USUAL)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One step of a second per rate; `cnps` gives notifications per second for ranges of steps.
    fn job(moved: impl Iterator<Item = f64>, ranges: &[(std::ops::Range<usize>, f64)]) -> Vec<Step> {
        let cnps = |n: usize| ranges.iter().find(|(range, _)| range.contains(&n)).map_or(0.0, |(_, cnps)| *cnps);
        let step = |(n, moved)| Step {
            seconds: 1.0,
            moved: Some(moved),
            signs: [Some(0.0), None, Some(cnps(n)), Some(0.0)],
            victim: false,
        };
        moved.enumerate().map(step).collect()
    }

    fn close(value: f64, want: f64) -> bool {
        (value - want).abs() < 1e-9
    }

    #[test]
    fn notifications_and_a_lower_rate_are_a_loss() {
        let steps = job((0..100).map(|n| if (40..60).contains(&n) { 10.0 } else { 100.0 }), &[(40..60, 5000.0)]);
        let found = slow_periods(&steps);
        assert_eq!((found.len(), found[0].steps.clone(), &found[0].why[..]), (1, 40..60, &[Why::ToldToSlowDown][..]));
        assert!(close(found[0].at_least.unwrap(), 18.0) && close(found[0].at_most, 18.0), "{found:?}");
        assert_eq!((found[0].moved, found[0].usual), (10.0, Some(100.0)));
    }

    #[test]
    fn computing_costs_nothing() {
        let steps = job((0..100).map(|n| if (40..60).contains(&n) { 0.0 } else { 100.0 }), &[]);
        assert_eq!(slow_periods(&steps), []);
        // A slow start and the end of the traffic cost nothing either.
        let steps = job((0..100).map(|n| if (10..70).contains(&n) { 100.0 } else { 1.0 }), &[]);
        assert_eq!(slow_periods(&steps), []);
    }

    #[test]
    fn usual_notifications_are_no_loss() {
        let burst = |n: usize| n % 5 < 2;
        let cnps: Vec<_> = (0..100).filter(|n| burst(*n)).map(|n| (n..n + 1, 5000.0)).collect();
        assert_eq!(slow_periods(&job((0..100).map(|n| if burst(n) { 100.0 } else { 0.0 }), &cnps)), []);
        // A burst that alone has notifications, but the usual rate, is no certain loss.
        let steps = job((0..100).map(|n| if burst(n) { 100.0 } else { 0.0 }), &[(50..52, 5000.0)]);
        let found = slow_periods(&steps);
        assert_eq!((found.len(), found[0].at_least, found[0].at_most), (1, Some(0.0), 0.0), "{found:?}");
    }

    #[test]
    fn usual_variation_is_no_certain_loss() {
        // Ten seconds of computing, ten of communication; notifications for five.
        let phase = |n: usize| if n % 20 < 10 { 100.0 } else { 0.0 };
        let moved = (0..200).map(|n| if (103..108).contains(&n) { 20.0 } else { phase(n) });
        let found = slow_periods(&job(moved, &[(103..108, 5000.0)]));
        assert_eq!(found[0].at_least, Some(0.0), "it might have computed");
        assert!(close(found[0].at_most, 4.0), "against the rate of other phases: {found:?}");
    }

    #[test]
    fn paused_time_and_lost_throughput_count_once() {
        let mut steps = job((0..100).map(|n| if (40..50).contains(&n) { 40.0 } else { 100.0 }), &[(40..50, 5000.0)]);
        (40..50).for_each(|n| steps[n].signs[0] = Some(0.5));
        let found = slow_periods(&steps);
        assert_eq!(found[0].why, [Why::Paused, Why::ToldToSlowDown]);
        assert!(close(found[0].at_most, 6.0) && close(found[0].at_least.unwrap(), 6.0), "{found:?}");
        // One paused port may delay all others although the throughput is as usual.
        (40..50).for_each(|n| steps[n].moved = Some(100.0));
        let found = slow_periods(&steps);
        assert!(close(found[0].at_most, 5.0) && found[0].at_least == Some(0.0), "{found:?}");
    }

    #[test]
    fn no_baseline_no_lower_bound() {
        let mut steps = job((0..8).map(|_| 10.0), &[(4..8, 5000.0)]);
        let found = slow_periods(&steps);
        assert_eq!((found[0].at_least, found[0].usual, found[0].at_most), (None, None, 4.0));
        steps.iter_mut().for_each(|s| s.moved = None);
        assert_eq!(slow_periods(&steps), [], "the job was not measured");
    }

    #[test]
    fn victims_of_incidents_are_compared_too() {
        let mut steps = job((0..60).map(|n| if (30..40).contains(&n) { 50.0 } else { 100.0 }), &[]);
        (28..42).for_each(|n| steps[n].victim = true);
        let found = slow_periods(&steps);
        assert_eq!((found[0].steps.clone(), &found[0].why[..]), (28..42, &[Why::Incident][..]));
        assert!(close(found[0].at_least.unwrap(), 5.0), "{found:?}");
        // The part of the incident with signs at the job's ports is a separate period.
        (30..40).for_each(|n| steps[n].signs[2] = Some(5000.0));
        let found: Vec<_> =
            slow_periods(&steps).into_iter().map(|s| (s.steps, s.at_least.unwrap().round(), s.why)).collect();
        let own = vec![Why::ToldToSlowDown, Why::Incident];
        let incident = || vec![Why::Incident];
        assert_eq!(found, [(28..30, 0.0, incident()), (30..40, 5.0, own), (40..42, 0.0, incident())]);
    }
}
