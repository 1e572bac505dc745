//! Interfaces of kernel and driver that vendor counters are read from.

/// Interface that a vendor counter is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CounterSource {
    /// `ports/<n>/counters/<name>`: performance management (PMA) counters.
    SysfsCounters,
    /// `ports/<n>/hw_counters/<name>`, or the same names by RDMA netlink `STAT_GET`.
    HwCounters,
    /// `<device>/hw_counters/<name>`: counters of the device.
    DeviceHwCounters,
    /// `ethtool -S` of the port's netdev.
    Ethtool,
    /// Standard ethtool netlink statistics, `group/attribute`.
    EthtoolStd,
    /// DCB netlink, for instance `ieee_pfc/requests[{prio}]`.
    Dcb,
    /// `/sys/class/net/<if>/statistics/<name>`.
    NetStatistics,
    /// `/proc/net/snmp` and `/proc/net/netstat`, `Group/Name`.
    ProcNet,
    /// Files of the PCI function, for instance `aer_dev_correctable/<NAME>`.
    Pci,
    /// Module EEPROM.
    Module,
    /// Performance MADs (switch and HCA attributes), `Attribute/Field`.
    PmaMad,
    /// The agent's eBPF probes.
    Ebpf,
    /// Anything else (`ib_core` state files, asynchronous events, debugfs parameters).
    Other,
}

impl CounterSource {
    /// Name on the reference page and in logs.
    pub fn label(self) -> &'static str {
        match self {
            Self::SysfsCounters => "counters",
            Self::HwCounters => "hw_counters",
            Self::DeviceHwCounters => "device hw_counters",
            Self::Ethtool => "ethtool",
            Self::EthtoolStd => "ethtool netlink",
            Self::Dcb => "dcb",
            Self::NetStatistics => "net statistics",
            Self::ProcNet => "proc net",
            Self::Pci => "pci",
            Self::Module => "module",
            Self::PmaMad => "pma mad",
            Self::Ebpf => "eBPF",
            Self::Other => "other",
        }
    }
}
