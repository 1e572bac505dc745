//! Detects the end of jobs that only agents report: the job's processes are gone from all of its hosts, and the agents'
//! samples show that they looked. A silent agent proves nothing.

use crate::SECOND;
use crate::record::{JobKey, Source};
use crate::registry::Registry;
use crate::sighting::{OpenRun, SeenJob, Sighting};
use std::collections::{BTreeMap, HashMap};

/// Time that an agent must scan without finding a process before the process counts as gone.
const GONE_NS: i64 = 30 * SECOND;
/// Number of a process's own sampling gaps that must pass before it counts as gone.
const MISSED_GAPS: i64 = 3;
/// Time without any scan after which an agent counts as silent.
const SILENT_NS: i64 = 300 * SECOND;
/// Time after which a job ends although all of its agents are silent.
const LOST_NS: i64 = 86_400 * SECOND;

/// Result of scanning the samples of all agents.
#[derive(Clone, Debug, Default)]
pub struct AgentScan {
    /// Jobs, one entry per job and host.
    pub sightings: Vec<Sighting>,
    /// Times at which the agent of each host scanned for processes, ascending, Unix nanoseconds.
    pub scans: HashMap<String, Vec<i64>>,
}

/// Last sighting of a job on a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastSeen {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// Longest time between two samples, nanoseconds.
    pub gap_ns: i64,
}

/// Knows when each job was last seen on each host.
#[derive(Default)]
pub struct EndDetector {
    last: HashMap<JobKey, BTreeMap<String, LastSeen>>,
}

/// Whether a sighting that matches no known job is a job.
pub type Standalone<'a> = &'a dyn Fn(&SeenJob) -> bool;
/// Last sightings of a run on its hosts, from samples older than the scan.
pub type SeenBefore<'a> = &'a dyn Fn(&OpenRun) -> BTreeMap<String, LastSeen>;

impl EndDetector {
    /// Adds a scan to the registry and ends the runs that are over. Returns whether anything changed.
    pub fn update(
        &mut self,
        registry: &Registry,
        scan: &AgentScan,
        now_ns: i64,
        standalone: Standalone<'_>,
        before: SeenBefore<'_>,
    ) -> bool {
        let mut changed = false;
        let known: Vec<OpenRun> = registry.open_runs(now_ns);
        let keys = registry.observe(&scan.sightings, standalone);
        for (key, Sighting { seen, gap_ns }) in keys.into_iter().zip(&scan.sightings) {
            let Some(key) = key else { continue };
            let hosts = self.last.entry(key).or_default();
            for host in seen.hosts.keys() {
                let last = hosts.entry(host.clone()).or_default();
                last.at_ns = last.at_ns.max(seen.last_ns);
                last.gap_ns = last.gap_ns.max(*gap_ns);
            }
        }
        let open = registry.open_runs(now_ns);
        changed |= known != open;
        self.last.retain(|key, _| open.binary_search_by(|o| o.key.cmp(key)).is_ok());
        for job in open {
            let last = self.last.entry(job.key.clone()).or_insert_with(|| before(&job));
            // Of a host from before the start of this process, only the start of the job may be known.
            for host in &job.hosts {
                last.entry(host.clone()).or_insert(LastSeen { at_ns: job.start_ns, gap_ns: 0 });
            }
            if let Some(end) = end_time(last, &scan.scans, now_ns) {
                changed = true;
                let begin = registry.get(&job.key).map_or(job.start_ns, |j| j.start_ns);
                if let Err(error) = registry.end(Source::Agent, &job.key, end.max(begin)) {
                    tracing::warn!(%error, "cannot store the end of a job that agents saw");
                }
            }
        }
        changed
    }
}

/// End of the job, Unix nanoseconds; `None` if it may still run.
fn end_time(hosts: &BTreeMap<String, LastSeen>, scans: &HashMap<String, Vec<i64>>, now_ns: i64) -> Option<i64> {
    let last = hosts.values().map(|l| l.at_ns).max()?;
    let (mut gone, mut silent) = (false, true);
    for (host, seen) in hosts {
        let scans = scans.get(host).map_or(&[][..], Vec::as_slice);
        let after = &scans[scans.partition_point(|at| *at <= seen.at_ns)..];
        // Several scans must span the time: an agent that has just started may not have scanned the processes yet.
        let span = after.last().zip(after.first()).map_or(0, |(last, first)| last - first);
        if span >= GONE_NS.max(MISSED_GAPS * seen.gap_ns) {
            gone = true;
        } else if now_ns - scans.last().copied().unwrap_or(0).max(seen.at_ns) < SILENT_NS {
            return None;
        } else {
            silent &= now_ns - seen.at_ns >= LOST_NS;
        }
    }
    (gone || silent).then_some(last)
}
