//! How much time a job lost while the network held it, by its own rate: what it moved less than when nothing held it. A job
//! that moves less while nothing holds it computes, and lost nothing.

use crate::model::Why;
use fabriclens_correlate::JobLoad;

/// Signs that something holds a job, each with the least that counts.
pub(super) const SIGNS: [(Why, f64); 4] = [
    // Shares of time, of the port that was held back longest.
    (Why::Paused, 0.02),
    (Why::NoCredits, 0.02),
    // A second, of all ports together.
    (Why::ToldToSlowDown, 100.0),
    (Why::SentAgain, 10.0),
];
/// A sign counts that is so many times what is usual of the job: some have notifications all the time and are none the slower.
const BEYOND: f64 = 3.0;
/// Steps nearest to a stretch that tell what is usual, and those without which nothing is known.
const USUAL: usize = 60;
const KNOWN: usize = 8;
/// How often the difference by chance a loss must exceed before it is one for sure.
const CHANCES: f64 = 2.0;

/// A step of a job's time.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub seconds: f64,
    /// Bytes a second, sent and received; `None`: not measured.
    pub moved: Option<f64>,
    /// In the order of [`SIGNS`].
    pub signs: [Option<f64>; 4],
    /// The job is the victim of an incident.
    pub victim: bool,
}

impl Step {
    /// Seconds in which the port that was held back longest could not send.
    pub fn held(&self) -> Option<f64> {
        let [paused, waits, ..] = self.signs;
        Some(together(paused, waits)?.min(1.0) * self.seconds)
    }
}

/// The sum of what was measured.
pub(super) fn together(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    (a.is_some() || b.is_some()).then(|| a.unwrap_or(0.0) + b.unwrap_or(0.0))
}

/// Steps that follow each other in which something held the job: by its own signs, or by an incident alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spell {
    /// The first step, and the one after the last.
    pub steps: std::ops::Range<usize>,
    pub why: Vec<Why>,
    /// Bytes a second.
    pub moved: f64,
    pub usual: Option<f64>,
    /// Seconds.
    pub at_least: Option<f64>,
    /// Seconds.
    pub at_most: f64,
}

/// All of them, in the order of time.
pub(super) fn spells(steps: &[Step]) -> Vec<Spell> {
    let usual = std::array::from_fn(|sign| usually(steps, sign));
    let why: Vec<Vec<Why>> = steps.iter().map(|step| reasons(step, &usual)).collect();
    let calm: Vec<usize> = (0..steps.len()).filter(|n| why[*n].is_empty() && steps[*n].moved.is_some()).collect();
    let mut spells = Vec::new();
    let mut from = 0;
    while from < steps.len() {
        if why[from].is_empty() {
            from += 1;
            continue;
        }
        // An incident goes on for a while when its signs are gone: that is a stretch of its own.
        let alone = |n: usize| why[n] == [Why::Incident];
        let ends = |n: &usize| why[*n].is_empty() || alone(*n) != alone(from);
        let to = (from..steps.len()).find(ends).unwrap_or(steps.len());
        let mut all: Vec<Why> = why[from..to].concat();
        all.sort_unstable();
        all.dedup();
        spells.push(spell(steps, from..to, all, &calm));
        from = to;
    }
    spells
}

/// What a sign is while the job moves something: the lower quartile, so that trouble of half its time is none of it.
fn usually(steps: &[Step], sign: usize) -> f64 {
    let moved = steps.iter().filter_map(|s| s.moved);
    let mean = moved.clone().sum::<f64>() / moved.count().max(1) as f64;
    let busy = steps.iter().filter(|s| s.moved.is_none_or(|m| m > 0.1 * mean));
    let mut values: Vec<f64> = busy.filter_map(|s| s.signs[sign]).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(0.0)
}

fn reasons(step: &Step, usual: &[f64; 4]) -> Vec<Why> {
    // Without its rate nothing can be compared.
    if step.moved.is_none() {
        return Vec::new();
    }
    let signs = SIGNS.iter().zip(step.signs).zip(usual);
    let counts = signs.filter(|(((_, least), value), usual)| value.is_some_and(|v| v >= *least && v > BEYOND * *usual));
    counts.map(|(((why, _), _), _)| *why).chain(step.victim.then_some(Why::Incident)).collect()
}

fn spell(steps: &[Step], range: std::ops::Range<usize>, why: Vec<Why>, calm: &[usize]) -> Spell {
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
            (Some(lost(ratio + CHANCES * load.noise(ticks))), lost(ratio / load.peak(ticks)))
        }
    };
    // What ports tell is in what the job moved less, and the other way round: the longer counts, never both.
    Spell { steps: range, why, moved, usual: load.map(|l| l.mean()), at_least, at_most: slow.max(held).min(seconds) }
}

/// Calm steps around a stretch, half of them before it where there are as many.
fn nearest<'c>(calm: &'c [usize], range: &std::ops::Range<usize>) -> &'c [usize] {
    let before = calm.partition_point(|n| *n < range.start);
    let after = calm.len() - before;
    let first = before.saturating_sub((USUAL / 2).max(USUAL.saturating_sub(after)));
    &calm[first..calm.len().min(first + USUAL)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a second for each rate; those in `told` come with so many notifications a second.
    fn job(moved: impl Iterator<Item = f64>, told: &[(std::ops::Range<usize>, f64)]) -> Vec<Step> {
        let cnps = |n: usize| told.iter().find(|(range, _)| range.contains(&n)).map_or(0.0, |(_, cnps)| *cnps);
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
    fn a_steady_job_that_is_told_to_slow_down_loses_what_it_moves_less() {
        let steps = job((0..100).map(|n| if (40..60).contains(&n) { 10.0 } else { 100.0 }), &[(40..60, 5000.0)]);
        let found = spells(&steps);
        assert_eq!((found.len(), found[0].steps.clone(), &found[0].why[..]), (1, 40..60, &[Why::ToldToSlowDown][..]));
        assert!(close(found[0].at_least.unwrap(), 18.0) && close(found[0].at_most, 18.0), "{found:?}");
        assert_eq!((found[0].moved, found[0].usual), (10.0, Some(100.0)));
    }

    #[test]
    fn a_phase_of_computing_costs_nothing() {
        let steps = job((0..100).map(|n| if (40..60).contains(&n) { 0.0 } else { 100.0 }), &[]);
        assert_eq!(spells(&steps), []);
        // Nor does the end of a job's traffic, or its slow begin.
        let steps = job((0..100).map(|n| if (10..70).contains(&n) { 100.0 } else { 1.0 }), &[]);
        assert_eq!(spells(&steps), []);
    }

    #[test]
    fn bursts_that_always_come_with_notifications_are_no_loss() {
        let burst = |n: usize| n % 5 < 2;
        let told: Vec<_> = (0..100).filter(|n| burst(*n)).map(|n| (n..n + 1, 5000.0)).collect();
        assert_eq!(spells(&job((0..100).map(|n| if burst(n) { 100.0 } else { 0.0 }), &told)), []);
        // Nor where the first of them only is told: it moves as much as the others.
        let steps = job((0..100).map(|n| if burst(n) { 100.0 } else { 0.0 }), &[(50..52, 5000.0)]);
        let found = spells(&steps);
        assert_eq!((found.len(), found[0].at_least, found[0].at_most), (1, Some(0.0), 0.0), "{found:?}");
    }

    #[test]
    fn what_a_job_differs_by_anyway_is_no_loss_for_sure() {
        // Ten seconds of computing, ten of communication; told to slow down for five.
        let phase = |n: usize| if n % 20 < 10 { 100.0 } else { 0.0 };
        let moved = (0..200).map(|n| if (103..108).contains(&n) { 20.0 } else { phase(n) });
        let found = spells(&job(moved, &[(103..108, 5000.0)]));
        assert_eq!(found[0].at_least, Some(0.0), "it might have computed");
        assert!(close(found[0].at_most, 4.0), "of the rate that it had in other phases: {found:?}");
    }

    #[test]
    fn paused_time_and_what_was_moved_less_are_counted_once() {
        let mut steps = job((0..100).map(|n| if (40..50).contains(&n) { 40.0 } else { 100.0 }), &[(40..50, 5000.0)]);
        (40..50).for_each(|n| steps[n].signs[0] = Some(0.5));
        let found = spells(&steps);
        assert_eq!(found[0].why, [Why::Paused, Why::ToldToSlowDown]);
        assert!(close(found[0].at_most, 6.0) && close(found[0].at_least.unwrap(), 6.0), "{found:?}");
        // One port that waits may hold all others, also where the job moves as much as usual.
        (40..50).for_each(|n| steps[n].moved = Some(100.0));
        let found = spells(&steps);
        assert!(close(found[0].at_most, 5.0) && found[0].at_least == Some(0.0), "{found:?}");
    }

    #[test]
    fn without_calm_time_there_is_no_lower_bound() {
        let mut steps = job((0..8).map(|_| 10.0), &[(4..8, 5000.0)]);
        let found = spells(&steps);
        assert_eq!((found[0].at_least, found[0].usual, found[0].at_most), (None, None, 4.0));
        steps.iter_mut().for_each(|s| s.moved = None);
        assert_eq!(spells(&steps), [], "nothing is known of a job that was not measured");
    }

    #[test]
    fn victims_of_incidents_are_compared_too() {
        let mut steps = job((0..60).map(|n| if (30..40).contains(&n) { 50.0 } else { 100.0 }), &[]);
        (28..42).for_each(|n| steps[n].victim = true);
        let found = spells(&steps);
        assert_eq!((found[0].steps.clone(), &found[0].why[..]), (28..42, &[Why::Incident][..]));
        assert!(close(found[0].at_least.unwrap(), 5.0), "{found:?}");
        // What its own ports tell is told apart from the rest of the incident.
        (30..40).for_each(|n| steps[n].signs[2] = Some(5000.0));
        let found: Vec<_> = spells(&steps).into_iter().map(|s| (s.steps, s.at_least.unwrap().round(), s.why)).collect();
        let own = vec![Why::ToldToSlowDown, Why::Incident];
        let incident = || vec![Why::Incident];
        assert_eq!(found, [(28..30, 0.0, incident()), (30..40, 5.0, own), (40..42, 0.0, incident())]);
    }
}
