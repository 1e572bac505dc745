//! Programs at the root of the cgroup tree: what every socket of the host sends and receives passes them. For
//! `samplers/tcp_traffic`.
//!
//! A link can always stand beside what others have attached, and goes with its file descriptor.

use super::cost::Cost;
use super::load::{absent, load, map, program};
use super::peers::Peers;
use crate::batch::{SampleError, chain};
use crate::roots::Roots;
use crate::sysfile::text;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::{CgroupAttachMode, CgroupSkb, CgroupSkbAttachType};
use aya::{Ebpf, Pod};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A probe at work. Dropped, it is gone from the kernel.
pub struct CgroupProbe {
    loaded: Ebpf,
    /// Of its programs; nothing before they are attached.
    pub cost: Cost,
}

impl CgroupProbe {
    /// Loads `object` with maps of `sizes` (name, entries).
    ///
    /// # Errors
    /// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
    pub fn load(roots: &Roots, object: &[u8], sizes: &[(&'static str, u32)]) -> Result<Self, SampleError> {
        Ok(Self { loaded: load(roots, object, &BTreeMap::new(), sizes)?, cost: Cost::default() })
    }

    /// Attaches the programs `received` and `sent` at `mount`; from now on they count.
    ///
    /// # Errors
    /// As [`CgroupProbe::load`].
    pub fn attach(&mut self, mount: &Path) -> Result<(), SampleError> {
        let root = File::open(mount).map_err(|e| absent(&format!("opening {}", mount.display()), &e))?;
        for (name, way) in [("received", CgroupSkbAttachType::Ingress), ("sent", CgroupSkbAttachType::Egress)] {
            let program: &mut CgroupSkb = program(&mut self.loaded, name)?;
            program.load().map_err(|e| absent("the kernel refuses the probe", &e))?;
            // A link takes no mode: to the kernel it is always one of several.
            program
                .attach(&root, way, CgroupAttachMode::Single)
                .map_err(|e| absent(&format!("attaching the probe to {}", mount.display()), &e))?;
        }
        self.cost = Cost::new(&mut self.loaded)?;
        Ok(())
    }

    /// A hash map with one record for each CPU and key.
    ///
    /// # Errors
    /// `Failed` when the object has no such map: the object and the agent do not belong together.
    pub fn by_key<K: Pod, V: Pod>(&mut self, name: &str) -> Result<PerCpuHashMap<MapData, K, V>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// A map with one record for each CPU and place.
    ///
    /// # Errors
    /// As [`CgroupProbe::by_key`].
    pub fn by_place<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// The map that tells the number of an interface by its index.
    ///
    /// # Errors
    /// As [`CgroupProbe::by_key`].
    pub fn interfaces(&mut self) -> Result<Interfaces, SampleError> {
        Ok(Interfaces { map: map(&mut self.loaded, "INTERFACE")?, told: Vec::new() })
    }

    /// The maps that tell who is at the other end.
    ///
    /// # Errors
    /// As [`CgroupProbe::by_key`].
    pub fn peers(&mut self) -> Result<Peers, SampleError> {
        Peers::take(&mut self.loaded)
    }
}

/// Tells the probe which number an interface has.
pub struct Interfaces {
    map: Array<MapData, u32>,
    told: Vec<(u32, u32)>,
}

impl Interfaces {
    /// Tells what has changed since the last time.
    ///
    /// # Errors
    /// `Failed` when the kernel takes no entries.
    pub fn tell(&mut self, peers: &Peers) -> Result<(), SampleError> {
        let now: Vec<(u32, u32)> = peers.numbers().filter(|(index, _)| *index < self.map.len()).collect();
        if now == self.told {
            return Ok(());
        }
        for (index, number) in &now {
            let set = self.map.set(*index, number, 0);
            set.map_err(|e| SampleError::Failed(format!("telling the probe an interface: {}", chain(&e))))?;
        }
        self.told = now;
        Ok(())
    }
}

/// Where cgroup2 is mounted, as process 1 or this one sees it, whichever place can be reached.
///
/// # Errors
/// `Absent` when there is none.
pub fn mount(roots: &Roots) -> Result<PathBuf, SampleError> {
    // In a container with the host's /proc, process 1 shows the host's mounts.
    let lists = ["1/mounts", "mounts"].map(|list| roots.proc().join(list));
    let told = lists.iter().filter_map(|list| text(list).ok()).filter_map(|mounts| cgroup2(&mounts));
    let mut places = told.map(|place| match place.strip_prefix("/sys") {
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

/// A line reads `cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0`; the root of a mount that shows only a part is not the
/// root of the tree, but cannot be told here: the kernel then counts the part.
fn cgroup2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place.replace("\\040", " ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_tree_is_found_among_the_old_ones() {
        let old = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let hybrid = format!("{old}cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n");
        assert_eq!(cgroup2(&hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(cgroup2("none /mnt/my\\040groups cgroup2 rw 0 0\n"), Some(PathBuf::from("/mnt/my groups")));
        assert_eq!(cgroup2(old), None);
        assert_eq!(cgroup2(""), None);
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
