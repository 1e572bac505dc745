//! Which jobs share a host or device. This decides whether a value of a port belongs to one job. The writer of job
//! series uses it for running jobs, a report for the jobs of its time.

use crate::disagreements::TOLERANCE_NS;
use crate::view::Job;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How certainly a value belongs to one job.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The measured device served this job alone.
    Exclusive,
    /// Counted for the job's own processes (control group, queue pairs), regardless of other jobs.
    PerProcess,
    /// Several jobs shared the device; the value is their sum.
    Shared,
}

impl Attribution {
    /// Name in labels and JSON.
    pub fn text(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::PerProcess => "per_process",
            Self::Shared => "shared",
        }
    }
}

/// A job's allocation on a host.
struct Tenant<'a> {
    job: usize,
    /// Empty: all devices of the host.
    devices: &'a [String],
}

/// Allocations of a list of jobs. A job is identified by its index in the list.
pub struct Occupancy<'a>(HashMap<&'a str, Vec<Tenant<'a>>>);

impl<'a> Occupancy<'a> {
    /// All jobs must have run at the same time.
    pub fn new(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let mut hosts: HashMap<&str, Vec<Tenant<'_>>> = HashMap::new();
        for (job, view) in jobs.into_iter().enumerate() {
            for (host, allocation) in &view.hosts {
                hosts.entry(host).or_default().push(Tenant { job, devices: &allocation.devices });
            }
        }
        Self(hosts)
    }

    /// Jobs with any allocation on a host.
    pub fn on_host(&self, host: &str) -> impl Iterator<Item = usize> {
        self.0.get(host).into_iter().flatten().map(|t| t.job)
    }

    /// Jobs with this device of a host.
    pub fn on_device(&self, host: &str, device: &str) -> impl Iterator<Item = usize> {
        let has = move |t: &&Tenant<'_>| t.devices.is_empty() || t.devices.iter().any(|d| d == device);
        self.0.get(host).into_iter().flatten().filter(has).map(|t| t.job)
    }

    /// Attribution of a device's values.
    pub fn device(&self, host: &str, device: &str) -> Attribution {
        attribution(self.on_device(host, device))
    }

    /// Attribution of values of a whole host.
    pub fn host(&self, host: &str) -> Attribution {
        attribution(self.on_host(host))
    }

    /// Attribution of a job's allocation on a host: exclusive if no other job has any of its devices.
    pub fn allocation(&self, job: usize, host: &str) -> Attribution {
        let own = self.0.get(host).into_iter().flatten().find(|t| t.job == job);
        let Some(own) = own else { return Attribution::Shared };
        match own.devices {
            [] => self.host(host),
            devices if devices.iter().all(|d| self.device(host, d) == Attribution::Exclusive) => Attribution::Exclusive,
            _ => Attribution::Shared,
        }
    }
}

fn attribution(mut jobs: impl Iterator<Item = usize>) -> Attribution {
    jobs.next();
    if jobs.next().is_none() { Attribution::Exclusive } else { Attribution::Shared }
}

/// Time that two runs overlapped, ns; 0 for an overlap within the rounding of their times. `now_ns` is the end of a
/// running job.
pub fn overlap_ns(a: &Job, b: &Job, now_ns: i64) -> i64 {
    let end = a.end_ns.unwrap_or(now_ns).min(b.end_ns.unwrap_or(now_ns));
    match end.saturating_sub(a.start_ns.max(b.start_ns)) {
        // Schedulers report whole seconds, and the next job begins as one ends.
        short if short < TOLERANCE_NS => 0,
        long => long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostAllocation, JobKey, JobRecord, Source};

    fn job(id: &str, span: (i64, Option<i64>), hosts: &[(&str, &[&str])]) -> Job {
        let place = |devices: &[&str]| HostAllocation {
            devices: devices.iter().map(|d| (*d).to_owned()).collect(),
            pids: vec![],
        };
        let record = JobRecord {
            start_ns: Some(span.0),
            end_ns: span.1,
            hosts: hosts.iter().map(|(h, d)| ((*h).to_owned(), place(d))).collect(),
            ..JobRecord::default()
        };
        Job::from_records(&JobKey { cluster: String::new(), id: id.into() }, 1, &[(Source::Http, record)].into())
    }

    #[test]
    fn unshared_device_is_exclusive() {
        let jobs = [
            job("1", (0, None), &[("a", &["mlx5_0"]), ("b", &[])]),
            job("2", (0, None), &[("a", &["mlx5_1", "mlx5_2"])]),
            job("3", (0, None), &[("a", &["mlx5_2"]), ("c", &[])]),
        ];
        let on = Occupancy::new(&jobs);
        assert_eq!([on.device("a", "mlx5_0"), on.device("a", "mlx5_1")], [Attribution::Exclusive; 2]);
        assert_eq!([on.device("a", "mlx5_2"), on.host("a")], [Attribution::Shared; 2]);
        assert_eq!([on.host("b"), on.device("c", "any"), on.host("nobody")], [Attribution::Exclusive; 3]);
        assert_eq!(on.on_device("a", "mlx5_2").collect::<Vec<_>>(), [1, 2]);
        assert_eq!(on.on_device("a", "mlx5_9").count(), 0);
        assert_eq!(
            [on.allocation(0, "a"), on.allocation(1, "a"), on.allocation(2, "c")],
            [Attribution::Exclusive, Attribution::Shared, Attribution::Exclusive]
        );
    }

    #[test]
    fn consecutive_jobs_do_not_overlap() {
        let s = 1_000_000_000;
        let (a, b) = (job("1", (0, Some(100 * s)), &[]), job("2", (99 * s, None), &[]));
        assert_eq!(overlap_ns(&a, &b, 200 * s), 0);
        assert_eq!(overlap_ns(&job("3", (50 * s, None), &[]), &b, 200 * s), 101 * s);
    }
}
