//! Resolves cgroup ids to paths. The id is the inode of the directory, so the tree is walked for unknown ids, with a
//! limit of directories per call.
//!
//! Used by `samplers/tcp_traffic`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories read per call.
const BUDGET: usize = 256;
/// Limit of directories waiting to be read; a wider tree is walked incompletely.
const WAITING: usize = 16_384;

/// Name of a cgroup whose directory is gone; its sockets may still exist.
pub const UNKNOWN: &str = "unknown";

/// Cache of cgroup names.
pub struct CgroupNames {
    mount: PathBuf,
    known: HashMap<u64, Arc<str>>,
    wanted: HashSet<u64>,
    /// Directories of the current walk that are not read yet.
    waiting: VecDeque<PathBuf>,
    unknown: Arc<str>,
}

impl CgroupNames {
    /// Creates a cache for the tree at `mount`.
    pub fn new(mount: PathBuf) -> Self {
        Self {
            mount,
            known: HashMap::new(),
            wanted: HashSet::new(),
            waiting: VecDeque::new(),
            unknown: Arc::from(UNKNOWN),
        }
    }

    /// Path below the mount, `/` for the root; [`UNKNOWN`] if the tree lacks it. `None` until [`CgroupNames::look`] has
    /// resolved it.
    pub fn name(&mut self, id: u64) -> Option<&Arc<str>> {
        if !self.known.contains_key(&id) {
            self.wanted.insert(id);
        }
        self.known.get(&id)
    }

    /// Continues the walk. Ids that a whole walk did not find are unknown permanently.
    pub fn look(&mut self) {
        if self.wanted.is_empty() {
            return;
        }
        if self.waiting.is_empty() {
            if let Some(root) = std::fs::metadata(&self.mount).ok().filter(|root| self.wanted.remove(&root.ino())) {
                self.known.insert(root.ino(), Arc::from("/"));
            }
            self.waiting.push_back(self.mount.clone());
        }
        // An id requested from now on may lie in a part that this walk has passed.
        let sought: HashSet<u64> = self.wanted.clone();
        for _ in 0..BUDGET {
            if sought.iter().all(|id| self.known.contains_key(id)) {
                self.waiting.clear();
                break;
            }
            let Some(dir) = self.waiting.pop_front() else { break };
            self.read(&dir);
        }
        if self.waiting.is_empty() {
            for id in self.wanted.drain() {
                self.known.entry(id).or_insert_with(|| Arc::clone(&self.unknown));
            }
        }
    }

    fn read(&mut self, dir: &Path) {
        // A removed directory is skipped.
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if self.wanted.contains(&entry.ino())
                && let Ok(below) = path.strip_prefix(&self.mount)
            {
                self.known.insert(entry.ino(), Arc::from(format!("/{}", below.display())));
            }
            if self.waiting.len() < WAITING {
                self.waiting.push_back(path);
            }
        }
    }

    /// Whether the cgroup still has its directory.
    pub fn lives(&self, id: u64) -> bool {
        self.known.get(&id).is_some_and(|name| {
            let dir = self.mount.join(name.trim_start_matches('/'));
            **name != *UNKNOWN && std::fs::metadata(dir).is_ok_and(|dir| dir.ino() == id)
        })
    }

    /// Forgets removed cgroups that `keep` does not select. Returns the names that no cgroup has any more.
    pub fn sweep(&mut self, keep: impl Fn(u64) -> bool) -> Vec<Arc<str>> {
        let gone: Vec<u64> = self.known.keys().filter(|id| !keep(**id) && !self.lives(**id)).copied().collect();
        let mut names: Vec<Arc<str>> = gone.iter().filter_map(|id| self.known.remove(id)).collect();
        names.sort_unstable();
        names.dedup();
        // A restarted service has the same name as before; removed cgroups share the name UNKNOWN.
        names.retain(|name| **name != *UNKNOWN && !self.known.values().any(|other| other == name));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn ids_resolve_to_paths_or_unknown() {
        let tree = tempfile::tempdir().unwrap();
        let job = tree.path().join("slurm/job_7/step_0");
        std::fs::create_dir_all(&job).unwrap();
        let mut names = CgroupNames::new(tree.path().to_owned());
        let (root, job, nowhere) = (inode(tree.path()), inode(&job), u64::MAX);
        for id in [root, job, nowhere] {
            assert_eq!(names.name(id), None, "before a look");
        }
        names.look();
        let name = |names: &mut CgroupNames, id| names.name(id).map(|name| name.to_string());
        assert_eq!(name(&mut names, root).as_deref(), Some("/"));
        assert_eq!(name(&mut names, job).as_deref(), Some("/slurm/job_7/step_0"));
        assert_eq!(name(&mut names, nowhere).as_deref(), Some(UNKNOWN));
        assert!(names.lives(job) && !names.lives(nowhere));
        std::fs::remove_dir(tree.path().join("slurm/job_7/step_0")).unwrap();
        assert!(!names.lives(job));
        assert_eq!(names.sweep(|id| id == job), [], "what is still counted is kept");
        assert_eq!(names.sweep(|_| false), [Arc::from("/slurm/job_7/step_0")]);
        assert_eq!(names.known.len(), 1, "the root lives");
    }

    #[test]
    fn reused_name_is_kept() {
        let tree = tempfile::tempdir().unwrap();
        let service = tree.path().join("service");
        std::fs::create_dir(&service).unwrap();
        let mut names = CgroupNames::new(tree.path().to_owned());
        let id = inode(&service);
        names.name(id);
        names.look();
        names.known.insert(id + 1_000_000, Arc::from("/service"));
        assert_eq!(names.sweep(|_| false), []);
        assert_eq!(names.known.keys().copied().collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn a_large_tree_is_walked_in_steps() {
        let tree = tempfile::tempdir().unwrap();
        for i in 0..BUDGET {
            std::fs::create_dir_all(tree.path().join(format!("{i}/deep"))).unwrap();
        }
        let mut names = CgroupNames::new(tree.path().to_owned());
        let last: Vec<u64> = (0..BUDGET).map(|i| inode(&tree.path().join(format!("{i}/deep")))).collect();
        for id in &last {
            names.name(*id);
        }
        names.look();
        let known = |names: &mut CgroupNames| last.iter().filter(|id| names.name(**id).is_some()).count();
        let first = known(&mut names);
        assert!(first < BUDGET, "one call may not read more than its budget, and knew {first}");
        names.look();
        assert_eq!(known(&mut names), BUDGET);
        assert!(last.iter().all(|id| names.lives(*id)), "nothing is unknown after a whole walk");
    }
}
