//! Jobs on this host and their processes, from cgroups and environments ([`fabriclens_agent_workload`]), to attribute
//! traffic to jobs. Sampled each second, to see jobs begin and end.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_workload::details::JobDetailsCache;
use fabriclens_agent_workload::mounts::{Hierarchy, hierarchies};
use fabriclens_agent_workload::scan::Scan;
use fabriclens_agent_workload::tree::{Budget, Tree};
use fabriclens_agent_workload::{Jobs, Key};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::job::{JOB_GROUPS_OMITTED, JOB_PROCESSES};
use fabriclens_wire::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "workload",
    source: CounterSource::Other,
    period: Period::Full,
    default: true,
    needs: "CAP_SYS_PTRACE for what only the environment of a job's processes tells",
    applies: SamplingTarget::is_host,
    open,
};

/// Limit of series per host, one per group of a job.
const MOST: usize = 1024;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let hierarchies = hierarchies(&target.roots);
    let scan = Scan::new(target.roots.proc());
    if hierarchies.is_empty() && !scan.is_possible() {
        // Other samplers must not wait for jobs that are never found.
        target.jobs.close();
        return Err(SampleError::Absent("no cgroups are mounted and no processes are visible".into()));
    }
    let (unified, legacy): (Vec<Hierarchy>, Vec<Hierarchy>) = hierarchies.into_iter().partition(|h| h.unified);
    Ok(Box::new(Workload {
        unified: unified.into_iter().next().map(Tree::new),
        legacy: None,
        candidates: legacy,
        turn: 0,
        scan,
        details_cache: JobDetailsCache::new(&target.roots),
        jobs: Arc::clone(&target.jobs),
        first: true,
    }))
}

struct Workload {
    unified: Option<Tree>,
    /// One hierarchy of version 1: a scheduler may put its jobs into several.
    legacy: Option<Tree>,
    candidates: Vec<Hierarchy>,
    turn: usize,
    scan: Scan,
    details_cache: JobDetailsCache,
    jobs: Arc<Jobs>,
    first: bool,
}

/// Looks between two attempts with another hierarchy of version 1.
const TURN: usize = 30;

impl Sampler for Workload {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let budget = if self.first { Budget::FIRST } else { Budget::NEXT };
        self.choose();
        let mut left_out = 0;
        let mut renewed = HashSet::new();
        for tree in [&mut self.unified, &mut self.legacy].into_iter().flatten() {
            tree.look(budget, &mut |key, uid, pids| self.details_cache.see(key, uid, pids));
            left_out += tree.left_out();
            renewed.extend(tree.renewed().iter().cloned());
        }
        self.scan.look();
        let groups = self.groups();
        let mut by_process: BTreeMap<Key, u64> = BTreeMap::new();
        let mut processes = HashMap::new();
        for (pid, job) in self.scan.found() {
            let key = Key::new(job.scheduler, &job.job);
            self.details_cache.found_in_environment(&key, job.clone(), *pid);
            *by_process.entry(key.clone()).or_default() += 1;
            processes.insert(*pid, key);
        }
        let present: HashSet<Key> = groups.keys().map(|(key, _)| key).chain(by_process.keys()).cloned().collect();
        self.details_cache.settle(&present);
        if self.first {
            self.details_cache.believe();
        }
        self.first = false;
        let by_inode = self.unified.iter().flat_map(Tree::inodes).filter(|(_, key, _)| !renewed.contains(*key));
        let by_inode = by_inode.map(|(inode, key, _)| (inode, key.clone())).collect();
        self.jobs.tell(self.details_cache.clusters(), processes, by_inode);
        let nowhere: Arc<str> = Arc::from("");
        let by_process = by_process.into_iter().map(|(key, count)| ((key, Arc::clone(&nowhere)), count));
        let mut room = MOST;
        for ((key, group), count) in groups.into_iter().chain(by_process).filter(|(_, count)| *count > 0) {
            // The series of a replaced job of the same name end first.
            let details = self.details_cache.details(&key).filter(|_| !renewed.contains(&key));
            let Some(details) = details else { continue };
            if room == 0 {
                left_out += 1;
                continue;
            }
            room -= 1;
            let labels = [
                ("cgroup", &*group),
                ("cluster", &details.cluster),
                ("job", &key.job),
                ("scheduler", key.scheduler),
                ("task", &details.task),
                ("user", &details.user),
            ];
            out.fact(&JOB_PROCESSES, &labels, Value::Int(count));
        }
        out.fact(&JOB_GROUPS_OMITTED, &[], Value::Int(left_out as u64));
        out.note = self.note();
        Ok(())
    }
}

impl Workload {
    /// Selects the first version 1 hierarchy with jobs; tries them in turn while there is none.
    fn choose(&mut self) {
        if self.candidates.is_empty() || self.legacy.as_ref().is_some_and(Tree::has_places) {
            return;
        }
        if self.first {
            let opened = self.candidates.iter().map(|h| {
                let mut tree = Tree::new(h.clone());
                tree.look(Budget::FIRST, &mut |_, _, _| {});
                tree
            });
            // Opened again, so that the first look sees its processes.
            let place = opened.into_iter().position(|tree| tree.has_places());
            self.turn = place.unwrap_or(0) * TURN;
        } else {
            self.turn += 1;
            if !self.turn.is_multiple_of(TURN) {
                return;
            }
        }
        let hierarchy = &self.candidates[self.turn / TURN % self.candidates.len()];
        self.legacy = Some(Tree::new(hierarchy.clone()));
    }

    /// Processes by job and group; the path of a version 1 group is not exported.
    fn groups(&self) -> BTreeMap<(Key, Arc<str>), u64> {
        let mut all: BTreeMap<(Key, Arc<str>), u64> = BTreeMap::new();
        if let Some(tree) = &self.unified {
            for (key, _, path, count) in tree.groups().filter(|(.., count)| *count > 0) {
                all.insert((key.clone(), Arc::clone(path)), count);
            }
        }
        let known: HashSet<Key> = all.keys().map(|(key, _)| key.clone()).collect();
        let nowhere: Arc<str> = Arc::from("");
        for (key, _, _, count) in self.legacy.iter().flat_map(Tree::groups).filter(|(key, ..)| !known.contains(key)) {
            *all.entry((key.clone(), Arc::clone(&nowhere))).or_default() += count;
        }
        all
    }

    /// Note on the cost of the sampler, for `doctor`.
    fn note(&self) -> String {
        let trees = [&self.unified, &self.legacy].into_iter().flatten().filter(|tree| tree.has_places()).count();
        let groups = match trees {
            0 => "no control groups of jobs",
            _ => "control groups of jobs each second",
        };
        let scan = match self.scan.daemon() {
            Some(_) => format!("{} processes looked at by environment, new ones each 15 s", self.scan.looked),
            None => "environments only of one process a job".to_owned(),
        };
        format!("{groups}; {scan}")
    }
}
