//! Reads the samples of a report: increases of counters between the edges of a time grid, from every sample if that is
//! cheap, otherwise from a few checkpoints; and single PromQL queries.

mod increase;

pub(crate) use increase::Increase;

use crate::model::Method;
use fabriclens_base::escape::{promql_string, regex};
use fabriclens_jobs::Job;
use fabriclens_model::{Hint, Labels, MatchOp, Matcher, Read, Rollup, SharedSeries, is_stale};
use fabriclens_promql::{CancelToken, Engine, QueryError, Sample, Value};
use increase::{NEAR_MS, edges, increase, means};
use std::collections::HashSet;

/// Maximum ports times seconds for reading every sample; a metric then has a few million samples at most.
const EXACT: i64 = 400_000;
/// Maximum points of a plot.
const POINTS: i64 = 120;
/// Maximum points, and minimum step in seconds, of the rollups that the cost is computed from. Rollups are computed
/// every 15 s or less often.
const FINE_POINTS: i64 = 1440;
const FINE: i64 = 30;
/// Number of intervals between checkpoints.
const CHECKPOINTS: i64 = 4;
/// Samples are read this far outside of the time range, ms, to know the counters at its edges.
const MARGIN_MS: i64 = 60_000;
/// Metrics that are read at each checkpoint, not only at the first and last: bytes, which are plotted if the job has no
/// rollups, and counters of cgroups, which exist only during a step of the job.
const DRAWN: [&str; 2] = ["fabric_port_io_bytes_total", "fabric_tcp_io_bytes_total"];
/// Maximum number of hosts in a matcher; for more, all hosts are read and others are dropped.
const MATCHED: usize = 1024;
/// The same for PromQL queries, each of which compiles the pattern again.
const ASKED: usize = 64;
/// Possible steps of plots, seconds.
const STEPS: [i64; 17] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400];

/// Reads samples for one job and time range.
pub(crate) struct Source<'a> {
    engine: &'a Engine,
    samples: &'a dyn Read,
    cancel: &'a CancelToken,
    hosts: HashSet<&'a str>,
    /// Regular expression of the hosts, and its matcher; `None`: too many hosts.
    matcher: Option<String>,
    of_hosts: Option<Matcher>,
    /// Start of the time range, Unix ms.
    pub start_ms: i64,
    /// End of the time range, Unix ms.
    pub end_ms: i64,
    /// Step of plots, ms.
    pub step_ms: i64,
    pub method: Method,
}

/// First and last sample of an uninterrupted stretch, Unix ms.
pub(crate) type Interval = (i64, i64);

fn intervals(times: &[i64], values: &[f64]) -> Vec<Interval> {
    let mut all: Vec<Interval> = Vec::new();
    let mut open = false;
    for (time, value) in times.iter().copied().zip(values.iter().copied()) {
        match all.last_mut().filter(|(_, end)| open && time - *end <= NEAR_MS) {
            _ if is_stale(value) => open = false,
            Some((_, end)) => *end = time,
            None => {
                all.push((time, time));
                open = true;
            }
        }
    }
    all
}

/// Points of a plot; `None`: not measured.
pub(crate) type Points = Vec<Option<f64>>;

impl<'a> Source<'a> {
    /// A reader for the `hosts` of the job.
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
        // One minute, unless the job is short or long.
        let step = if seconds >= 600 { wide.max(60) } else { wide };
        let (step_ms, method) = (step * 1000, Method::Samples);
        // Without a matcher all hosts are read, and others are dropped.
        let of_hosts = matcher.as_ref().and_then(|hosts| Matcher::new("host", MatchOp::Regex, hosts.as_str()).ok());
        Self { engine, samples, cancel, hosts, matcher, of_hosts, start_ms, end_ms, step_ms, method }
    }

    /// A reader for other hosts in the same time.
    pub fn beside<'b>(&'b self, hosts: impl Iterator<Item = &'b str>) -> Source<'b> {
        Source::new((self.engine, self.samples, self.cancel), hosts, (self.start_ms, self.end_ms))
    }

    /// Whether the request was canceled.
    pub fn is_canceled(&self) -> bool {
        self.cancel.is_canceled()
    }

    /// Chooses the reading method by the number of ports.
    pub fn choose_method(&mut self, ports: usize) {
        let cost = (ports as i64).saturating_mul((self.end_ms - self.start_ms) / 1000);
        self.method = if cost <= EXACT { Method::Samples } else { Method::Checkpoints };
    }

    /// Length of the time range, seconds.
    pub fn seconds(&self) -> f64 {
        (self.end_ms - self.start_ms) as f64 / 1000.0
    }

    /// Edges of the time grid of counters, Unix ms.
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

    /// Each rollup series of a job between edges: the increase of a counter, or the mean of a gauge; NaN: not measured.
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
            true => increase(s.labels.clone(), &s.times, &s.values, edges).map(|increase| (s.labels, increase.steps)),
            false => Some((s.labels, means(&s.times, &s.values, edges))),
        };
        Ok(series.into_iter().filter_map(steps).collect())
    }

    /// Selector of the job's hosts: `metric{host=~"…",more}`.
    pub fn selector(&self, metric: &str, more: &str) -> String {
        match self.matcher.as_ref().filter(|_| self.hosts.len() <= ASKED) {
            Some(hosts) => format!("{metric}{{host=~{},{more}}}", promql_string(hosts)),
            None => format!("{metric}{{{more}}}"),
        }
    }

    /// Samples of the job's hosts at an instant, Unix ms.
    pub fn at(&self, promql: &str, ms: i64) -> Result<Vec<Sample>, QueryError> {
        let mut all = self.ask(promql, ms)?;
        all.retain(|s| self.hosts.contains(s.labels.get("host")));
        Ok(all)
    }

    /// Samples of any host at an instant, Unix ms.
    pub fn ask(&self, promql: &str, ms: i64) -> Result<Vec<Sample>, QueryError> {
        match self.engine.instant_cancellable(self.samples, promql, ms, self.cancel)?.value {
            Value::Vector(samples) => Ok(samples),
            _ => Ok(Vec::new()),
        }
    }

    /// Points of a plot for each series of a query: the values at the end of each step.
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

    /// Increases of all series of a counter of the job's hosts.
    pub fn increases(&self, metric: &str) -> Result<Vec<Increase>, QueryError> {
        let edges = self.edges();
        match self.method {
            Method::Samples => self.exact(metric, &edges),
            Method::Checkpoints if DRAWN.contains(&metric) => self.checkpoints(metric, &edges),
            // Other counters are plotted from rollups.
            Method::Checkpoints => self.checkpoints(metric, &[self.start_ms, self.end_ms]),
        }
    }

    /// Intervals, Unix ms, in which each series of the job's hosts has samples. A stale marker ends one, and so does a gap of
    /// more than [`NEAR_MS`].
    pub fn intervals(&self, metric: &str) -> Result<Vec<(Labels, Vec<Interval>)>, QueryError> {
        let series = self.select(metric, self.start_ms, self.end_ms, Hint::default())?;
        Ok(series.into_iter().map(|s| (s.labels.clone(), intervals(&s.times, &s.values))).collect())
    }

    /// Series of a counter of the job's hosts in a time range, Unix ms.
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
        if self.is_canceled() {
            return Err(QueryError::Cancelled);
        }
        let matchers: Vec<Matcher> = std::iter::once(Matcher::equal("__name__", metric)).chain(more).collect();
        let budget = self.engine.timed(self.cancel);
        let read = self.samples.select_for(&matchers, from, to, hint, &budget)?;
        Ok(read.series)
    }

    fn exact(&self, metric: &str, edges: &[i64]) -> Result<Vec<Increase>, QueryError> {
        let hint = Hint { step_ms: self.step_ms, range_ms: self.step_ms, rollup: Some(Rollup::Increase) };
        let series = self.select(metric, self.start_ms - MARGIN_MS, self.end_ms + MARGIN_MS, hint)?;
        Ok(series.into_iter().filter_map(|s| increase(s.labels.clone(), &s.times, &s.values, edges)).collect())
    }

    fn checkpoints(&self, metric: &str, edges: &[i64]) -> Result<Vec<Increase>, QueryError> {
        let mut all: Vec<(Labels, Vec<(i64, f64)>)> = Vec::new();
        let hint = Hint { rollup: Some(Rollup::Last), ..Hint::default() };
        for edge in edges {
            let mut found = self.select(metric, *edge - NEAR_MS, *edge, hint)?;
            if !found.is_sorted_by(|a, b| a.labels <= b.labels) {
                found.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
            }
            all = with_instant(all, found, *edge);
        }
        let increase = |(labels, points): (Labels, Vec<(i64, f64)>)| {
            let (times, values): (Vec<i64>, Vec<f64>) = points.into_iter().unzip();
            increase(labels, &times, &values, edges)
        };
        Ok(all.into_iter().filter_map(increase).collect())
    }
}

/// Adds the values at a checkpoint to those of earlier checkpoints. Both are in label order, so a merge suffices; it
/// takes a fraction of the time of a hash table by labels.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_merged_by_labels() {
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
        let got: Vec<_> = all.iter().map(|(labels, points)| (labels.get("host"), &points[..])).collect();
        let want: [(&str, &[(i64, f64)]); 4] =
            [("a", &[(20, 3.0)]), ("b", &[(10, 1.0), (20, 4.0)]), ("c", &[(20, 5.0)]), ("d", &[(10, 2.0)])];
        assert_eq!(got, want);
    }

    #[test]
    fn stale_markers_and_gaps_end_intervals() {
        let stale = f64::from_bits(0x7ff0_0000_0000_0002);
        let times = [0, 30_000, 60_000, 90_000, 120_000, 400_000];
        let found = intervals(&times, &[1.0, 1.0, stale, 1.0, 1.0, 1.0]);
        assert_eq!(found, [(0, 30_000), (90_000, 120_000), (400_000, 400_000)]);
        assert_eq!(intervals(&[0], &[stale]), []);
    }

    #[test]
    fn host_names_are_escaped_in_patterns() {
        assert_eq!(promql_string(&regex("a.b|c\"\\")), r#""a\\.b\\|c\"\\\\""#);
    }
}
