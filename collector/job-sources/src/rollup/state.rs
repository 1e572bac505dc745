//! What a job has so far: counters that never go back, peaks and means; and what the ports' counters were last.

use foldhash::{HashMap, HashMapExt as _};

use fabriclens_jobs::Job;
use fabriclens_model::Labels;

use super::owners::Owners;
use super::table::{Fold, Join, Row};
use fabriclens_promql::Sample;

/// A port's counter that is silent for longer is forgotten, ms: what it rose by then is nobody's.
const SILENT_MS: i64 = 3_600_000;

/// A series of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    value: f64,
    /// Of a mean: the time that it stands for, seconds.
    seconds: f64,
    /// When it was last worked out, Unix ms.
    at_ms: i64,
}

/// The values of one row for one job in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Joined {
    sum: f64,
    max: f64,
    count: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct State {
    held: HashMap<Labels, Held>,
    /// By row: the last value of each counter, and when it was read.
    counters: HashMap<usize, HashMap<Labels, (f64, i64)>>,
}

/// What makes series of a row and a job differ.
type Apart<'a> = (usize, &'static str, std::sync::Arc<str>, &'a str);

impl State {
    /// The values of a row at an instant become series of jobs, put into `out`.
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
        let mut joined: HashMap<Apart<'_>, Joined> = HashMap::new();
        for sample in samples {
            let (value, since) = match row.fold {
                Fold::Total => self.rise(number, sample, now_ms),
                _ => (sample.value, now_ms),
            };
            let (grade, having) = owners.of(row.by, &sample.labels);
            let rail = if row.rail { owners.rail(&sample.labels) } else { "".into() };
            for job in having {
                // What was counted before the job began is not its own.
                let own = if jobs[job].start_ns / 1_000_000 <= since { value } else { 0.0 };
                if own.is_finite() {
                    let kept = row.keep.map_or("", |name| sample.labels.get(name));
                    let j = joined.entry((job, grade.text(), rail.clone(), kept)).or_default();
                    *j = Joined {
                        sum: j.sum + own,
                        max: if j.count == 0 { own } else { j.max.max(own) },
                        count: j.count + 1,
                    };
                }
            }
        }
        for ((job, grade, rail, kept), j) in joined {
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

    /// How much a counter rose since it was last read, and when that was; one that is new has not risen.
    fn rise(&mut self, row: usize, sample: &Sample, now_ms: i64) -> (f64, i64) {
        let last = self.counters.entry(row).or_default().insert(sample.labels.clone(), (sample.value, now_ms));
        match last {
            None => (0.0, now_ms),
            // A counter that fell began anew at zero.
            Some((before, at)) if sample.value < before => (sample.value, at),
            Some((before, at)) => (sample.value - before, at),
        }
    }

    fn fold(&mut self, fold: Fold, labels: &Labels, value: f64, now_ms: i64) -> f64 {
        let known = self.held.get(labels).copied();
        let held = self.held.entry(labels.clone()).or_default();
        let passed = known.map_or(0.0, |k| (now_ms - k.at_ms) as f64 / 1000.0);
        *held = match (fold, known) {
            (Fold::Total, Some(k)) => Held { value: k.value + value, ..k },
            (Fold::Peak, Some(k)) => Held { value: k.value.max(value), ..k },
            (Fold::Mean, Some(k)) if k.seconds + passed > 0.0 => {
                let seconds = k.seconds + passed;
                Held { value: (k.value * k.seconds + value * passed) / seconds, seconds, ..k }
            }
            _ => Held { value, ..Held::default() },
        };
        held.at_ms = now_ms;
        held.value
    }

    /// Takes up a row where another process left it at an instant: what the ports' counters were, and the jobs' series.
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
            // A series that another run of the same number left is not this run's.
            if let Some(job) = jobs.iter().find(of).filter(|job| job.start_ns / 1_000_000 <= at_ms) {
                let seconds = (at_ms - job.start_ns / 1_000_000) as f64 / 1000.0;
                self.held.insert(s.labels, Held { value: s.value, seconds, at_ms });
            }
        }
    }

    /// Forgets jobs that are over and counters that are gone.
    pub(super) fn forget(&mut self, jobs: &[Job], now_ms: i64) {
        let began: HashMap<(&str, &str), i64> =
            jobs.iter().map(|j| ((j.cluster.as_str(), j.id.as_str()), j.start_ns / 1_000_000)).collect();
        self.held.retain(|labels, held| {
            began.get(&(labels.get("cluster"), labels.get("job_id"))).is_some_and(|start| *start <= held.at_ms)
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
