//! Who has which host and which device: what decides whether a number of a port is a job's own. The writer of the
//! jobs' series asks it of those that run now, a report of those that ran at the same time.

use crate::differ::SAME_NS;
use crate::view::Job;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How surely a number is one job's.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// What was measured served this job alone.
    Exclusive,
    /// Counted for the job's own processes (control group, queue pairs), whoever else was there.
    PerProcess,
    /// Several jobs had it: the number is theirs together.
    Shared,
}

impl Grade {
    /// As in labels and in JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::PerProcess => "per_process",
            Self::Shared => "shared",
        }
    }
}

/// A job on a host, and what it has of it.
struct Tenant<'a> {
    job: usize,
    /// Empty: all of the host.
    devices: &'a [String],
}

/// Of a list of jobs; each is named by its place in that list.
pub struct Occupancy<'a>(HashMap<&'a str, Vec<Tenant<'a>>>);

impl<'a> Occupancy<'a> {
    /// Who has what, all of these at one time.
    pub fn of(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let mut hosts: HashMap<&str, Vec<Tenant<'_>>> = HashMap::new();
        for (job, view) in jobs.into_iter().enumerate() {
            for (host, place) in &view.hosts {
                hosts.entry(host).or_default().push(Tenant { job, devices: &place.devices });
            }
        }
        Self(hosts)
    }

    /// The jobs that have a host, whatever they have of it.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = usize> {
        self.0.get(host).into_iter().flatten().map(|t| t.job)
    }

    /// The jobs that have a device of a host.
    pub fn on_device(&self, host: &str, device: &str) -> impl Iterator<Item = usize> {
        let has = move |t: &&Tenant<'_>| t.devices.is_empty() || t.devices.iter().any(|d| d == device);
        self.0.get(host).into_iter().flatten().filter(has).map(|t| t.job)
    }

    /// Of what is measured of a device.
    pub fn device(&self, host: &str, device: &str) -> Grade {
        grade(self.on_device(host, device))
    }

    /// Of what is measured of a host as a whole.
    pub fn host(&self, host: &str) -> Grade {
        grade(self.on_host(host))
    }

    /// Of what a job has of a host: all its devices alone, or not.
    pub fn place(&self, job: usize, host: &str) -> Grade {
        let own = self.0.get(host).into_iter().flatten().find(|t| t.job == job);
        let Some(own) = own else { return Grade::Shared };
        match own.devices {
            [] => self.host(host),
            devices if devices.iter().all(|d| self.device(host, d) == Grade::Exclusive) => Grade::Exclusive,
            _ => Grade::Shared,
        }
    }
}

fn grade(mut jobs: impl Iterator<Item = usize>) -> Grade {
    jobs.next();
    if jobs.next().is_none() { Grade::Exclusive } else { Grade::Shared }
}

/// For how long two runs went on at the same time, ns; 0 for what is only the rounding of their times. `now_ns` stands
/// for the end of what still runs.
pub fn overlap_ns(a: &Job, b: &Job, now_ns: i64) -> i64 {
    let end = a.end_ns.unwrap_or(now_ns).min(b.end_ns.unwrap_or(now_ns));
    match end.saturating_sub(a.start_ns.max(b.start_ns)) {
        // Schedulers tell whole seconds, and the next begins as one ends.
        short if short < SAME_NS => 0,
        long => long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, Key, Place, Source};

    fn job(id: &str, span: (i64, Option<i64>), hosts: &[(&str, &[&str])]) -> Job {
        let place =
            |devices: &[&str]| Place { devices: devices.iter().map(|d| (*d).to_owned()).collect(), pids: vec![] };
        let facts = Facts {
            start_ns: Some(span.0),
            end_ns: span.1,
            hosts: hosts.iter().map(|(h, d)| ((*h).to_owned(), place(d))).collect(),
            ..Facts::default()
        };
        Job::of(&Key { cluster: String::new(), id: id.into() }, 1, &[(Source::Http, facts)].into())
    }

    #[test]
    fn a_device_is_one_jobs_when_no_other_has_it() {
        let jobs = [
            job("1", (0, None), &[("a", &["mlx5_0"]), ("b", &[])]),
            job("2", (0, None), &[("a", &["mlx5_1", "mlx5_2"])]),
            job("3", (0, None), &[("a", &["mlx5_2"]), ("c", &[])]),
        ];
        let on = Occupancy::of(&jobs);
        assert_eq!([on.device("a", "mlx5_0"), on.device("a", "mlx5_1")], [Grade::Exclusive; 2]);
        assert_eq!([on.device("a", "mlx5_2"), on.host("a")], [Grade::Shared; 2]);
        assert_eq!([on.host("b"), on.device("c", "any"), on.host("nobody")], [Grade::Exclusive; 3]);
        assert_eq!(on.on_device("a", "mlx5_2").collect::<Vec<_>>(), [1, 2]);
        assert_eq!(on.on_device("a", "mlx5_9").count(), 0);
        assert_eq!(
            [on.place(0, "a"), on.place(1, "a"), on.place(2, "c")],
            [Grade::Exclusive, Grade::Shared, Grade::Exclusive]
        );
    }

    #[test]
    fn one_job_after_another_did_not_share() {
        let s = 1_000_000_000;
        let (a, b) = (job("1", (0, Some(100 * s)), &[]), job("2", (99 * s, None), &[]));
        assert_eq!(overlap_ns(&a, &b, 200 * s), 0);
        assert_eq!(overlap_ns(&job("3", (50 * s, None), &[]), &b, 200 * s), 101 * s);
    }
}
