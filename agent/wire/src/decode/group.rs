//! Collects the points of one resource, in any order, and groups series with the same times.

use fabriclens_rows::{Labels, LayoutInterner, RowGroup, absent, is_absent};
use foldhash::{HashMap, HashMapExt as _};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum groups of a resource for which groups with gaps are folded into groups without.
const FOLD: usize = 64;
/// Maximum values of a folded group per point in it: a sender chooses the number of series and of times, and their
/// product must not be allocated.
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
    /// Unique among all sinks.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Sets the series of an empty sink.
    pub(super) fn begin(&mut self, labels: &[Labels]) {
        self.labels.extend_from_slice(labels);
    }

    /// All series so far.
    pub(super) fn labels(&self) -> &[Labels] {
        &self.labels
    }

    /// The series of each point so far, in order of arrival.
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

    /// Appends the groups. If a series has several points in one millisecond, the last one sent is kept.
    pub(super) fn finish(mut self, layouts: &mut LayoutInterner, out: &mut Vec<RowGroup>) {
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
        let full = groups.into_iter().filter(|g| !g.runs.is_empty());
        out.extend(full.map(|g| g.build(&self.labels, layouts)));
    }
}

/// Replaces a NaN that equals the absent marker by an ordinary NaN.
pub(super) fn point_value(value: f64) -> f64 {
    if is_absent(value) { f64::NAN } else { value }
}

/// A group being built: each run is the points of one series, at some or all of `times`.
struct Pending<'a> {
    times: Vec<i64>,
    runs: Vec<&'a [(u32, i64, f64)]>,
    /// Points in all runs.
    points: usize,
}

/// Moves a column that missed a tick to a group that has all ticks. Emptied groups remain without runs.
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
    fn build(self, labels: &[Labels], layouts: &mut LayoutInterner) -> RowGroup {
        let mut values = Vec::with_capacity(self.runs.len() * self.times.len());
        for run in &self.runs {
            if run.len() == self.times.len() {
                values.extend(run.iter().map(|p| p.2));
                continue;
            }
            let mut points = run.iter().peekable();
            for t in &self.times {
                let value = points.next_if(|p| p.1 == *t).map_or(absent(), |p| p.2);
                values.push(value);
            }
        }
        let columns = self.runs.iter().map(|r| labels[r[0].0 as usize].clone()).collect();
        RowGroup { series: layouts.intern(columns), times: self.times, values }
    }
}
