//! Finds mounted cgroup hierarchies. Called when the sampler opens, and by `capture`.

use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::text;
use std::path::PathBuf;

/// Hierarchies of version 1 by preference: schedulers track processes in the first ones.
const PREFERENCE: &[&str] = &["freezer", "memory", "cpuset", "devices", "cpuacct", "cpu", "pids", "name=systemd"];

/// A mounted cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Mount point.
    pub mount: PathBuf,
    /// True for version 2.
    pub unified: bool,
}

/// All reachable hierarchies: version 2 first, then version 1 by preference.
pub fn hierarchies(roots: &Roots) -> Vec<Hierarchy> {
    // In a container with the host's /proc, process 1 has the host's mounts.
    let lists = ["1/mounts", "mounts"].map(|list| text(&roots.proc().join(list)).unwrap_or_default());
    let mut found: Vec<(usize, Hierarchy)> = Vec::new();
    for (place, kind, options) in lists.iter().flat_map(|list| list.lines()).filter_map(mount) {
        let place = place.replace("\\040", " ");
        let mount = match place.strip_prefix("/sys/") {
            Some(below) => roots.sys().join(below),
            None => roots.base().join(place.trim_start_matches('/')),
        };
        let unified = kind == "cgroup2";
        let rank = PREFERENCE.iter().position(|wanted| options.split(',').any(|option| option == *wanted));
        let rank = if unified { Some(0) } else { rank.map(|rank| rank + 1) };
        let Some(rank) = rank else { continue };
        if mount.is_dir() && found.iter().all(|(_, other)| other.mount != mount) {
            found.push((rank, Hierarchy { mount, unified }));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    let mut all: Vec<Hierarchy> = found.into_iter().map(|(_, hierarchy)| hierarchy).collect();
    // One mount of version 2 is enough: others show the same tree.
    let first = all.iter().position(|hierarchy| hierarchy.unified);
    let mut index = 0..;
    all.retain(|hierarchy| index.next() == first || !hierarchy.unified);
    all
}

/// Mount point, type and options of a line such as `cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0`.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.split(' ').skip(1);
    let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
    matches!(kind, "cgroup" | "cgroup2").then_some((place, kind, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_hang_from_the_roots_in_order() {
        let tree = tempfile::tempdir().unwrap();
        let at = |place: &str| tree.path().join(place);
        for place in ["proc/1", "sys/fs/cgroup/memory", "sys/fs/cgroup/freezer", "sys/fs/cgroup/unified", "groups"] {
            std::fs::create_dir_all(at(place)).unwrap();
        }
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
            cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n\
            cgroup /sys/fs/cgroup/hugetlb cgroup rw,hugetlb 0 0\n\
            cgroup /sys/fs/cgroup/gone cgroup rw,cpuset 0 0\nnonsense\n";
        std::fs::write(at("proc/mounts"), format!("{mounts}none /groups cgroup2 rw 0 0\n")).unwrap();
        std::fs::write(at("proc/1/mounts"), format!("{mounts}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"))
            .unwrap();
        let found = hierarchies(&Roots::new(Some(tree.path().to_owned())));
        let found: Vec<_> = found.iter().map(|h| (h.mount.strip_prefix(tree.path()).unwrap(), h.unified)).collect();
        let want = [("sys/fs/cgroup/unified", true), ("sys/fs/cgroup/freezer", false), ("sys/fs/cgroup/memory", false)];
        assert_eq!(found, want.map(|(place, unified)| (std::path::Path::new(place), unified)));
        assert_eq!(hierarchies(&Roots::new(Some(at("groups")))), []);
    }
}
