//! State of the rollups: monotonic counters, peaks and means of jobs, and the last values of the ports' counters.

use foldhash::{HashMap, HashMapExt as _};

use fabriclens_jobs::Job;
use fabriclens_model::Labels;

use super::owners::Owners;
use super::table::{Fold, Join, Row};
use fabriclens_promql::Sample;

/// A port counter that is silent for longer is forgotten, ms; its increase until then is not attributed.
const SILENT_MS: i64 = 3_600_000;

/// Current value of a job's series.
#[derive(Clone, Copy, Debug, Default)]
struct JobValue {
    value: f64,
    /// Time covered by a mean, seconds.
    seconds: f64,
    /// Time of the last update, Unix ms.
    at_ms: i64,
}

/// Values of one row for one job in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregate {
    sum: f64,
    max: f64,
    count: usize,
}

/// Values of all jobs' series and of all ports' counters.
#[derive(Default)]
pub(super) struct State {
    values: HashMap<Labels, JobValue>,
    /// Last value and read time of each counter, by row.
    counters: HashMap<usize, HashMap<Labels, (f64, i64)>>,
}

/// Key of a series within a round: job, attribution, rail, kept label.
type SeriesKey<'a> = (usize, &'static str, std::sync::Arc<str>, &'a str);

impl State {
    /// Turns the values of a row at one time into series of jobs, appended to `out`.
    pub(super) fn round(
        &mut self,
        row: (usize, &Row),
        samples: &[Sample],
        jobs: &[Job],
        owners: &Owners<'_>,
        now_ms: i64,
        out: &mut Vec<(Labels, f64)>,
    ) {
        let (number, row) = row;
        let mut aggregates: HashMap<SeriesKey<'_>, Aggregate> = HashMap::new();
        for sample in samples {
            let (value, since) = match row.fold {
                Fold::Total => self.increase(number, sample, now_ms),
                _ => (sample.value, now_ms),
            };
            let (grade, having) = owners.of(row.by, &sample.labels);
            let rail = if row.rail { owners.rail(&sample.labels) } else { "".into() };
            for job in having {
                // Counts from before the job's start are not its own.
                let own = if jobs[job].start_ns / 1_000_000 <= since { value } else { 0.0 };
                if own.is_finite() {
                    let kept = row.keep.map_or("", |name| sample.labels.get(name));
                    let j = aggregates.entry((job, grade.text(), rail.clone(), kept)).or_default();
                    *j = Aggregate {
                        sum: j.sum + own,
                        max: if j.count == 0 { own } else { j.max.max(own) },
                        count: j.count + 1,
                    };
                }
            }
        }
        for ((job, grade, rail, kept), j) in aggregates {
            let labels = labels(row, &jobs[job], grade, &rail, kept);
            let value = match row.join {
                Join::Sum => j.sum,
                Join::Max => j.max,
                Join::Mean => j.sum / j.count as f64,
            };
            let value = self.fold(row.fold, &labels, value, now_ms);
            out.push((labels, value));
        }
    }

    /// Increase of a counter since it was last read, and when that was; zero for a new counter.
    fn increase(&mut self, row: usize, sample: &Sample, now_ms: i64) -> (f64, i64) {
        let last = self.counters.entry(row).or_default().insert(sample.labels.clone(), (sample.value, now_ms));
        match last {
            None => (0.0, now_ms),
            // A counter that decreased was reset to zero.
            Some((before, at)) if sample.value < before => (sample.value, at),
            Some((before, at)) => (sample.value - before, at),
        }
    }

    fn fold(&mut self, fold: Fold, labels: &Labels, value: f64, now_ms: i64) -> f64 {
        let known = self.values.get(labels).copied();
        let values = self.values.entry(labels.clone()).or_default();
        let passed = known.map_or(0.0, |k| (now_ms - k.at_ms) as f64 / 1000.0);
        *values = match (fold, known) {
            (Fold::Total, Some(k)) => JobValue { value: k.value + value, ..k },
            (Fold::Peak, Some(k)) => JobValue { value: k.value.max(value), ..k },
            (Fold::Mean, Some(k)) if k.seconds + passed > 0.0 => {
                let seconds = k.seconds + passed;
                JobValue { value: (k.value * k.seconds + value * passed) / seconds, seconds, ..k }
            }
            _ => JobValue { value, ..JobValue::default() },
        };
        values.at_ms = now_ms;
        values.value
    }

    /// Restores a row from a previous process: the ports' counters and the jobs' series at `at_ms`.
    pub(super) fn restore(
        &mut self,
        row: (usize, &Row),
        ports: Vec<Sample>,
        own: Vec<Sample>,
        jobs: &[Job],
        at_ms: i64,
    ) {
        if row.1.fold == Fold::Total {
            let counters = self.counters.entry(row.0).or_default();
            counters.extend(ports.into_iter().map(|s| (s.labels, (s.value, at_ms))));
        }
        for s in own {
            let of = |job: &&Job| job.id == s.labels.get("job_id") && job.cluster == s.labels.get("cluster");
            // Series of another run with the same job number do not count.
            if let Some(job) = jobs.iter().find(of).filter(|job| job.start_ns / 1_000_000 <= at_ms) {
                let seconds = (at_ms - job.start_ns / 1_000_000) as f64 / 1000.0;
                self.values.insert(s.labels, JobValue { value: s.value, seconds, at_ms });
            }
        }
    }

    /// Forgets ended jobs and vanished counters.
    pub(super) fn forget(&mut self, jobs: &[Job], now_ms: i64) {
        let began: HashMap<(&str, &str), i64> =
            jobs.iter().map(|j| ((j.cluster.as_str(), j.id.as_str()), j.start_ns / 1_000_000)).collect();
        self.values.retain(|labels, values| {
            began.get(&(labels.get("cluster"), labels.get("job_id"))).is_some_and(|start| *start <= values.at_ms)
        });
        for counters in self.counters.values_mut() {
            counters.retain(|_, (_, at)| now_ms - *at < SILENT_MS);
        }
    }
}

fn labels(row: &Row, job: &Job, grade: &str, rail: &str, kept: &str) -> Labels {
    let (fixed, reason) = row.fixed.unwrap_or(("reason", ""));
    Labels::new([
        ("__name__", row.name),
        ("attribution", grade),
        ("cluster", &job.cluster),
        ("job_id", &job.id),
        ("job_name", &job.name),
        ("user", &job.user),
        ("rail", rail),
        (row.keep.unwrap_or("direction"), kept),
        (fixed, reason),
    ])
}
