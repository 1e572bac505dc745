//! Tracks the cgroups of jobs in one hierarchy incrementally.
//!
//! No look walks the whole tree. A slow sweep finds the parent directories of jobs; each look lists those, so that a
//! job that begins or ends is seen by the next look, also a new job with the path and id of an old one: its directory
//! has another inode. Directories within a job are compared by inode, number of subdirectories and change time, some
//! at each look; processes are counted in turn, new groups first.

use crate::cgroup::{leads_to_jobs, of_path};
use crate::jobs::Key;
use crate::mounts::Hierarchy;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::ops::Bound;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two sweeps.
const SWEEP: Duration = Duration::from_secs(30);
/// Depth of a sweep.
const DEPTH: usize = 8;
/// Limit of directories waiting in a sweep.
const WAITING: usize = 8192;
/// Limit of tracked groups; further ones are left out and counted.
const MOST: usize = 4096;
/// Size limit of a list of processes: about 100,000.
const PROCESSES: u64 = 1 << 20;

/// Callback that gets a job, its user if the path contains it, and process ids.
pub type GroupVisitor<'a> = &'a mut dyn FnMut(&Key, Option<u32>, &[u32]);

/// Work limits of one look, in addition to listing the parent directories of jobs.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Directories of a sweep.
    pub sweep: usize,
    /// Groups compared with the previous look.
    pub compare: usize,
    /// Groups whose processes are counted again.
    pub count: usize,
}

impl Budget {
    /// First look: everything.
    pub const FIRST: Self = Self { sweep: WAITING, compare: 0, count: 0 };
    /// Each later look.
    pub const NEXT: Self = Self { sweep: 32, compare: 64, count: 16 };
}

/// State of a directory: a new one of the same name has another inode; subdirectories change the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    links: u64,
    changed: (i64, i64),
}

#[derive(Debug)]
struct Group {
    stamp: Option<Stamp>,
    key: Key,
    uid: Option<u32>,
    /// `None` until they are counted.
    processes: Option<u64>,
}

/// Cgroups of jobs in one hierarchy.
#[derive(Debug)]
pub struct Tree {
    hierarchy: Hierarchy,
    /// Parent directories of jobs, with the inodes of their jobs.
    places: BTreeMap<Arc<str>, HashMap<Arc<str>, u64>>,
    groups: BTreeMap<Arc<str>, Group>,
    sweep: VecDeque<(String, usize)>,
    swept: Option<Instant>,
    compared: Arc<str>,
    counted: Arc<str>,
    renewed: HashSet<Key>,
    left_out: usize,
}

impl Tree {
    /// Creates an empty tree without reading anything.
    pub fn new(hierarchy: Hierarchy) -> Self {
        let nothing: Arc<str> = Arc::from("");
        Self {
            hierarchy,
            places: BTreeMap::new(),
            groups: BTreeMap::new(),
            sweep: VecDeque::new(),
            swept: None,
            compared: Arc::clone(&nothing),
            counted: nothing,
            renewed: HashSet::new(),
            left_out: 0,
        }
    }

    /// Whether a parent directory of jobs exists.
    pub fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Number of groups beyond the limit.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Jobs that were replaced by another one of the same name since the last look.
    pub fn renewed(&self) -> &HashSet<Key> {
        &self.renewed
    }

    /// Counted groups: job, user if the path contains it, path, and number of processes directly in the group.
    pub fn groups(&self) -> impl Iterator<Item = (&Key, Option<u32>, &Arc<str>, u64)> {
        self.groups.iter().filter_map(|(path, g)| Some((&g.key, g.uid, path, g.processes?)))
    }

    /// Groups of version 2 by the inode of their directory, which is the kernel's cgroup id: job and path.
    pub fn inodes(&self) -> impl Iterator<Item = (u64, &Key, &Arc<str>)> {
        let groups = self.groups.iter().filter(|_| self.hierarchy.unified);
        groups.filter_map(|(path, g)| Some((g.stamp?.inode, &g.key, path)))
    }

    /// Updates the tree. `see` gets the processes of each group that was counted.
    pub fn look(&mut self, budget: Budget, see: GroupVisitor<'_>) {
        self.renewed.clear();
        self.left_out = 0;
        self.sweep(budget.sweep);
        self.list_places();
        self.compare(budget.compare);
        self.count(budget.count, see);
    }

    fn dir(&self, path: &str) -> PathBuf {
        self.hierarchy.mount.join(path.trim_start_matches('/'))
    }

    /// Subdirectories and their inodes; `None` if the directory is gone.
    fn list(&self, path: &str) -> Option<Vec<(String, u64)>> {
        let entries = std::fs::read_dir(self.dir(path)).ok()?.flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let named =
            dirs.filter_map(|e| Some((format!("{}/{}", path.trim_end_matches('/'), e.file_name().to_str()?), e.ino())));
        Some(named.collect())
    }

    fn sweep(&mut self, budget: usize) {
        if self.sweep.is_empty() && self.swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            self.swept = Some(Instant::now());
            self.sweep.push_back(("/".to_owned(), 0));
        }
        for _ in 0..budget {
            let Some((dir, depth)) = self.sweep.pop_front() else { break };
            for (path, _) in self.list(&dir).unwrap_or_default() {
                if of_path(&path).is_some() {
                    self.places.entry(Arc::from(dir.as_str())).or_default();
                    continue;
                }
                if leads_to_jobs(&path) {
                    self.places.entry(Arc::from(path.as_str())).or_default();
                }
                if depth < DEPTH && self.sweep.len() < WAITING {
                    self.sweep.push_back((path, depth + 1));
                }
            }
        }
    }

    fn list_places(&mut self) {
        let mut waiting: Vec<Arc<str>> = self.places.keys().cloned().collect();
        while let Some(place) = waiting.pop() {
            let Some(found) = self.list(&place) else {
                for (path, _) in self.places.remove(&place).unwrap_or_default() {
                    self.remove(&path);
                }
                continue;
            };
            let had = self.places.remove(&place).unwrap_or_default();
            let mut has = HashMap::with_capacity(found.len());
            for (path, inode) in found {
                // Most are unchanged.
                if let Some((path, _)) = had.get_key_value(&*path).filter(|(_, before)| **before == inode)
                    && self.groups.contains_key(path)
                {
                    has.insert(Arc::clone(path), inode);
                } else if of_path(&path).is_some() {
                    let path: Arc<str> = Arc::from(path);
                    if had.get(&path).is_some_and(|before| *before != inode) {
                        self.renewed.extend(self.groups.get(&path).map(|group| group.key.clone()));
                        self.remove(&path);
                    }
                    if !self.groups.contains_key(&path) {
                        self.add(&path);
                    }
                    has.insert(path, inode);
                } else if leads_to_jobs(&path) && !self.places.contains_key(path.as_str()) {
                    let path: Arc<str> = Arc::from(path);
                    self.places.insert(Arc::clone(&path), HashMap::new());
                    waiting.push(path);
                }
            }
            for path in had.keys().filter(|path| !has.contains_key(*path)) {
                self.remove(path);
            }
            self.places.insert(place, has);
        }
    }

    /// Adds a group and its descendants.
    fn add(&mut self, path: &str) {
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let Some(place) = of_path(&path) else { continue };
            if self.groups.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            let group = Group {
                stamp: self.stamp(&path),
                key: Key::new(place.scheduler, &place.job),
                uid: place.uid,
                processes: None,
            };
            waiting.extend(self.list(&path).unwrap_or_default().into_iter().map(|(path, _)| path));
            self.groups.insert(Arc::from(path), group);
        }
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        let meta = std::fs::metadata(self.dir(path)).ok()?;
        Some(Stamp { inode: meta.ino(), links: meta.nlink(), changed: (meta.mtime(), meta.mtime_nsec()) })
    }

    /// Removes a group and its descendants.
    fn remove(&mut self, path: &str) {
        self.groups.remove(path);
        let below = format!("{path}/");
        let gone: Vec<Arc<str>> = self.from(&below).take_while(|p| p.starts_with(&below)).cloned().collect();
        for path in gone {
            self.groups.remove(&path);
        }
    }

    fn from(&self, path: &str) -> impl Iterator<Item = &Arc<str>> {
        self.groups.range::<str, _>((Bound::Excluded(path), Bound::Unbounded)).map(|(path, _)| path)
    }

    /// The next `most` groups after this path, wrapping around at the end.
    fn next(&self, after: &str, most: usize) -> Vec<Arc<str>> {
        let most = most.min(self.groups.len());
        self.from(after).chain(self.groups.keys()).take(most).cloned().collect()
    }

    fn compare(&mut self, budget: usize) {
        for path in self.next(&self.compared, budget) {
            self.compared = Arc::clone(&path);
            let (had, has) = (self.groups.get(&path).and_then(|group| group.stamp), self.stamp(&path));
            if !self.groups.contains_key(&path) {
                continue;
            }
            if had == has && has.is_some() {
                continue;
            }
            if has.is_none() || had.map(|s| s.inode) != has.map(|s| s.inode) {
                self.remove(&path);
                if has.is_some() {
                    self.add(&path);
                }
                continue;
            }
            let found: BTreeSet<String> =
                self.list(&path).unwrap_or_default().into_iter().map(|(path, _)| path).collect();
            let below = format!("{path}/");
            let direct = |p: &&Arc<str>| !p[below.len()..].contains('/');
            let known: Vec<Arc<str>> =
                self.from(&below).take_while(|p| p.starts_with(&below)).filter(direct).cloned().collect();
            known.iter().filter(|path| !found.contains(&***path)).for_each(|path| self.remove(path));
            found.iter().filter(|path| !known.iter().any(|k| **k == ***path)).for_each(|path| self.add(path));
            if let Some(group) = self.groups.get_mut(&path) {
                group.stamp = has;
            }
        }
    }

    fn count(&mut self, budget: usize, see: GroupVisitor<'_>) {
        let new = self.groups.iter().filter(|(_, group)| group.processes.is_none()).map(|(path, _)| Arc::clone(path));
        let new: Vec<Arc<str>> = new.collect();
        // An empty group of a new job gets processes soon.
        let empty = self.groups.iter().filter(|(_, g)| g.processes == Some(0)).map(|(path, _)| path).take(budget);
        let turn = self.next(&self.counted, budget);
        let again: Vec<Arc<str>> = empty.cloned().chain(turn.iter().cloned()).collect();
        for path in new.into_iter().chain(again) {
            let pids = processes(&self.dir(&path));
            let Some(group) = self.groups.get_mut(&path) else { continue };
            group.processes = Some(pids.len() as u64);
            see(&group.key, group.uid, &pids);
        }
        if let Some(last) = turn.last() {
            self.counted = Arc::clone(last);
        }
    }

    /// Parent directories of jobs.
    pub fn places(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.keys()
    }

    /// Processes directly in a group, read now.
    pub fn processes(&self, path: &str) -> Vec<u32> {
        processes(&self.dir(path))
    }
}

/// Processes directly in a group; empty if it is being removed.
fn processes(dir: &std::path::Path) -> Vec<u32> {
    let mut text = String::new();
    let file = dir.join("cgroup.procs");
    // In a recording the path may be any type of file.
    if std::fs::metadata(&file).is_ok_and(|meta| meta.is_file()) {
        let read = File::open(&file).and_then(|file| file.take(PROCESSES).read_to_string(&mut text));
        if read.is_err() {
            text.clear();
        }
    }
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> (Self, Tree) {
            let host = Self(tempfile::tempdir().unwrap());
            let tree = Tree::new(Hierarchy { mount: host.0.path().to_owned(), unified: true });
            (host, tree)
        }

        fn group(&self, path: &str, pids: &str) {
            let dir = self.0.path().join(path);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("cgroup.procs"), pids).unwrap();
        }

        fn remove(&self, path: &str) {
            std::fs::remove_dir_all(self.0.path().join(path)).unwrap();
        }
    }

    fn looked(tree: &mut Tree, budget: Budget) -> Vec<String> {
        tree.look(budget, &mut |_, _, _| {});
        let some = tree.groups().filter(|(.., n)| *n > 0);
        some.map(|(key, _, path, n)| format!("{} {} {} {n}", key.scheduler, key.job, &path[path.len() - 6..])).collect()
    }

    const SCOPE: &str = "system.slice/slurmstepd.scope";

    #[test]
    fn jobs_come_and_go() {
        let (host, mut tree) = Host::new();
        host.group("user.slice/user-1.slice", "9\n");
        host.group(&format!("{SCOPE}/system"), "1\n");
        assert!(looked(&mut tree, Budget::FIRST).is_empty() && tree.has_places());
        host.group(&format!("{SCOPE}/job_7/step_0/user/task_0"), "10\n11\n");
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 7 task_0 2"]);
        // Another step, and a process fewer.
        host.group(&format!("{SCOPE}/job_7/step_1"), "12\n");
        host.group(&format!("{SCOPE}/job_7/step_0/user/task_0"), "10\n");
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 7 task_0 1", "slurm 7 step_1 1"]);
        host.remove(&format!("{SCOPE}/job_7/step_0"));
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 7 step_1 1"]);
        host.remove(&format!("{SCOPE}/job_7"));
        host.group(&format!("{SCOPE}/job_8"), "12\n");
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 8 /job_8 1"]);
        host.remove(SCOPE);
        assert!(looked(&mut tree, Budget::NEXT).is_empty());
    }

    #[test]
    fn replaced_job_of_the_same_name_is_reported() {
        let (host, mut tree) = Host::new();
        host.group(&format!("{SCOPE}/job_7"), "1\n");
        assert_eq!(looked(&mut tree, Budget::FIRST).len(), 1);
        // Not removed first: a file system may reuse its inode.
        std::fs::rename(host.0.path().join(SCOPE).join("job_7"), host.0.path().join("old")).unwrap();
        host.group(&format!("{SCOPE}/job_7"), "2\n3\n");
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 7 /job_7 2"]);
        assert_eq!(tree.renewed().iter().map(|key| &*key.job).collect::<Vec<_>>(), ["7"]);
        looked(&mut tree, Budget::NEXT);
        assert!(tree.renewed().is_empty());
    }

    #[test]
    fn users_of_version_1_come_and_go_with_their_jobs() {
        let (host, mut tree) = Host::new();
        host.group("slurm/system", "1\n");
        assert!(looked(&mut tree, Budget::FIRST).is_empty());
        host.group("slurm/uid_5/job_7/step_batch", "2\n");
        assert_eq!(looked(&mut tree, Budget::NEXT), ["slurm 7 _batch 1"]);
        assert!(tree.groups().all(|(_, uid, ..)| uid == Some(5)));
        host.remove("slurm/uid_5");
        assert!(looked(&mut tree, Budget::NEXT).is_empty());
    }

    #[test]
    fn large_hosts_are_tracked_within_limits() {
        let (host, mut tree) = Host::new();
        for i in 0..100 {
            host.group(&format!("{SCOPE}/job_{i}/step_0"), "1\n");
        }
        let mut reads = 0;
        tree.look(Budget::FIRST, &mut |_, _, _| reads += 1);
        assert_eq!(reads, 200, "the first look sees everything");
        reads = 0;
        tree.look(Budget::NEXT, &mut |_, _, _| reads += 1);
        assert!((Budget::NEXT.count..=2 * Budget::NEXT.count).contains(&reads), "{reads}");
        for i in 0..100 {
            host.group(&format!("{SCOPE}/job_{i}/step_0"), "1\n2\n");
        }
        for _ in 0..200 / Budget::NEXT.count + 1 {
            tree.look(Budget::NEXT, &mut |_, _, _| {});
        }
        assert_eq!(tree.groups().map(|(.., n)| n).sum::<u64>(), 200, "after a turn all are counted again");
        for i in 0..MOST {
            std::fs::create_dir(host.0.path().join(SCOPE).join(format!("job_1{i:05}"))).unwrap();
        }
        tree.look(Budget::NEXT, &mut |_, _, _| {});
        assert_eq!((tree.groups.len(), tree.left_out()), (MOST, 200));
        tree.look(Budget::NEXT, &mut |_, _, _| {});
        assert_eq!(tree.left_out(), 200, "still");
    }

    #[test]
    fn malformed_process_list_is_empty() {
        let (host, mut tree) = Host::new();
        host.group(&format!("{SCOPE}/job_7"), "nonsense\n-1\n99999999999\n");
        std::fs::create_dir_all(host.0.path().join(SCOPE).join("job_8/cgroup.procs")).unwrap();
        assert!(looked(&mut tree, Budget::FIRST).is_empty());
        assert!(processes(Path::new("/nowhere")).is_empty());
    }
}
