//! Running jobs that open incidents touch, as agents learn them with the answers to their samples.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_base::host_name;
use fabriclens_wire::troubled_jobs::encode;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// A job in trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubledJob {
    /// All its names.
    pub names: Vec<String>,
    /// Its hosts.
    pub hosts: Vec<String>,
}

/// See the module. Clones share one table.
#[derive(Clone, Default)]
pub struct TroubledJobs(Arc<RwLock<Table>>);

/// The jobs, and values of the header: for those who speak for any host, and by host.
#[derive(Default)]
struct Table {
    jobs: Arc<[TroubledJob]>,
    all: Option<Arc<str>>,
    by_host: HashMap<String, Arc<str>>,
}

impl TroubledJobs {
    /// Replaces all jobs.
    pub fn set(&self, jobs: &[TroubledJob]) {
        let header = |jobs: &[&TroubledJob]| -> Option<Arc<str>> {
            encode(jobs.iter().flat_map(|job| &job.names).map(String::as_str)).map(Into::into)
        };
        let mut of_host: HashMap<String, Vec<&TroubledJob>> = HashMap::new();
        for job in jobs {
            for host in &job.hosts {
                of_host.entry(host_name::key(host)).or_default().push(job);
            }
        }
        let by_host = of_host.into_iter().filter_map(|(host, jobs)| Some((host, header(&jobs)?))).collect();
        *self.0.write() = Table { jobs: jobs.into(), all: header(&jobs.iter().collect::<Vec<_>>()), by_host };
    }

    /// All jobs.
    pub fn all(&self) -> Arc<[TroubledJob]> {
        self.0.read().jobs.clone()
    }

    /// The header for a sender that may speak for any host.
    pub fn of_all(&self) -> Option<Arc<str>> {
        self.0.read().all.clone()
    }

    /// The header for a host that goes by these names.
    pub fn of_host(&self, names: &[String]) -> Option<Arc<str>> {
        let table = self.0.read();
        // Names need no work while no job is in trouble.
        table.all.as_ref()?;
        names.iter().find_map(|name| table.by_host.get(&host_name::key(name)).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_learns_of_its_own_jobs_only() {
        let jobs = TroubledJobs::default();
        let host = |name: &str| jobs.of_host(&[name.to_owned()]).map(|header| header.to_string());
        assert_eq!((jobs.of_all(), host("a")), (None, None));
        let job = |names: &[&str], hosts: &[&str]| TroubledJob {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        };
        jobs.set(&[job(&["7", "train 7"], &["a", "B"]), job(&["8"], &["b"])]);
        assert_eq!((host("A"), host("b"), host("c")), (Some("7,train%207".into()), Some("7,train%207,8".into()), None));
        assert_eq!(jobs.of_all().as_deref(), Some("7,train%207,8"));
        jobs.set(&[]);
        assert_eq!((jobs.of_all(), host("a")), (None, None));
    }
}
