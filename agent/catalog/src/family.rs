//! Driver families: which counter tables apply to a device, and which of its sources are preferred or cheap enough for
//! fast sampling. The agent uses them to plan what to read from a device.

use std::sync::OnceLock;

use crate::name_index::NameIndex;
use crate::source::CounterSource;
use crate::vendor_counter::VendorCounter;

/// Link layer of a port, as the kernel reports it. Some counter files have another meaning on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand or Omni-Path.
    InfiniBand,
    /// RoCE, iWARP, plain Ethernet.
    Ethernet,
    /// EFA and other devices that report no link layer.
    Unspecified,
}

/// The RDMA and network drivers of one vendor, and their counters.
pub struct DriverFamily {
    /// Short name on the reference page, for instance `mlx5`.
    pub name: &'static str,
    /// Kernel driver names of this family, RDMA and netdev. The first one is assumed for an RDMA device that is known by
    /// its name only.
    pub drivers: &'static [&'static str],
    /// Prefixes of RDMA device names that select this family if the driver is unknown.
    pub prefixes: &'static [&'static str],
    /// Tables of its counters.
    pub counters: &'static [&'static [VendorCounter]],
    /// Sources that are cheap and refreshed often enough for the congestion sample (every 100 ms). Only counters of
    /// [`crate::metrics::CONGESTION`] are read from them: two or three of the performance management files.
    pub fast: &'static [CounterSource],
    /// Bytes per tick of PortXmitWait, if known without asking the device.
    pub tick_bytes: Option<f64>,
    /// Whether DCB netlink returns current PFC counts; mlx5 returns a copy that only ethtool refreshes.
    pub dcb_counts: bool,
    index: OnceLock<NameIndex>,
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

    /// All counters of the family.
    pub fn rows(&self) -> impl Iterator<Item = &'static VendorCounter> {
        self.counters.iter().flat_map(|table| table.iter())
    }

    pub(crate) fn index(&self) -> &NameIndex {
        self.index.get_or_init(|| NameIndex::new(self.rows()))
    }
}

impl std::fmt::Debug for DriverFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether the source is cheap and refreshed often enough for the congestion sample (every 100 ms). For unknown drivers
/// only the statistics of the netdev are.
pub fn is_fast(family: Option<&DriverFamily>, source: CounterSource) -> bool {
    source == CounterSource::NetStatistics || family.is_some_and(|f| f.fast.contains(&source))
}

/// Preference among sources that give the same metric and labels for one port; 0 is best. InfiniBand: performance
/// management first, because the netdev carries only IPoIB. Ethernet: the adapter's own counters first, except that RDMA
/// traffic is read from the performance management files if these are fast.
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
