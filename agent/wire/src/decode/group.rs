//! Points of one resource, in any order, to groups of series with the same times.

use super::{ABSENT_NAN, Group, Labels};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// Groups of one resource beyond which no attempt is made to fold those with gaps into those without.
const FOLD: usize = 64;
/// Values of a folded group for each point in it at most: a sender chooses both the number of its series and of its
/// times, and their product must not be what is allocated.
const SPARSE: usize = 4;

/// Collects the points of one resource.
pub(super) struct Sink {
    id: u64,
    labels: Vec<Labels>,
    points: Vec<(u32, i64, f64)>,
}

impl Default for Sink {
    fn default() -> Self {
        // Only uniqueness matters, so no ordering is needed.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), labels: Vec::new(), points: Vec::new() }
    }
}

impl Sink {
    /// Differs from the id of every other sink.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Takes over series for an empty sink.
    pub(super) fn begin(&mut self, labels: &[Labels]) {
        self.labels.extend_from_slice(labels);
    }

    /// All series so far.
    pub(super) fn labels(&self) -> &[Labels] {
        &self.labels
    }

    /// The series of each point so far, in the order they came.
    pub(super) fn series_of_points(&self) -> impl Iterator<Item = u32> {
        self.points.iter().map(|p| p.0)
    }

    /// Adds a series; returns its index.
    pub(super) fn series(&mut self, labels: Labels) -> u32 {
        self.labels.push(labels);
        self.labels.len() as u32 - 1
    }

    /// Adds a point.
    pub(super) fn push(&mut self, series: u32, time_ms: i64, value: f64) {
        self.points.push((series, time_ms, point_value(value)));
    }

    /// The latest time of all points.
    pub(super) fn last_time(&self) -> Option<i64> {
        self.points.iter().map(|p| p.1).max()
    }

    /// Appends the groups. Of several points of a series in one millisecond the last one sent is kept.
    pub(super) fn finish(mut self, out: &mut Vec<Group>) {
        if !self.points.is_sorted_by_key(|p| (p.0, p.1)) {
            self.points.sort_by_key(|p| (p.0, p.1));
        }
        self.points.dedup_by(|later, earlier| {
            let same = (later.0, later.1) == (earlier.0, earlier.1);
            if same {
                earlier.2 = later.2;
            }
            same
        });
        let runs = self.points.chunk_by(|a, b| a.0 == b.0);
        let mut groups: Vec<Pending<'_>> = Vec::new();
        let mut by_times: HashMap<Vec<i64>, usize> = HashMap::new();
        let mut last = usize::MAX;
        for run in runs {
            let fits = |g: &Pending<'_>| g.times.iter().eq(run.iter().map(|p| &p.1));
            if !groups.get(last).is_some_and(fits) {
                let times: Vec<i64> = run.iter().map(|p| p.1).collect();
                last = *by_times.entry(times.clone()).or_insert(groups.len());
                if last == groups.len() {
                    groups.push(Pending { times, runs: Vec::new(), points: 0 });
                }
            }
            groups[last].runs.push(run);
            groups[last].points += run.len();
        }
        if groups.len() <= FOLD {
            fold(&mut groups);
        }
        out.extend(groups.into_iter().filter(|g| !g.runs.is_empty()).map(|g| g.build(&self.labels)));
    }
}

/// A value as sent is never the mark of an absent one.
pub(super) fn point_value(value: f64) -> f64 {
    if value.to_bits() == ABSENT_NAN { f64::NAN } else { value }
}

/// A group in the making: each run is the points of one series, at some or all of `times`.
struct Pending<'a> {
    times: Vec<i64>,
    runs: Vec<&'a [(u32, i64, f64)]>,
    /// In all runs.
    points: usize,
}

/// A column that missed a tick belongs to the group that has all ticks. Emptied groups stay behind without runs.
fn fold(groups: &mut [Pending<'_>]) {
    for small in 0..groups.len() {
        let (wanted, more, points) = (&groups[small].times, groups[small].runs.len(), groups[small].points);
        let big = groups.iter().position(|big| {
            let mut times = big.times.iter();
            !big.runs.is_empty()
                && big.times.len() > wanted.len()
                && (big.runs.len() + more) * big.times.len() <= SPARSE * (big.points + points)
                && wanted.iter().all(|t| times.any(|time| time == t))
        });
        if let Some(big) = big {
            let runs = std::mem::take(&mut groups[small].runs);
            groups[big].runs.extend(runs);
            groups[big].points += points;
            groups[big].runs.sort_by_key(|r| r[0].0);
        }
    }
}

impl Pending<'_> {
    fn build(self, labels: &[Labels]) -> Group {
        let mut values = Vec::with_capacity(self.runs.len() * self.times.len());
        for run in &self.runs {
            if run.len() == self.times.len() {
                values.extend(run.iter().map(|p| p.2));
                continue;
            }
            let mut points = run.iter().peekable();
            for t in &self.times {
                let value = points.next_if(|p| p.1 == *t).map_or(f64::from_bits(ABSENT_NAN), |p| p.2);
                values.push(value);
            }
        }
        let series = self.runs.iter().map(|r| labels[r[0].0 as usize].clone()).collect();
        Group { series, times_ms: self.times, values }
    }
}
