//! The catalog: one row per canonical metric, one row per vendor counter that feeds it.
//!
//! Everything else follows from these rows: what the samplers read, the wire names, the Prometheus names,
//! `docs/metrics.md`, the check of dashboards and rules. The same question is the same metric on every vendor.
//! Called by the agent (to bind a device's names), the collector (metadata), tests and `xtask`.

mod bind;
pub mod counters;
mod family;
mod limit;
pub mod metrics;
mod name;
pub mod page;
mod unit;

pub use bind::{BoundCounter, bind};
pub use family::{DriverFamily, LinkLayer, is_fast};
pub use limit::GrowthLimit;
pub use unit::MetricUnit;

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Monotone, cumulative; `_total` in Prometheus.
    Counter,
    /// A value that goes both ways.
    Gauge,
    /// An `_info` style series: constant 1, facts in its labels.
    Info,
    /// A distribution: `_bucket`, `_sum` and `_count` in Prometheus.
    Histogram,
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
    /// MetricUnit of the exported value (base units).
    pub unit: MetricUnit,
    /// Counter, gauge or info.
    pub kind: MetricKind,
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

    /// Whether the 100 ms congestion sample wants it.
    pub fn in_congestion_sample(&self) -> bool {
        metrics::CONGESTION.contains(&self)
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.name == other.name
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
pub enum CounterSource {
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
    /// Probes of the agent in the kernel.
    Ebpf,
    /// Anything else (`ib_core` state files, async events, debugfs parameters).
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

/// What a hardware counter does at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Starts again at zero.
    Wrap,
    /// Sticks at all ones until somebody resets it.
    Saturate,
}

/// Label values that follow from a vendor's name, at most three.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedLabels {
    items: [(&'static str, &'static str); 3],
    len: u8,
}

impl FixedLabels {
    /// None.
    pub const NONE: Self = Self { items: [("", ""); 3], len: 0 };

    /// These and one more; a fourth is a compile-time error.
    pub const fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.items[self.len as usize] = (name, value);
        self.len += 1;
        self
    }

    /// The pairs, in the order written.
    pub fn as_slice(&self) -> &[(&'static str, &'static str)] {
        &self.items[..usize::from(self.len)]
    }
}

/// One vendor counter: which metric it feeds, and how its number becomes that metric's unit.
#[derive(Debug, Clone, Copy)]
pub struct VendorCounter {
    /// Where it is read.
    pub source: CounterSource,
    /// The vendor's name; `{prio}`, `{queue}`, `{lane}`, `{vl}`, `{tc}` … stand for decimal numbers.
    /// A placeholder becomes a label when the metric has one of that name (`prio` is `priority`); otherwise
    /// the counters of all its numbers add up.
    pub name: &'static str,
    /// The canonical metric.
    pub metric: &'static Metric,
    /// Label values that follow from the name (`direction`, `reason` …).
    pub labels: FixedLabels,
    /// The label that takes the vendor's own name in `snake_case`, for long tails.
    pub named: Option<&'static str>,
    /// Exported value = raw value × scale.
    pub scale: f64,
    /// Bits of the raw counter (for wrap and saturation).
    pub width: u8,
    /// Behaviour at the end of `width`.
    pub overflow: Overflow,
    /// One part of a sum: readings of one source with the same metric and labels add up.
    /// Without it they are spellings of one counter, and the first counts.
    pub adds: bool,
    /// 0, or more for a counter that only stands in when none with a lower number is there.
    pub precedence: u8,
}

impl VendorCounter {
    /// Whether a raw value is a reading at all: firmware that cannot answer fills 64-bit counters with ones.
    pub fn is_reading(&self, raw: u64) -> bool {
        raw != u64::MAX || self.width < 64 || self.metric.kind != MetricKind::Counter
    }

    /// Whether a saturating counter has reached its end and says no more than "at least".
    pub fn is_saturated(&self, raw: u64) -> bool {
        self.overflow == Overflow::Saturate && self.width < 64 && raw >= (1 << self.width) - 1
    }

    /// The step of a counter from `before` to `now` in raw units: the difference, or the way across a wrap;
    /// `None` when the value fell for another reason (a reset, a reload).
    ///
    /// A wrap is believed only in counters that really wrap in fewer than 64 bits, and only when the step is under a
    /// quarter of their range: at one sample a second no queue counter moves further, and a reset nearly always would.
    pub fn step(&self, before: u64, now: u64) -> Option<u64> {
        if now >= before {
            return Some(now - before);
        }
        if self.overflow != Overflow::Wrap || self.width >= 64 || before >> self.width != 0 {
            return None;
        }
        let range = 1u64 << self.width;
        Some(range - before + now).filter(|step| *step < range / 4)
    }
}
