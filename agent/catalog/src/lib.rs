//! The catalog: one row per canonical metric, one row per vendor counter that feeds it.
//!
//! Everything else follows from these rows: what the samplers read, the wire names, the Prometheus names,
//! `docs/metrics.md`, the check of dashboards and rules. The same question is the same metric on every vendor.
//! Called by the agent (to bind a device's names), the collector (metadata), tests and `xtask`.

pub mod feeds;
pub mod metrics;
mod name;
mod unit;

pub use unit::Unit;

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Monotone, cumulative; `_total` in Prometheus.
    Counter,
    /// A value that goes both ways.
    Gauge,
    /// An `_info` style series: constant 1, facts in its labels.
    Info,
}

/// What a series belongs to; decides the identity labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `host`
    Host,
    /// `host`, `device`
    Device,
    /// `host`, `device`, `port` (a netdev without RDMA has its own name as `device` and no `port`)
    Port,
}

/// A canonical metric: the only place where its name, unit and help are written.
#[derive(Debug)]
pub struct Metric {
    /// OpenTelemetry name, for instance `fabric.pfc.frames`.
    pub name: &'static str,
    /// Unit of the exported value (base units).
    pub unit: Unit,
    /// Counter, gauge or info.
    pub kind: Kind,
    /// What it belongs to.
    pub scope: Scope,
    /// Labels beside the identity, sorted.
    pub labels: &'static [&'static str],
    /// One sentence for people.
    pub help: &'static str,
}

impl Metric {
    /// The Prometheus name by OpenTelemetry's translation rules: `fabric_pfc_frames_total`.
    pub fn prometheus_name(&self) -> String {
        name::prometheus(self)
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Metric {}
impl std::hash::Hash for Metric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Where a vendor counter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// `ports/<n>/counters/<name>` (PMA view).
    SysfsCounters,
    /// `ports/<n>/hw_counters/<name>`, or the same names by RDMA netlink `STAT_GET`.
    HwCounters,
    /// `<device>/hw_counters/<name>` (device level).
    DeviceHwCounters,
    /// `ethtool -S` names of the port's netdev.
    Ethtool,
    /// Standard ethtool netlink statistics, `group/attribute`.
    EthtoolStd,
    /// DCB netlink, `ieee_pfc/requests[{prio}]` and the like.
    Dcb,
    /// `/sys/class/net/<if>/statistics/<name>`.
    NetStatistics,
    /// `/proc/net/snmp` and `netstat`, `Group/Name`.
    ProcNet,
    /// PCI function files, `aer_dev_correctable/<NAME>` and the like.
    Pci,
    /// Module EEPROM.
    Module,
    /// Performance MADs (switch and HCA attributes), `Attribute/Field`.
    PmaMad,
    /// Anything else (`ib_core` state files, async events, debugfs parameters).
    Other,
}

/// What a hardware counter does at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Starts again at zero.
    Wrap,
    /// Sticks at all ones until somebody resets it.
    Saturate,
}

/// One vendor counter: which metric it feeds, and how its number becomes that metric's unit.
#[derive(Debug, Clone)]
pub struct Feed {
    /// Where it is read.
    pub source: Source,
    /// The vendor's name; `{prio}`, `{queue}`, `{lane}`, `{vl}`, `{tc}` … stand for decimal numbers.
    pub name: &'static str,
    /// The canonical metric.
    pub metric: &'static Metric,
    /// Label values that follow from the name (`direction`, `reason` …).
    pub labels: &'static [(&'static str, &'static str)],
    /// Exported value = raw value × scale.
    pub scale: f64,
    /// Bits of the raw counter (for wrap and saturation).
    pub width: u8,
    /// Behaviour at the end of `width`.
    pub overflow: Overflow,
}
