//! Which adapter is near to which GPU. Derived from the paths of their PCI functions in sysfs alone, as
//! `nvidia-smi topo -m` derives it; no device is read. Updated by `schedule` at each discovery, read by the sampler
//! `gpu_affinity`. One per host.

use crate::discover::bridges;
use crate::inventory::{Class, Device, Inventory};
use crate::rails::Rails;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Most adapters of one host whose distances are exported.
const MOST_ADAPTERS: usize = 64;

/// What a transfer between two PCI functions crosses. The numbers are those of NVML's `nvmlGpuTopologyLevel_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// At most one PCIe switch.
    Pix = 10,
    /// Several PCIe switches.
    Pxb = 20,
    /// A host bridge.
    Phb = 30,
    /// Two host bridges of one NUMA node.
    Node = 40,
    /// Two NUMA nodes.
    Sys = 50,
}

impl Distance {
    /// The word of `nvidia-smi topo -m`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}

/// A PCI function: its real directory, and its NUMA node if the kernel knows it.
pub type Place<'a> = (&'a Path, Option<u32>);

/// Distance of two PCI functions; `None` if they are below different host bridges and their NUMA nodes are unknown.
/// `one_node`: the host has only one.
pub fn distance((a, a_node): Place<'_>, (b, b_node): Place<'_>, one_node: bool) -> Option<Distance> {
    let [above_a, above_b] = [a, b].map(bridges);
    let host_bridge = |dir: &Path, above: &[std::path::PathBuf]| {
        let top = above.first().map_or(dir, |root| root.as_path());
        top.parent().map(Path::to_path_buf)
    };
    if host_bridge(a, &above_a) != host_bridge(b, &above_b) {
        return match (a_node, b_node) {
            (Some(a), Some(b)) => Some(if a == b { Distance::Node } else { Distance::Sys }),
            _ => one_node.then_some(Distance::Node),
        };
    }
    let shared = above_a.iter().zip(&above_b).take_while(|(a, b)| a == b).count();
    if shared == 0 {
        return Some(Distance::Phb);
    }
    // A switch is two bridges on the way: its downstream port, and its upstream port, which both functions share.
    let below = (above_a.len() - shared).max(above_b.len() - shared);
    Some(if below <= 1 { Distance::Pix } else { Distance::Pxb })
}

/// The adapter that each GPU should use, by column. `rows` has the distances of each GPU to the adapters in the order of
/// rails. GPUs that are equally near to the same adapters take them in turn.
pub fn nearest(rows: &[Vec<Option<Distance>>]) -> Vec<Option<usize>> {
    let mut turns: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let choose = |row: &Vec<Option<Distance>>| {
        let least = row.iter().flatten().min()?;
        let near: Vec<usize> = (0..row.len()).filter(|column| row[*column].as_ref() == Some(least)).collect();
        let turn = turns.entry(near.clone()).or_default();
        *turn += 1;
        Some(near[(*turn - 1) % near.len()])
    };
    rows.iter().map(choose).collect()
}

/// One adapter and one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPair {
    /// Index of the GPU.
    pub gpu: usize,
    /// Distance; `None` if it cannot be known.
    pub distance: Option<Distance>,
    /// This is the adapter that the GPU should use.
    pub is_nearest: bool,
}

/// Pairs of the host by adapter.
#[derive(Debug, Default)]
pub struct GpuAffinity(Mutex<BTreeMap<Arc<str>, Vec<GpuPair>>>);

impl GpuAffinity {
    /// Derives the pairs of the current inventory, whose rails are known.
    pub fn update(&self, inventory: &Inventory, rails: &Rails) {
        *self.0.lock() = pairs(inventory, rails);
    }

    /// Pairs of an adapter, in the order of GPUs; empty on a host without GPUs.
    pub fn of(&self, device: &str) -> Vec<GpuPair> {
        self.0.lock().get(device).cloned().unwrap_or_default()
    }
}

fn pairs(inventory: &Inventory, rails: &Rails) -> BTreeMap<Arc<str>, Vec<GpuPair>> {
    if inventory.gpus.is_empty() {
        return BTreeMap::new();
    }
    let mut adapters = adapters(inventory);
    let rail = |device: &Device| rails.of(&device.name).map(|(rail, _)| rail);
    let order = |device: &Device| {
        let rail = rail(device);
        let number = rail.as_ref().and_then(|rail| rail.parse().ok()).unwrap_or(u32::MAX);
        (rail.is_none(), number, rail, device.pci.clone(), Arc::clone(&device.name))
    };
    adapters.sort_by_cached_key(|(device, _)| order(device));
    // Adapters without a rail are those of storage and management, where others have one.
    let with_rail = adapters.iter().filter(|(device, _)| rail(device).is_some()).count();
    let candidates = if with_rail > 0 { with_rail } else { adapters.len() };
    let row = |gpu: &Arc<crate::gpu::Gpu>| -> Vec<Option<Distance>> {
        let to = |(device, dir): &(&Device, &Path)| {
            distance((&gpu.dir, gpu.numa), (dir, device.numa), inventory.has_one_node)
        };
        adapters.iter().map(to).collect()
    };
    let rows: Vec<_> = inventory.gpus.iter().map(row).collect();
    let chosen = nearest(&rows.iter().map(|row| row[..candidates].to_vec()).collect::<Vec<_>>());
    let of_adapter = |(column, (device, _)): (usize, &(&Device, &Path))| {
        let pair = |(gpu, row): (usize, &Vec<Option<Distance>>)| GpuPair {
            gpu: inventory.gpus[gpu].index,
            distance: row[column],
            is_nearest: chosen[gpu] == Some(column),
        };
        (Arc::clone(&device.name), rows.iter().enumerate().map(pair).collect())
    };
    adapters.iter().enumerate().map(of_adapter).collect()
}

/// Adapters that a GPU may use. In a guest all are virtual functions; on a host those are the guests'.
fn adapters(inventory: &Inventory) -> Vec<(&Device, &Path)> {
    let of = |class: Class| -> Vec<(&Device, &Path)> {
        let devices = inventory.devices.iter().filter(|device| device.class == class);
        devices.filter_map(|device| Some((&**device, device.pci_dir.as_deref()?))).take(MOST_ADAPTERS).collect()
    };
    let physical = of(Class::Physical);
    if physical.is_empty() { of(Class::Virtual) } else { physical }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &str, b: &str, nodes: [Option<u32>; 2]) -> Option<&'static str> {
        let root = Path::new("/sys/devices");
        let (a, b) = (root.join(a), root.join(b));
        distance((&a, nodes[0]), (&b, nodes[1]), false).map(Distance::name)
    }

    #[test]
    fn distance_follows_from_the_common_ancestor() {
        let gpu = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0";
        let of = |other: &str| between(gpu, other, [Some(0), Some(0)]);
        assert_eq!(of("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0"), Some("PIX"));
        let behind = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:03.0/0000:1b:00.0/0000:1c:00.0/0000:1d:00.0";
        assert_eq!(of(behind), Some("PXB"), "behind a second switch");
        assert_eq!(of("pci0000:15/0000:15:02.0/0000:20:00.0"), Some("PHB"), "another root port");
        assert_eq!(of("pci0000:26/0000:26:01.0/0000:27:00.0"), Some("NODE"));
        let other = "pci0000:97/0000:97:01.0/0000:98:00.0";
        assert_eq!(between(gpu, other, [Some(0), Some(1)]), Some("SYS"));
        assert_eq!(between(gpu, other, [None, Some(1)]), None, "absent is not near");
        assert_eq!(between("pci0000:00/0000:00:05.0", "pci0000:00/0000:00:06.0", [None; 2]), Some("PHB"), "a guest");
        let twins = ["pci0000:20/0000:20:03.1/0000:21:00.0", "pci0000:20/0000:20:03.1/0000:21:00.1"];
        assert_eq!(between(twins[0], twins[1], [None; 2]), Some("PIX"), "functions of one card");
        let one =
            distance((Path::new("/d/pci0:0/0000:00:01.0"), None), (Path::new("/d/pci1:0/0001:00:01.0"), None), true);
        assert_eq!(one, Some(Distance::Node), "the host has one node");
    }

    #[test]
    fn gpus_that_are_equally_near_take_adapters_in_turn() {
        let [pix, node, sys] = [Distance::Pix, Distance::Node, Distance::Sys].map(Some);
        assert_eq!(nearest(&[vec![node, pix], vec![pix, node]]), [Some(1), Some(0)]);
        let pair = [vec![node, node, sys], vec![node, node, sys], vec![sys, sys, node], vec![node, node, sys]];
        assert_eq!(nearest(&pair), [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(nearest(&[vec![None, None], vec![]]), [None, None]);
    }
}
