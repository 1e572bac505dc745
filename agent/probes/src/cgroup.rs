//! Attaches programs to the root cgroup, which sees the packets of all sockets of the host, and maintains the map of
//! interface numbers for them.

use crate::load::{absent, map};
use crate::peers::Peers;
use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{CgroupAttachMode, CgroupSkb, CgroupSkbAttachType};
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::text;
use fabriclens_base::error_chain::with_causes;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Attaches a program at `mount`. The link coexists with other programs, and is removed with its file descriptor.
///
/// # Errors
/// `Absent` with the remedy.
pub(crate) fn attach(program: &mut CgroupSkb, way: CgroupSkbAttachType, mount: &Path) -> Result<(), SampleError> {
    let root = File::open(mount).map_err(|e| absent(&format!("opening {}", mount.display()), &e))?;
    // The mode does not apply to links: the kernel always attaches them as one of several.
    let attached = program.attach(&root, way, CgroupAttachMode::Single);
    attached.map(|_| ()).map_err(|e| absent(&format!("attaching the probe to {}", mount.display()), &e))
}

/// Map of interface numbers.
pub struct Interfaces {
    map: Array<MapData, u32>,
    current: Vec<(u32, u32)>,
}

impl Interfaces {
    pub(crate) fn take(loaded: &mut Ebpf) -> Result<Self, SampleError> {
        Ok(Self { map: map(loaded, "INTERFACE")?, current: Vec::new() })
    }

    /// Adds changed interfaces to the map.
    ///
    /// # Errors
    /// `Failed` when the kernel rejects an entry.
    pub fn tell(&mut self, peers: &Peers) -> Result<(), SampleError> {
        let now: Vec<(u32, u32)> = peers.numbers().filter(|(index, _)| *index < self.map.len()).collect();
        if now == self.current {
            return Ok(());
        }
        for (index, number) in &now {
            let set = self.map.set(*index, number, 0);
            set.map_err(|e| SampleError::Failed(format!("telling the probe an interface: {}", with_causes(&e))))?;
        }
        self.current = now;
        Ok(())
    }
}

/// Mount point of cgroup2 as process 1 or this process sees it; the first one that is reachable.
///
/// # Errors
/// `Absent` if there is none.
pub fn mount(roots: &Roots) -> Result<PathBuf, SampleError> {
    // In a container with the host's /proc, process 1 has the host's mounts.
    let lists = ["1/mounts", "mounts"].map(|list| roots.proc().join(list));
    let current = lists.iter().filter_map(|list| text(list).ok()).flat_map(|mounts| cgroup2(&mounts));
    let mut places = current.map(|place| match place.strip_prefix("/sys") {
        Ok(below) => roots.sys().join(below),
        Err(_) => roots.base().join(place.strip_prefix("/").unwrap_or(&place)),
    });
    places.find(|place| place.is_dir()).ok_or_else(|| {
        SampleError::Absent(
            "no cgroup2 is mounted (control groups of version 1 alone cannot tell the sender of a packet); \
             as root: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
                .into(),
        )
    })
}

/// Mount points of cgroup2, from lines such as `cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0`. A mount of a subtree
/// looks the same as one of the root; the kernel then counts that subtree only. A mount that is covered by another one
/// is still in the list.
fn cgroup2(mounts: &str) -> Vec<PathBuf> {
    let place = |line: &str| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place.replace("\\040", " ")))
    };
    mounts.lines().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_tree_is_found_among_the_old_ones() {
        let old = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let hybrid = format!("{old}cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n");
        assert_eq!(cgroup2(&hybrid), [PathBuf::from("/sys/fs/cgroup/unified")]);
        assert_eq!(cgroup2("none /mnt/my\\040groups cgroup2 rw 0 0\n"), [PathBuf::from("/mnt/my groups")]);
        assert!(cgroup2(old).is_empty());
        assert!(cgroup2("").is_empty());
    }

    #[test]
    fn a_host_of_version_1_alone_says_so() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc")).unwrap();
        std::fs::write(tree.path().join("proc/mounts"), "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n").unwrap();
        let error = mount(&Roots::new(Some(tree.path().to_owned()))).unwrap_err();
        assert!(matches!(&error, SampleError::Absent(why) if why.contains("mount -t cgroup2")), "{error:?}");
    }

    #[test]
    fn a_covered_mount_does_not_hide_the_one_that_can_be_reached() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/1")).unwrap();
        std::fs::create_dir_all(tree.path().join("sys/fs/cgroup")).unwrap();
        let covered = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nsysfs /sys sysfs rw 0 0\n";
        std::fs::write(tree.path().join("proc/1/mounts"), format!("{covered}none /sys/fs/cgroup cgroup2 rw 0 0\n"))
            .unwrap();
        assert_eq!(mount(&Roots::new(Some(tree.path().to_owned()))).unwrap(), tree.path().join("sys/fs/cgroup"));
    }

    #[test]
    fn places_hang_from_the_roots() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/1")).unwrap();
        let of_host = tree.path().join("proc/1/mounts");
        for (line, below) in [("/sys/fs/cgroup", "sys/fs/cgroup"), ("/run/groups", "run/groups")] {
            std::fs::create_dir_all(tree.path().join(below)).unwrap();
            std::fs::write(&of_host, format!("cgroup2 {line} cgroup2 rw 0 0\n")).unwrap();
            assert_eq!(mount(&Roots::new(Some(tree.path().to_owned()))).unwrap(), tree.path().join(below));
        }
        std::fs::write(&of_host, "cgroup2 /of/another/root cgroup2 rw 0 0\n").unwrap();
        std::fs::write(tree.path().join("proc/mounts"), "cgroup2 /run/groups cgroup2 rw 0 0\n").unwrap();
        assert_eq!(mount(&Roots::new(Some(tree.path().to_owned()))).unwrap(), tree.path().join("run/groups"));
    }
}
