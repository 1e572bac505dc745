//! Driver families: which tables apply to a device, and what its sources cost and are worth.
//! Called by the agent when it plans what to read from a device.

use std::sync::OnceLock;

use crate::bind::Index;
use crate::counters::{FAMILIES, GENERIC};
use crate::{CounterSource, VendorCounter};

/// Link layer of a port as the kernel names it; some files mean something else on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand or Omni-Path.
    InfiniBand,
    /// RoCE, iWARP, plain Ethernet.
    Ethernet,
    /// EFA and others that say nothing.
    Unspecified,
}

/// One vendor's drivers, RDMA and network half together, and their counters.
pub struct DriverFamily {
    /// Short name, for instance `mlx5`; on the reference page.
    pub name: &'static str,
    /// Kernel driver names that select it, RDMA and netdev; the first is that of an RDMA device known by its name only.
    pub drivers: &'static [&'static str],
    /// Prefixes of RDMA device names that select it when the driver is unknown.
    pub prefixes: &'static [&'static str],
    /// Its counters.
    pub counters: &'static [&'static [VendorCounter]],
    /// Sources that a congestion sample (100 ms) may read, for the metrics of [`crate::metrics::CONGESTION`] only:
    /// cheap and really refreshed that often. Of the performance management files that is two or three.
    pub fast: &'static [CounterSource],
    /// Bytes of one tick of PortXmitWait, where known without asking the device.
    pub tick_bytes: Option<f64>,
    /// Whether DCB netlink counts PFC frames live; mlx5 serves a copy that only ethtool refreshes.
    pub dcb_counts: bool,
    index: OnceLock<Index>,
}

impl DriverFamily {
    pub(crate) const fn new(
        name: &'static str,
        drivers: &'static [&'static str],
        prefixes: &'static [&'static str],
        counters: &'static [&'static [VendorCounter]],
    ) -> Self {
        let fast = &[];
        Self { name, drivers, prefixes, counters, fast, tick_bytes: None, dcb_counts: true, index: OnceLock::new() }
    }

    pub(crate) const fn fast(mut self, sources: &'static [CounterSource]) -> Self {
        self.fast = sources;
        self
    }

    pub(crate) const fn tick(mut self, bytes: f64) -> Self {
        self.tick_bytes = Some(bytes);
        self
    }

    pub(crate) const fn frozen_dcb(mut self) -> Self {
        self.dcb_counts = false;
        self
    }

    /// The family of a kernel driver (`mlx5_core`, `bnxt_en`, `irdma`, `rdma_rxe` …).
    pub fn for_driver(driver: &str) -> Option<&'static Self> {
        FAMILIES.iter().copied().find(|f| f.drivers.contains(&driver))
    }

    /// The family of an RDMA device by its default name (`mlx5_0`, `rxe0`); udev's persistent names
    /// (`rocep1s0`, `ibp5s0`) tell nothing, ask [`DriverFamily::for_driver`] first.
    pub fn for_device(device: &str) -> Option<&'static Self> {
        FAMILIES.iter().copied().find(|f| f.prefixes.iter().any(|p| device.starts_with(p)))
    }

    /// Every row of the family's own tables.
    pub fn rows(&self) -> impl Iterator<Item = &'static VendorCounter> {
        self.counters.iter().flat_map(|table| table.iter())
    }

    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self.rows()))
    }
}

impl std::fmt::Debug for DriverFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether the source is cheap and fresh enough for a congestion sample every 100 ms on this family.
/// Unknown drivers: only the netdev's own statistics.
pub fn is_fast(family: Option<&DriverFamily>, source: CounterSource) -> bool {
    source == CounterSource::NetStatistics || family.is_some_and(|f| f.fast.contains(&source))
}

/// Order of preference when several sources give the same metric and labels for one port; 0 is best.
/// InfiniBand: performance management first, because the netdev there is only IPoIB. Ethernet: the adapter's own
/// counts, but RDMA traffic from the performance management files where these can be read every 100 ms.
pub(crate) fn source_rank(family: Option<&DriverFamily>, link: LinkLayer, source: CounterSource) -> u8 {
    use CounterSource::{
        Dcb, DeviceHwCounters, Ethtool, EthtoolStd, HwCounters, Module, NetStatistics, Other, Pci, PmaMad, ProcNet,
        SysfsCounters,
    };
    const INFINIBAND: [CounterSource; 12] = [
        HwCounters,
        PmaMad,
        SysfsCounters,
        DeviceHwCounters,
        NetStatistics,
        Ethtool,
        EthtoolStd,
        Dcb,
        Pci,
        Module,
        ProcNet,
        Other,
    ];
    const ETHERNET: [CounterSource; 12] = [
        HwCounters,
        NetStatistics,
        Ethtool,
        EthtoolStd,
        Dcb,
        DeviceHwCounters,
        SysfsCounters,
        PmaMad,
        Pci,
        Module,
        ProcNet,
        Other,
    ];
    let order = if link == LinkLayer::InfiniBand { &INFINIBAND } else { &ETHERNET };
    let position = |of: CounterSource| order.iter().position(|s| *s == of).map_or(u8::MAX, |i| 2 * i as u8 + 1);
    if link != LinkLayer::InfiniBand && source == SysfsCounters && is_fast(family, source) {
        return position(Ethtool) - 1;
    }
    position(source)
}

pub(crate) fn generic_index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index::new(GENERIC.iter().flat_map(|(_, table)| table.iter())))
}
