//! Reads collectives of jobs from the newest samples of their series.

use crate::model::{
    Communicator, FRESH_MS, JobCollectives, JobName, MPI_COMM_WORLD, STRAGGLER, Straggler, StragglerReason,
};
use crate::mpi;
use fabriclens_model::{FixedBudget, Matcher, Read, ReadError, Series, is_stale};
use std::collections::{BTreeMap, BTreeSet};

/// How far back samples are read, to count answers in a row, ms.
const LOOK_BACK_MS: i64 = 600_000;
/// Samples of one answer have one time; those of other agents may differ by less than this, ms.
const SAME_ANSWER_MS: i64 = 1_000;
/// Most jobs with stragglers, and communicators of a job.
const JOBS: usize = 256;
const COMMUNICATORS: usize = 64;
/// Most memory of one read, bytes.
const BYTES: usize = 64 << 20;

const READABLE: &str = "fabric_collective_readable";
const INFO: &str = "fabric_collective_communicator_info";
const RANKS: &str = "fabric_collective_ranks";
const BEHIND: &str = "fabric_collective_behind";
const LAG: &str = "fabric_collective_lag";
const IDLE: &str = "fabric_collective_idle_seconds";

/// Source of samples, and the time at which they are read.
#[derive(Clone, Copy)]
pub struct CollectivesReader<'a> {
    /// Samples.
    pub read: &'a dyn Read,
    /// Unix ms.
    pub at_ms: i64,
}

impl CollectivesReader<'_> {
    /// Jobs of which a rank holds back others or cannot work, at most 256. Ranks have no `host` yet.
    ///
    /// # Errors
    /// [`ReadError`], also if the series of stragglers need more than 64 MiB. A job whose own series do is left out.
    pub fn jobs_with_stragglers(&self) -> Result<Vec<JobCollectives>, ReadError> {
        let series = self.select(&[STRAGGLER, mpi::INSIDE], self.at_ms - FRESH_MS, &[])?;
        let jobs: BTreeSet<JobName> = series.iter().map(job_of).filter(|job| !job.id.is_empty()).take(JOBS).collect();
        let mut all = Vec::new();
        for job in &jobs {
            match self.with_mpi(job) {
                Ok(found) => all.extend(found),
                Err(ReadError::Memory) => {}
                Err(error) => return Err(error),
            }
        }
        all.retain(|job: &JobCollectives| job.communicators.iter().any(|one| !one.stragglers.is_empty()));
        Ok(all)
    }

    /// A job with its ranks of MPI.
    fn with_mpi(&self, job: &JobName) -> Result<Option<JobCollectives>, ReadError> {
        let found = self.job(job)?;
        let series = self.select(&mpi::METRICS, self.at_ms - mpi::LOOK_BACK_MS, &of_job(job))?;
        let Some((world, reported_ms)) = mpi::world(&series, self.at_ms) else { return Ok(found) };
        let none = || JobCollectives { job: job.clone(), answered_ms: reported_ms, ..JobCollectives::default() };
        let mut found = found.unwrap_or_else(none);
        found.communicators.push(world);
        Ok(Some(found))
    }

    /// A job by NCCL's account; `None` without an answer that still counts.
    ///
    /// # Errors
    /// [`ReadError`], also if its series need more than 64 MiB.
    pub fn job(&self, job: &JobName) -> Result<Option<JobCollectives>, ReadError> {
        let names = [READABLE, INFO, RANKS, BEHIND, LAG, IDLE, STRAGGLER];
        let series = self.select(&names, self.at_ms - LOOK_BACK_MS, &of_job(job))?;
        // Another host takes over if the one that asks is gone.
        let answered = |one: &&Series| Some((newest_answer(one)?, one.labels.get("host").to_owned()));
        let newest =
            series.iter().filter(|one| one.labels.get("__name__") == READABLE).filter_map(|s| answered(&s)).max();
        let Some((answered_ms, asked_by)) = newest.filter(|(at_ms, _)| *at_ms >= self.at_ms - FRESH_MS) else {
            return Ok(None);
        };
        let own: Vec<&Series> = series.iter().filter(|one| one.labels.get("host") == asked_by).collect();
        Ok(Some(JobCollectives {
            job: job.clone(),
            asked_by,
            answered_ms,
            communicators: communicators(&own, answered_ms),
        }))
    }

    fn select(&self, names: &[&str], from_ms: i64, more: &[Matcher]) -> Result<Vec<Series>, ReadError> {
        let names = Matcher::one_of("__name__", names.iter().copied());
        let mut matchers = vec![names.map_err(|e| ReadError::Storage(e.to_string()))?];
        matchers.extend_from_slice(more);
        self.read.select_within(&matchers, from_ms, self.at_ms, &FixedBudget::new(BYTES))
    }
}

/// Matchers of the series of a job.
fn of_job(job: &JobName) -> [Matcher; 2] {
    [Matcher::equal("job", &*job.id), Matcher::equal("cluster", &*job.cluster)]
}

fn job_of(series: &Series) -> JobName {
    JobName { cluster: series.labels.get("cluster").to_owned(), id: series.labels.get("job").to_owned() }
}

/// Time of the newest sample that is 1. Later ones that are 0 are no answers: what was known before still counts.
fn newest_answer(readable: &Series) -> Option<i64> {
    let samples = readable.times.iter().zip(&readable.values);
    samples.rev().find(|(_, value)| **value == 1.0).map(|(at_ms, _)| *at_ms)
}

/// Value of a series in an answer.
fn value_at(series: &Series, answered_ms: i64) -> Option<f64> {
    let end = series.times.partition_point(|at_ms| *at_ms <= answered_ms + SAME_ANSWER_MS);
    let (at_ms, value) = (*series.times.get(end.checked_sub(1)?)?, *series.values.get(end - 1)?);
    (at_ms >= answered_ms - SAME_ANSWER_MS && value.is_finite()).then_some(value)
}

fn communicators(series: &[&Series], answered_ms: i64) -> Vec<Communicator> {
    let mut of: BTreeMap<&str, Vec<(&Series, f64)>> = BTreeMap::new();
    for one in series {
        let id = one.labels.get("communicator");
        if let Some(value) = value_at(one, answered_ms).filter(|_| !id.is_empty() && id != MPI_COMM_WORLD) {
            of.entry(id).or_default().push((one, value));
        }
    }
    let mut all: Vec<Communicator> = of.iter().map(|(id, series)| communicator(id, series, answered_ms)).collect();
    all.sort_by_key(|one| one.stragglers.is_empty());
    all.truncate(COMMUNICATORS);
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

fn communicator(id: &str, series: &[(&Series, f64)], answered_ms: i64) -> Communicator {
    let mut one = Communicator { id: id.to_owned(), idle_since_ms: answered_ms, ..Communicator::default() };
    let idle = series.iter().find(|(series, _)| series.labels.get("__name__") == IDLE);
    // Values of one answer are sent more than once if it takes longer than the period; each new one has another idle time.
    let answers = idle.map(|(series, _)| answers(series, answered_ms)).unwrap_or_default();
    for (series, value) in series {
        match series.labels.get("__name__") {
            INFO => one.size = series.labels.get("size").parse().ok(),
            RANKS => _ = one.ranks.insert(series.labels.get("state").to_owned(), count(*value)),
            BEHIND => one.behind = count(*value),
            LAG if *value >= 1.0 => {
                one.lags.insert(series.labels.get("operation").to_owned(), count(*value).into());
            }
            IDLE => {
                one.idle_s = value.max(0.0);
                let told_ms = answers.last().copied().unwrap_or(answered_ms);
                one.idle_since_ms = told_ms - (one.idle_s * 1e3).min(1e15) as i64;
            }
            STRAGGLER => one.stragglers.extend(straggler(series, &answers, answered_ms)),
            _ => {}
        }
    }
    one.bound_stragglers();
    one
}

fn count(value: f64) -> u32 {
    value.clamp(0.0, f64::from(u32::MAX)) as u32
}

/// Times at which answers were first told, in order, Unix ms.
fn answers(idle: &Series, answered_ms: i64) -> Vec<i64> {
    let (mut times, mut before) = (Vec::new(), None);
    for (at_ms, value) in idle.times.iter().zip(&idle.values) {
        if *at_ms <= answered_ms + SAME_ANSWER_MS && !is_stale(*value) && before != Some(*value) {
            times.push(*at_ms);
            before = Some(*value);
        }
    }
    times
}

/// A straggler of the answer, with the number of answers since its series began or began anew.
fn straggler(series: &Series, answers: &[i64], answered_ms: i64) -> Option<Straggler> {
    let label = |name: &str| series.labels.get(name).to_owned();
    let before = series.times.iter().zip(&series.values).filter(|(at_ms, _)| **at_ms <= answered_ms);
    let ended_ms = before.rev().find(|(_, value)| !value.is_finite()).map_or(i64::MIN, |(at_ms, _)| *at_ms);
    let since_ms = series.times.iter().find(|at_ms| **at_ms > ended_ms)?;
    let named = answers.iter().filter(|at_ms| **at_ms >= since_ms - SAME_ANSWER_MS).count();
    Some(Straggler {
        rank: label("rank").parse().ok()?,
        rank_host: label("rank_host"),
        host: None,
        pid: label("pid"),
        gpu: label("gpu"),
        reason: StragglerReason::by_label(series.labels.get("reason"))?,
        operation: label("operation"),
        answers: u32::try_from(named.max(1)).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::STRAGGLERS;
    use fabriclens_model::{Labels, Memory, stale};

    const NOW: i64 = 100_000_000;

    fn series(name: &str, host: &str, more: &[(&str, &str)], samples: &[(i64, f64)]) -> Series {
        let own = [("__name__", name), ("host", host), ("job", "7"), ("scheduler", "slurm")];
        let labels = Labels::new(own.into_iter().chain(more.iter().copied()));
        let (times, values) = samples.iter().map(|(ago_s, value)| (NOW - ago_s * 1000, *value)).unzip();
        Series { labels, times, values }
    }

    const C: (&str, &str) = ("communicator", "00000000000000aa");
    const DEAD: [(&str, &str); 6] =
        [C, ("rank", "3"), ("rank_host", "10.0.0.3"), ("pid", "99"), ("gpu", "1"), ("reason", "dead")];

    /// A communicator of four ranks, the third of them dead since two answers.
    fn answered() -> Vec<Series> {
        let each = |values: [f64; 3]| [(70, values[0]), (40, values[1]), (10, values[2])];
        vec![
            series(READABLE, "h1", &[], &each([1.0; 3])),
            series(INFO, "h1", &[C, ("size", "4")], &each([1.0; 3])),
            series(RANKS, "h1", &[C, ("state", "running")], &each([4.0, 3.0, 3.0])),
            series(RANKS, "h1", &[C, ("state", "dead")], &each([0.0, 1.0, 1.0])),
            series(BEHIND, "h1", &[C], &each([0.0; 3])),
            series(IDLE, "h1", &[C], &each([20.5, 50.5, 80.5])),
            series(STRAGGLER, "h1", &DEAD, &[(40, 1.0), (10, 1.0)]),
        ]
    }

    fn read(series: Vec<Series>) -> Vec<JobCollectives> {
        CollectivesReader { read: &Memory(series), at_ms: NOW }.jobs_with_stragglers().unwrap()
    }

    #[test]
    fn newest_answer_of_a_job_is_read() {
        let all = read(answered());
        let [job] = &*all else { panic!("{all:?}") };
        assert_eq!((&*job.job.id, &*job.asked_by, job.answered_ms), ("7", "h1", NOW - 10_000));
        let [one] = &*job.communicators else { panic!("{job:?}") };
        assert_eq!(
            (one.size, one.in_state("running"), one.in_state("dead"), one.in_state("failed")),
            (Some(4), 3, 1, 0)
        );
        assert_eq!((one.idle_s, one.idle_since_ms), (80.5, NOW - 90_500));
        let [rank] = &*one.stragglers else { panic!("{one:?}") };
        assert_eq!((rank.rank, rank.reason, rank.answers), (3, StragglerReason::Dead, 2));
        assert_eq!(rank.process(), "host 10.0.0.3, GPU 1, process 99");
    }

    #[test]
    fn lag_of_the_newest_answer_tells_how_far_ranks_are_behind() {
        let mut all = answered();
        for (operation, newest) in [("AllReduce", 400.0), ("Broadcast", 0.0)] {
            all.push(series(LAG, "h1", &[C, ("operation", operation)], &[(40, 90.0), (10, newest)]));
        }
        let mut one = read(all).remove(0).communicators.remove(0);
        assert_eq!(one.distance("AllReduce").as_deref(), Some("400 AllReduce operations"));
        assert_eq!(one.distance("Broadcast"), None, "all ranks had launched it");
        one.behind = 2;
        assert_eq!(one.distance("AllReduce").as_deref(), Some("up to 400 AllReduce operations"));
    }

    #[test]
    fn what_ended_before_the_newest_answer_is_gone() {
        let mut all = answered();
        let straggler = all.last_mut().unwrap();
        (straggler.times[1], straggler.values[1]) = (NOW - 10_000, stale());
        assert_eq!(read(all), []);
    }

    #[test]
    fn job_that_does_not_answer_is_as_it_was_for_a_while() {
        let silent = |since_s: i64| {
            let mut all = answered();
            for one in &mut all {
                one.times.iter_mut().for_each(|at| *at -= since_s * 1000);
                one.times.push(NOW - since_s * 1000 + 20_000);
                one.values.push(stale());
            }
            all[0].values[3] = 0.0;
            read(all)
        };
        assert_eq!(silent(60).first().map(|job| job.communicators[0].stragglers.len()), Some(1));
        assert_eq!(silent(180), []);
    }

    #[test]
    fn host_with_the_newest_answer_counts_and_jobs_are_told_apart() {
        let mut all = answered();
        all.push(series(READABLE, "h2", &[], &[(5, 1.0)]));
        assert_eq!(read(all), [], "another host asks by now, and tells of no straggler");
        let mut all = answered();
        all.push(series(STRAGGLER, "h1", &[("cluster", "b"), C, ("rank", "1"), ("reason", "dead")], &[(10, 1.0)]));
        assert_eq!(read(all).len(), 1, "a job of another cluster without an answer");
    }

    #[test]
    fn answers_told_twice_count_once_and_a_rank_that_came_back_begins_anew() {
        let mut all = answered();
        all[5].values = vec![20.5, 80.5, 80.5];
        assert_eq!(read(all)[0].communicators[0].stragglers[0].answers, 1);
        let mut all = answered();
        *all.last_mut().unwrap() = series(STRAGGLER, "h1", &DEAD, &[(70, 1.0), (40, stale()), (10, 1.0)]);
        assert_eq!(read(all)[0].communicators[0].stragglers[0].answers, 1);
    }

    #[test]
    fn what_is_read_is_bounded_and_unknown_reasons_are_left_out() {
        let mut all = answered();
        for rank in 0..50 {
            let rank = rank.to_string();
            all.push(series(STRAGGLER, "h1", &[C, ("rank", &rank), ("reason", "failed")], &[(10, 1.0)]));
        }
        all.push(series(STRAGGLER, "h1", &[C, ("rank", "77"), ("reason", "of_a_newer_agent")], &[(10, 1.0)]));
        for at in 0..200 {
            all.push(series(IDLE, "h1", &[("communicator", &format!("{at:016x}"))], &[(10, 1.0)]));
        }
        let job = &read(all)[0];
        assert_eq!(job.communicators.len(), COMMUNICATORS);
        let named = job.communicators.iter().find(|one| one.id == C.1).unwrap();
        assert_eq!(named.stragglers.len(), STRAGGLERS);
    }
}
