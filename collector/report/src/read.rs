//! Samples for a report: counters of the job's ports as what they rose between the edges of a grid, exactly where that
//! is cheap, else from a few instants; and single questions in PromQL.

use crate::model::Method;
use fabriclens_base::escape::{promql_string, regex};
use fabriclens_jobs::Job;
use fabriclens_model::{Hint, Labels, MatchOp, Matcher, Read, ReadError, Rollup, SharedSeries, is_stale};
use fabriclens_promql::{CancelToken, Engine, QueryError, Sample, Value};
use std::collections::HashSet;

/// Ports times seconds up to which every sample is read: each metric is then some million samples at most.
const EXACT: i64 = 400_000;
/// Points of a plot.
const POINTS: i64 = 120;
/// The same of rollups from which the cost is worked out, and their least step, seconds: they are made each 15 s or more.
const FINE_POINTS: i64 = 1440;
const FINE: i64 = 30;
/// Instants at which counters are read where not every sample is.
const CHECKPOINTS: i64 = 4;
/// Samples are looked for this far outside of the time that is told of, ms, to know what counters were at its edges.
const MARGIN_MS: i64 = 60_000;
/// A sample stands for an instant so far after it, ms; minutes of rollups are near enough.
const NEAR_MS: i64 = 150_000;
/// What is read at each checkpoint: bytes, which are drawn where the job has no rollups, and counters of control groups,
/// which come and go with a job's steps.
const DRAWN: [&str; 2] = ["fabric_port_io_bytes_total", "fabric_tcp_io_bytes_total"];
/// What a job did is told up to so long after its end, ms: a scheduler knows whole seconds, an agent looks each second.
const LATE_MS: i64 = 2_000;
/// A hole in samples that is told, ms.
const HOLE_MS: i64 = 60_000;
/// More hosts than this are not put into a matcher: all are read, and others left out.
const MATCHED: usize = 1024;
/// The same of a question in PromQL, each of which would make its pattern anew.
const ASKED: usize = 64;
/// Steps of plots, seconds; a minute where it fits.
const STEPS: [i64; 17] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/// Reads for one job and time.
pub(crate) struct Source<'a> {
    engine: &'a Engine,
    samples: &'a dyn Read,
    cancel: &'a CancelToken,
    hosts: HashSet<&'a str>,
    /// Pattern of the hosts, and the matcher that it makes.
    matcher: Option<String>,
    of_hosts: Option<Matcher>,
    /// Unix ms.
    pub start_ms: i64,
    /// Unix ms.
    pub end_ms: i64,
    /// Between points of plots, ms.
    pub step_ms: i64,
    pub method: Method,
}

/// Of a plot; `None`: not measured.
pub(crate) type Points = Vec<Option<f64>>;

/// What a counter rose.
#[derive(Clone, Debug)]
pub(crate) struct Rise {
    pub labels: Labels,
    /// Over the whole time.
    pub total: f64,
    /// What else there is where the series is of nothing but this job: what it had come to at its first sample, if it
    /// began in the time, and what is told just after the end.
    pub beyond: f64,
    /// Between edges; NaN: not measured.
    pub steps: Vec<f64>,
    /// The longest hole, ms: at the beginning, inside, or at the end.
    pub hole_ms: i64,
}

impl<'a> Source<'a> {
    /// `hosts` are the job's.
    pub fn new(
        (engine, samples, cancel): (&'a Engine, &'a dyn Read, &'a CancelToken),
        hosts: impl Iterator<Item = &'a str>,
        (start_ms, end_ms): (i64, i64),
    ) -> Self {
        let hosts: HashSet<&str> = hosts.collect();
        let matcher = (hosts.len() <= MATCHED).then(|| {
            let mut all: Vec<String> = hosts.iter().map(|h| regex(h)).collect();
            all.sort_unstable();
            all.join("|")
        });
        let seconds = ((end_ms - start_ms) / 1000).max(1);
        let wide = STEPS.into_iter().find(|s| seconds / s <= POINTS).unwrap_or(seconds / POINTS);
        // Minute by minute, unless the job is short or long.
        let step = if seconds >= 600 { wide.max(60) } else { wide };
        let (step_ms, method) = (step * 1000, Method::Samples);
        // Without it all hosts are read and others left out.
        let of_hosts = matcher.as_ref().and_then(|hosts| Matcher::new("host", MatchOp::Regex, hosts.as_str()).ok());
        Self { engine, samples, cancel, hosts, matcher, of_hosts, start_ms, end_ms, step_ms, method }
    }

    /// Reads every sample where so many ports allow it.
    pub fn settle(&mut self, ports: usize) {
        let cost = (ports as i64).saturating_mul((self.end_ms - self.start_ms) / 1000);
        self.method = if cost <= EXACT { Method::Samples } else { Method::Checkpoints };
    }

    pub fn seconds(&self) -> f64 {
        (self.end_ms - self.start_ms) as f64 / 1000.0
    }

    /// Edges of the grid on which counters are told, Unix ms.
    pub fn edges(&self) -> Vec<i64> {
        let step = match self.method {
            Method::Samples => self.step_ms,
            Method::Checkpoints => ((self.end_ms - self.start_ms) / CHECKPOINTS).max(1),
        };
        edges((self.start_ms, self.end_ms), step)
    }

    /// The same of a job's rollups, which are few series: as finely as they are made.
    pub fn fine_edges(&self, span: (i64, i64)) -> Vec<i64> {
        let seconds = (span.1 - span.0) / 1000;
        let step =
            STEPS.into_iter().find(|s| *s >= FINE && seconds / s <= FINE_POINTS).unwrap_or(seconds / FINE_POINTS);
        edges(span, step * 1000)
    }

    /// Each rollup of a job by that name between edges: what a counter rose, or the mean of a gauge; NaN: not measured.
    pub fn of_job(
        &self,
        job: &Job,
        metric: &str,
        edges: &[i64],
        counter: bool,
    ) -> Result<Vec<(Labels, Vec<f64>)>, QueryError> {
        let (Some(start), Some(end)) = (edges.first(), edges.last()) else { return Ok(Vec::new()) };
        let step_ms = edges.get(1).map_or(1, |second| second - start);
        let rollup = Some(if counter { Rollup::Increase } else { Rollup::Mean });
        let of_job = [("job_id", &job.id), ("cluster", &job.cluster)];
        let matchers = of_job.into_iter().map(|(name, value)| Matcher::equal(name, value));
        let hint = Hint { step_ms, range_ms: step_ms, rollup };
        let series = self.read(metric, matchers, start - MARGIN_MS, end + MARGIN_MS, hint)?;
        let steps = |s: SharedSeries| match counter {
            true => rise(s.labels.clone(), &s.times, &s.values, edges).map(|rise| (s.labels, rise.steps)),
            false => Some((s.labels, means(&s.times, &s.values, edges))),
        };
        Ok(series.into_iter().filter_map(steps).collect())
    }

    /// A selector of the job's hosts: `metric{host=~"…",more}`.
    pub fn selector(&self, metric: &str, more: &str) -> String {
        match self.matcher.as_ref().filter(|_| self.hosts.len() <= ASKED) {
            Some(hosts) => format!("{metric}{{host=~{},{more}}}", promql_string(hosts)),
            None => format!("{metric}{{{more}}}"),
        }
    }

    /// Samples of the job's hosts at an instant.
    pub fn at(&self, promql: &str, ms: i64) -> Result<Vec<Sample>, QueryError> {
        let mut all = self.ask(promql, ms)?;
        all.retain(|s| self.hosts.contains(s.labels.get("host")));
        Ok(all)
    }

    /// Samples at an instant.
    pub fn ask(&self, promql: &str, ms: i64) -> Result<Vec<Sample>, QueryError> {
        match self.engine.instant_cancellable(self.samples, promql, ms, self.cancel)?.value {
            Value::Vector(samples) => Ok(samples),
            _ => Ok(Vec::new()),
        }
    }

    /// Points of a plot for each series of a question: the values at the end of each step.
    pub fn plot(&self, promql: &str) -> Result<Vec<(Labels, Points)>, QueryError> {
        let first = (self.start_ms + self.step_ms).min(self.end_ms);
        let steps = ((self.end_ms - first) / self.step_ms + 1) as usize;
        let outcome =
            self.engine.range_cancellable(self.samples, promql, first, self.end_ms, self.step_ms, self.cancel)?;
        let Value::Matrix(series) = outcome.value else { return Ok(Vec::new()) };
        let points = |s: fabriclens_model::Series| {
            let mut points = vec![None; steps];
            for (t, v) in s.times.iter().zip(&s.values) {
                if let Some(p) = points.get_mut(((t - first) / self.step_ms) as usize) {
                    *p = Some(*v).filter(|v| v.is_finite());
                }
            }
            (s.labels, points)
        };
        Ok(series.into_iter().map(points).collect())
    }

    /// What every series of a counter of the job's hosts rose.
    pub fn rises(&self, metric: &str) -> Result<Vec<Rise>, QueryError> {
        let edges = self.edges();
        match self.method {
            Method::Samples => self.exact(metric, &edges),
            Method::Checkpoints if DRAWN.contains(&metric) => self.checkpoints(metric, &edges),
            // The rest is drawn from rollups.
            Method::Checkpoints => self.checkpoints(metric, &[self.start_ms, self.end_ms]),
        }
    }

    /// Series of a counter of the job's hosts in a stretch of time, both ends in Unix ms.
    fn select(&self, metric: &str, from: i64, to: i64, hint: Hint) -> Result<Vec<SharedSeries>, QueryError> {
        let mut series = self.read(metric, self.of_hosts.clone(), from, to, hint)?;
        series.retain(|s| self.hosts.contains(s.labels.get("host")));
        Ok(series)
    }

    fn read(
        &self,
        metric: &str,
        more: impl IntoIterator<Item = Matcher>,
        from: i64,
        to: i64,
        hint: Hint,
    ) -> Result<Vec<SharedSeries>, QueryError> {
        if self.cancel.is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        let matchers: Vec<Matcher> = std::iter::once(Matcher::equal("__name__", metric)).chain(more).collect();
        let read = self.samples.select_for(&matchers, from, to, hint, self.engine.budget()).map_err(of_read)?;
        Ok(read.series)
    }

    fn exact(&self, metric: &str, edges: &[i64]) -> Result<Vec<Rise>, QueryError> {
        let hint = Hint { step_ms: self.step_ms, range_ms: self.step_ms, rollup: Some(Rollup::Increase) };
        let series = self.select(metric, self.start_ms - MARGIN_MS, self.end_ms + MARGIN_MS, hint)?;
        Ok(series.into_iter().filter_map(|s| rise(s.labels.clone(), &s.times, &s.values, edges)).collect())
    }

    fn checkpoints(&self, metric: &str, edges: &[i64]) -> Result<Vec<Rise>, QueryError> {
        let mut all: Vec<(Labels, Vec<(i64, f64)>)> = Vec::new();
        let hint = Hint { rollup: Some(Rollup::Last), ..Hint::default() };
        for edge in edges {
            let mut found = self.select(metric, *edge - NEAR_MS, *edge, hint)?;
            if !found.is_sorted_by(|a, b| a.labels <= b.labels) {
                found.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
            }
            all = with_instant(all, found, *edge);
        }
        let rise = |(labels, points): (Labels, Vec<(i64, f64)>)| {
            let (times, values): (Vec<i64>, Vec<f64>) = points.into_iter().unzip();
            rise(labels, &times, &values, edges)
        };
        Ok(all.into_iter().filter_map(rise).collect())
    }
}

/// Adds the last values before an instant to those of earlier ones. Both are in order of labels and stay so: to put them
/// side by side takes a fraction of what a table by labels takes.
fn with_instant(
    all: Vec<(Labels, Vec<(i64, f64)>)>,
    found: Vec<SharedSeries>,
    at: i64,
) -> Vec<(Labels, Vec<(i64, f64)>)> {
    let mut both = Vec::with_capacity(all.len().max(found.len()));
    let mut known = all.into_iter().peekable();
    for s in found {
        let Some(last) = s.values.last().copied().filter(|v| !is_stale(*v)) else { continue };
        while let Some(before) = known.next_if(|(labels, _)| *labels < s.labels) {
            both.push(before);
        }
        let (labels, mut points) = known.next_if(|(labels, _)| *labels == s.labels).unwrap_or((s.labels, Vec::new()));
        points.push((at, last));
        both.push((labels, points));
    }
    both.extend(known);
    both
}

/// Edges of a grid, Unix ms.
fn edges((start, end): (i64, i64), step: i64) -> Vec<i64> {
    let mut edges: Vec<i64> = (start..end).step_by(step.max(1) as usize).collect();
    // A last step that is a sliver would be a rate of nothing.
    if edges.len() > 1 && edges.last().is_some_and(|last| end - last < step / 4) {
        edges.pop();
    }
    edges.push(end);
    edges
}

/// Means of a gauge between edges: each sample stands for the time since the one before it. NaN: not measured.
fn means(times: &[i64], values: &[f64], edges: &[i64]) -> Vec<f64> {
    let known: Vec<(i64, f64)> =
        times.iter().copied().zip(values.iter().copied()).filter(|(_, v)| !is_stale(*v) && v.is_finite()).collect();
    let mean = |e: &[i64]| {
        let first = known.partition_point(|(t, _)| *t <= e[0]);
        let (mut sum, mut of) = (0.0, 0.0);
        for n in first..known.len() {
            let before = n.checked_sub(1).map_or(known[n].0 - NEAR_MS, |b| known[b].0.max(known[n].0 - NEAR_MS));
            let width = (known[n].0.min(e[1]) - before.max(e[0])) as f64;
            if before >= e[1] {
                break;
            }
            (sum, of) = (sum + known[n].1 * width.max(0.0), of + width.max(0.0));
        }
        sum / of
    };
    edges.windows(2).map(mean).collect()
}

/// What a counter rose between edges. `None`: it was not there in that time.
fn rise(labels: Labels, times: &[i64], values: &[f64], edges: &[i64]) -> Option<Rise> {
    let (start, end) = (*edges.first()?, *edges.last()?);
    // What it had come to at each sample, resets counted.
    let mut points: Vec<(i64, f64)> = Vec::with_capacity(times.len());
    let mut last: Option<(f64, f64)> = None;
    let mut raw = 0.0;
    for (t, v) in times.iter().zip(values).filter(|(_, v)| !is_stale(**v) && v.is_finite()) {
        if points.is_empty() {
            raw = *v;
        }
        let sum = last.map_or(0.0, |(before, sum)| sum + if *v < before { *v } else { v - before });
        points.push((*t, sum));
        last = Some((*v, sum));
    }
    let inside = points.iter().filter(|(t, _)| (start..=end).contains(t)).count();
    if inside == 0 {
        return None;
    }
    let ends = (points.first()?.0, points.last()?.0);
    let at: Vec<f64> = edges.iter().map(|e| value_at(&points, *e)).collect();
    let began = if ends.0 > start { raw } else { 0.0 };
    let beyond = began + value_at(&points, end + LATE_MS) - at.last()?;
    // A step that lies in a hole is not measured; what the counter rose in it is in the total all the same.
    let mut apart: Vec<i64> = points.windows(2).map(|p| p[1].0 - p[0].0).collect();
    apart.sort_unstable();
    let hole = apart.get(apart.len() / 2).map_or(HOLE_MS, |usual| (3 * usual).max(HOLE_MS));
    let covered = |e: &[i64]| {
        let before = points.partition_point(|(t, _)| *t <= e[0]);
        let after = points.partition_point(|(t, _)| *t < e[1]);
        let near = || before > 0 && after < points.len() && points[after].0 - points[before - 1].0 < hole;
        e[1] > ends.0 && e[0] < ends.1 && (after > before || near())
    };
    let steps = edges.windows(2).zip(at.windows(2)).map(|(e, v)| if covered(e) { v[1] - v[0] } else { f64::NAN });
    let holes = points.windows(2).map(|p| (p[0].0.max(start), p[1].0.min(end))).map(|(a, b)| b - a);
    let hole_ms = holes.chain([ends.0 - start, end - ends.1]).max().unwrap_or(0).max(0);
    Some(Rise { labels, total: at.last()? - at.first()?, beyond, steps: steps.collect(), hole_ms })
}

/// Between two samples a counter is taken to grow evenly; outside of them it stands.
fn value_at(points: &[(i64, f64)], t: i64) -> f64 {
    let next = points.partition_point(|(at, _)| *at < t);
    match (next.checked_sub(1).map(|n| points[n]), points.get(next)) {
        (Some((a, low)), Some((b, high))) => low + (high - low) * (t - a) as f64 / (b - a) as f64,
        (Some((_, v)), None) | (None, Some(&(_, v))) => v,
        (None, None) => f64::NAN,
    }
}

fn of_read(e: ReadError) -> QueryError {
    match e {
        ReadError::Storage(m) => QueryError::Storage(m),
        ReadError::Limit(m) => QueryError::Execution(m),
        ReadError::Memory => QueryError::Memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(i64, f64)], edges: &[i64]) -> Option<Rise> {
        let (times, values): (Vec<i64>, Vec<f64>) = points.iter().copied().unzip();
        rise(Labels::default(), &times, &values, edges)
    }

    #[test]
    fn growth_is_cut_at_the_edges_and_resets_are_counted() {
        let r = of(&[(0, 100.0), (10, 200.0), (20, 50.0), (30, 150.0)], &[5, 15, 25]).unwrap();
        assert_eq!((r.steps.clone(), r.total), (vec![75.0, 75.0], 150.0), "200 to 50 is a rise of 50 from zero");
        let r = of(&[(12, 7.0), (18, 13.0)], &[0, 10, 20, 30]).unwrap();
        assert!(r.steps[0].is_nan() && r.steps[2].is_nan() && r.steps[1] == 6.0 && r.total == 6.0, "{r:?}");
        assert!(of(&[(0, 1.0), (90, 2.0)], &[10, 20]).is_none(), "no sample in that time");
    }

    #[test]
    fn what_a_job_alone_counts_is_whole_although_it_is_sampled_late() {
        let edges = [10_000, 20_000];
        let whole = |points: &[(i64, f64)]| {
            let points: Vec<_> = points.iter().map(|(s, v)| (s * 1000, *v)).collect();
            of(&points, &edges).map(|r| r.total + r.beyond)
        };
        assert_eq!(whole(&[(11, 7.0), (19, 90.0), (21, 100.0)]), Some(100.0), "from nothing to what is told late");
        assert_eq!(whole(&[(12, 5.0)]), Some(5.0), "also of a step that was seen once");
        assert_eq!(whole(&[(8, 50.0), (12, 60.0), (20, 90.0)]), Some(35.0), "but not what was there before it began");
        assert_eq!(whole(&[(11, 1.0), (20, 2.0), (24, 6.0)]), Some(4.0), "nor all that comes after its end");
        assert_eq!(whole(&[(11, 10.0), (15, 4.0)]), Some(14.0), "an agent that began anew counts from nothing");
    }

    #[test]
    fn a_gauge_stands_for_the_time_since_the_sample_before() {
        let s = |n: i64| n * 1000;
        let of = |points: &[(i64, f64)], edges: &[i64]| {
            let (times, values): (Vec<i64>, Vec<f64>) = points.iter().map(|(t, v)| (s(*t), *v)).unzip();
            means(&times, &values, &edges.iter().map(|e| s(*e)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(0, 9.0), (15, 1.0), (45, 0.0), (60, 0.5)], &[0, 30, 60]), [0.5, 0.25]);
        let gap = of(&[(10, 1.0), (1000, 0.5)], &[0, 60, 120, 900, 1000]);
        assert!(gap[0] == 1.0 && gap[1].is_nan() && gap[2] == 0.5 && gap[3] == 0.5, "{gap:?}");
        assert!(of(&[], &[0, 30])[0].is_nan());
    }

    #[test]
    fn a_hole_is_told_and_no_rate_is_invented_in_it() {
        let m = 60_000;
        let edges: Vec<i64> = (0..=10).map(|n| n * m).collect();
        let points: Vec<(i64, f64)> =
            (0..=100).map(|n| n * 6000).filter(|t| *t <= 2 * m || *t >= 7 * m).map(|t| (t, t as f64)).collect();
        let r = of(&points, &edges).unwrap();
        assert_eq!((r.total, r.hole_ms), (600_000.0, 5 * m));
        let none: Vec<usize> = (0..10).filter(|n| r.steps[*n].is_nan()).collect();
        assert_eq!(none, [2, 3, 4, 5, 6]);
    }

    #[test]
    fn instants_are_put_side_by_side() {
        let found = |names: &[(&str, f64)]| -> Vec<SharedSeries> {
            let one = |(name, value): &(&str, f64)| SharedSeries {
                labels: Labels::new([("host", *name)]),
                times: vec![1].into(),
                values: vec![*value],
            };
            names.iter().map(one).collect()
        };
        let all = with_instant(Vec::new(), found(&[("b", 1.0), ("d", 2.0)]), 10);
        let all = with_instant(all, found(&[("a", 3.0), ("b", 4.0), ("c", 5.0)]), 20);
        let told: Vec<_> = all.iter().map(|(labels, points)| (labels.get("host"), &points[..])).collect();
        let want: [(&str, &[(i64, f64)]); 4] =
            [("a", &[(20, 3.0)]), ("b", &[(10, 1.0), (20, 4.0)]), ("c", &[(20, 5.0)]), ("d", &[(10, 2.0)])];
        assert_eq!(told, want);
    }

    #[test]
    fn names_of_hosts_are_not_patterns() {
        assert_eq!(promql_string(&regex("a.b|c\"\\")), r#""a\\.b\\|c\"\\\\""#);
    }
}
