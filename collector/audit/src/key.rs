//! The settings that are compared: one row each.

use fabriclens_correlate::Severity;

use crate::value::Unit;

/// A setting of a port or a device that should be the same on all of its kind.
pub struct Key {
    /// Name in baselines, answers and series.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// How its value follows from series.
    pub reading: Reading,
    /// How bad a difference is.
    pub severity: Severity,
    /// What goes wrong where it differs.
    pub consequence: &'static str,
    /// How the other end of the link must be set.
    pub far_end: FarEnd,
    /// Compared only among adapters of one board, as firmware is.
    pub within_board: bool,
}

/// How a value follows from series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The value of the only series.
    Number(&'static str, Unit),
    /// The values of a label whose series are not zero.
    Set(Series),
    /// The number of each value of a label.
    Map(Series),
    /// A label of `fabric_port_info`.
    Info(&'static str),
}

/// Series of a metric that differ in one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Metric.
    pub metric: &'static str,
    /// Label and value that the series must have.
    pub only: Option<(&'static str, &'static str)>,
    /// The label in which they differ.
    pub by: &'static str,
}

const fn by(metric: &'static str, by: &'static str) -> Series {
    Series { metric, only: None, by }
}

const fn of_role(metric: &'static str, role: &'static str) -> Series {
    Series { metric, only: Some(("role", role)), by: "priority" }
}

/// How the two ends of a link must be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarEnd {
    /// Both ends agree by themselves, or need not agree.
    Any,
    /// Both ends have the same value.
    Equal,
    /// The switch has at least the number of the host.
    AtLeast,
}

use FarEnd::{Any, AtLeast, Equal};
use Reading::{Info, Map, Number, Set};
use Severity::{Critical, Info as Note, Warning};

/// All keys. A wrong value of a critical one costs jobs throughput; of the others it may, or is a sign of neglect.
pub const KEYS: &[Key] = &[
    Key {
        name: "pfc_priorities",
        title: "priorities with PFC",
        reading: Set(by("fabric_pfc_enabled", "priority")),
        severity: Critical,
        consequence: "RoCE of a priority without PFC is dropped where a queue is full, or a pause is not obeyed",
        far_end: Equal,
        within_board: false,
    },
    Key {
        name: "trust",
        title: "field that gives the priority",
        reading: Set(by("fabric_dcb_trust", "mode")),
        severity: Critical,
        consequence: "packets are put into another priority than that which PFC and ECN protect",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "dscp_map",
        title: "priority by DSCP",
        reading: Map(by("fabric_dcb_app_priority", "dscp")),
        severity: Critical,
        consequence: "packets of that DSCP are put into another priority than those of other ports",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "ecn_notification_point",
        title: "priorities for which CNPs are sent",
        reading: Set(of_role("fabric_ecn_enabled", "np")),
        severity: Critical,
        consequence: "senders are not told that their packets were marked, and congestion ends in pause",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "ecn_reaction_point",
        title: "priorities that slow down on CNPs",
        reading: Set(of_role("fabric_ecn_enabled", "rp")),
        severity: Critical,
        consequence: "this sender does not slow down on congestion, and takes the share of others",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "cnp_settings",
        title: "settings of CNPs",
        reading: Map(by("fabric_ecn_setting", "parameter")),
        severity: Warning,
        consequence: "CNPs come in another priority or more seldom than those of other ports",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "dcqcn",
        title: "DCQCN parameters",
        reading: Map(by("fabric_congestion_parameter", "parameter")),
        severity: Warning,
        consequence: "this sender slows down and recovers unlike the others, so shares are unfair",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "roce_tos",
        title: "type of service of RoCE",
        reading: Map(by("fabric_roce_tos", "reason")),
        severity: Warning,
        consequence: "queue pairs send in another class than those of other ports",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "roce_version",
        title: "RoCE version of connections",
        reading: Info("roce"),
        severity: Warning,
        consequence: "RoCE v1 is not routed, and its packets have no DSCP",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "priority_map",
        title: "traffic class by priority",
        reading: Map(by("fabric_dcb_ets_traffic_class", "priority")),
        severity: Warning,
        consequence: "lossless and lossy traffic may share a queue",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "ets_algorithm",
        title: "scheduling by traffic class",
        reading: Map(by("fabric_dcb_ets_algorithm", "tc")),
        severity: Warning,
        consequence: "a traffic class is starved or preferred",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "ets_bandwidth",
        title: "share of bandwidth by traffic class",
        reading: Map(by("fabric_dcb_ets_bandwidth_ratio", "tc")),
        severity: Warning,
        consequence: "a traffic class gets less of the link than on other ports",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "buffer_sizes",
        title: "sizes of receive buffers",
        reading: Map(by("fabric_dcb_buffer_size_bytes", "buffer")),
        severity: Warning,
        consequence: "a small buffer pauses early, or drops",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "buffer_map",
        title: "receive buffer by priority",
        reading: Map(by("fabric_dcb_buffer_index", "priority")),
        severity: Warning,
        consequence: "lossless and lossy traffic may share a buffer",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pfc_stall_prevention",
        title: "the adapter's protection against pause storms",
        reading: Set(by("fabric_pfc_stall_prevention", "mode")),
        severity: Warning,
        consequence: "an adapter that hangs may pause its switch for ever",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pause",
        title: "802.3x pause",
        reading: Set(by("fabric_pause_enabled", "direction")),
        severity: Warning,
        consequence: "where PFC is off, a pause stops all priorities of the link",
        far_end: Any,
        within_board: true,
    },
    Key {
        name: "ring_sizes",
        title: "entries of the driver's rings",
        reading: Map(by("fabric_netdev_ring_size", "direction")),
        severity: Note,
        consequence: "a short ring drops bursts of TCP; RDMA does not use it",
        far_end: Any,
        within_board: true,
    },
    Key {
        name: "netdev_mtu",
        title: "MTU of the interface",
        reading: Number("fabric_netdev_mtu_bytes", Unit::Bytes),
        severity: Warning,
        consequence: "large packets are dropped where a smaller MTU is set",
        far_end: AtLeast,
        within_board: false,
    },
    Key {
        name: "rdma_mtu",
        title: "active RDMA MTU",
        reading: Number("fabric_port_mtu_bytes", Unit::Bytes),
        severity: Warning,
        consequence: "queue pairs use the smaller MTU of two ends, and more packets for the same bytes",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "speed",
        title: "speed of the link",
        reading: Number("fabric_port_rate_bytes_per_second", Unit::BitRate),
        severity: Critical,
        consequence: "a collective waits for its slowest link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "width",
        title: "lanes of the link",
        reading: Number("fabric_port_width", Unit::Count),
        severity: Critical,
        consequence: "a collective waits for its slowest link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "fec",
        title: "forward error correction",
        reading: Set(by("fabric_fec_mode", "mode")),
        severity: Warning,
        consequence: "a link with weaker correction loses packets that others repair",
        far_end: Equal,
        within_board: false,
    },
    Key {
        name: "subnet_manager",
        title: "LID of the subnet manager",
        reading: Number("fabric_port_sm_lid", Unit::Count),
        severity: Warning,
        consequence: "a second subnet manager may route and number ports anew",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "partition_keys",
        title: "number of partition keys",
        reading: Number("fabric_port_pkeys", Unit::Count),
        severity: Warning,
        consequence: "queue pairs of a partition that one end lacks cannot connect",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_speed",
        title: "PCIe speed of the adapter",
        reading: Number("fabric_pcie_lane_speed_per_second", Unit::TransferRate),
        severity: Critical,
        consequence: "the adapter cannot read and write memory as fast as the link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_width",
        title: "PCIe lanes of the adapter",
        reading: Number("fabric_pcie_width", Unit::Count),
        severity: Critical,
        consequence: "the adapter cannot read and write memory as fast as the link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "interrupts",
        title: "CPUs that handle the adapter's interrupts",
        reading: Set(by("fabric_device_interrupts", "locality")),
        severity: Note,
        consequence: "each interrupt of a far CPU crosses the link between sockets, which slows TCP and small messages",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_max_read_request",
        title: "largest PCIe read request",
        reading: Number("fabric_pcie_max_read_request_bytes", Unit::Bytes),
        severity: Warning,
        consequence: "an adapter that reads memory in small pieces may not send at the speed of its link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_max_payload",
        title: "largest PCIe payload",
        reading: Number("fabric_pcie_max_payload_bytes", Unit::Bytes),
        severity: Warning,
        consequence: "an adapter that writes memory in small pieces may not receive at the speed of its link",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_relaxed_ordering",
        title: "relaxed ordering of PCIe writes",
        reading: Number("fabric_pcie_relaxed_ordering", Unit::Count),
        severity: Warning,
        consequence: "without it writes wait for each other, which costs throughput on platforms with many memory channels",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "pcie_ats",
        title: "address translation service of the adapter",
        reading: Number("fabric_pcie_ats", Unit::Count),
        severity: Warning,
        consequence: "transfers between adapter and GPU take another path than on other hosts",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "acs",
        title: "access controls (ACS) on bridges above the adapter",
        reading: Set(by("fabric_pcie_acs", "control")),
        severity: Warning,
        consequence: "redirected transfers between adapter and GPU go up to the root complex and down again",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "iommu",
        title: "IOMMU of the adapter",
        reading: Set(by("fabric_pcie_iommu", "type")),
        severity: Warning,
        consequence: "translation of each transfer costs throughput, and moves transfers between adapter and GPU to another path",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "gpudirect",
        title: "ways between GPU memory and adapter (GPUDirect RDMA)",
        reading: Set(by("fabric_gpudirect_available", "method")),
        severity: Warning,
        consequence: "a job uses another way than on other hosts, or copies through host memory",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "firmware",
        title: "firmware of the adapter",
        reading: Info("firmware"),
        severity: Note,
        consequence: "defaults and defects of congestion control differ between versions",
        far_end: Any,
        within_board: true,
    },
    Key {
        name: "driver",
        title: "driver of the adapter",
        reading: Info("driver"),
        severity: Note,
        consequence: "another driver offers other counters and settings",
        far_end: Any,
        within_board: false,
    },
    Key {
        name: "numa_node",
        title: "NUMA node of the adapter",
        reading: Info("numa_node"),
        severity: Note,
        consequence: "memory and GPUs that are near on other hosts are far on this one",
        far_end: Any,
        within_board: false,
    },
];

impl Key {
    /// Position of the key of that name in [`KEYS`].
    pub fn position(name: &str) -> Option<usize> {
        KEYS.iter().position(|key| key.name == name)
    }

    /// The metric that is read; `fabric_port_info` for its labels.
    pub fn metric(&self) -> &'static str {
        match self.reading {
            Number(metric, _) => metric,
            Set(series) | Map(series) => series.metric,
            Info(_) => crate::read::PORT_INFO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_catalog::metrics;

    #[test]
    fn names_are_unique_and_metrics_are_in_the_catalog_with_their_labels() {
        for (at, key) in KEYS.iter().enumerate() {
            assert_eq!(Key::position(key.name), Some(at), "{} stands twice", key.name);
            let metric = metrics::all().find(|metric| metric.prometheus_name() == key.metric());
            let metric = metric.unwrap_or_else(|| panic!("no metric {}", key.metric()));
            let labels = match key.reading {
                Number(..) => vec![],
                Set(series) | Map(series) => {
                    series.only.into_iter().map(|(label, _)| label).chain([series.by]).collect()
                }
                Info(label) => vec![label],
            };
            let unknown: Vec<&str> = labels.into_iter().filter(|label| !metric.labels.contains(label)).collect();
            assert!(unknown.is_empty(), "{} has no labels {unknown:?}", key.metric());
        }
    }
}
