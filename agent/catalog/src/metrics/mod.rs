//! Canonical metrics, one file per theme. Each metric is defined once; the agent, the reference page and the checks of
//! dashboards and alert rules read these tables.

use crate::metric::Metric;

/// Declares the metrics of one theme, each as a documented `static`, and their slice `ALL`.
macro_rules! metrics {
    ($($id:ident, $kind:ident, $scope:ident, $name:literal, $unit:expr, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: $crate::metric::Metric = $crate::metric::Metric {
                name: $name,
                unit: $unit,
                kind: $crate::metric::MetricKind::$kind,
                scope: $crate::metric::Scope::$scope,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// The metrics of this file, in order.
        pub static ALL: &[&$crate::metric::Metric] = &[$(&$id),*];
    };
}

pub mod collective;
pub mod congestion;
pub mod dcb;
pub mod discard;
pub mod fec;
pub mod gpu;
pub mod host;
pub mod ib_fabric;
pub mod job;
pub mod kernel_log;
pub mod link;
pub mod microburst;
pub mod netdev;
pub mod nvlink;
pub mod optics;
pub mod pause;
pub mod pcie;
pub mod pfc;
pub mod port_probes;
pub mod probes;
pub mod self_;
pub mod state;
pub mod storm;
pub mod switch;
pub mod switch_events;
pub mod traffic;
pub mod transport;
mod units;
pub mod vendor;

/// Title and metrics of each theme, in the order of the reference page.
pub static THEMES: &[(&str, &[&Metric])] = &[
    ("State and identity of ports", state::ALL),
    ("Traffic", traffic::ALL),
    ("Priority flow control (PFC)", pfc::ALL),
    ("Global pause (802.3x)", pause::ALL),
    ("Pause storms", storm::ALL),
    ("Congestion: ECN, CNP, waiting to send", congestion::ALL),
    ("RDMA transport", transport::ALL),
    ("Link errors and events", link::ALL),
    ("Forward error correction", fec::ALL),
    ("Discards and buffers", discard::ALL),
    ("PCIe", pcie::ALL),
    ("GPUs and their adapters", gpu::ALL),
    ("GPUs and NVLinks by NVML", nvlink::ALL),
    ("Optics and temperature", optics::ALL),
    ("Kernel network device", netdev::ALL),
    ("Probes between ports", port_probes::ALL),
    ("TCP/IP of the host", host::ALL),
    ("Jobs", job::ALL),
    ("Kernel log", kernel_log::ALL),
    ("Collectives of jobs", collective::ALL),
    ("Bursts within a second", microburst::ALL),
    ("Switches: queues, buffers, watchdogs", switch::ALL),
    ("Switches: events", switch_events::ALL),
    ("DCB and congestion-control configuration", dcb::ALL),
    ("Raw vendor counters on request", vendor::ALL),
    ("The agent itself", self_::ALL),
    ("The reader of an InfiniBand subnet itself", ib_fabric::ALL),
    ("Tracing and probing themselves", probes::ALL),
];

/// Every canonical metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    THEMES.iter().flat_map(|(_, metrics)| metrics.iter().copied())
}

/// The metric with this OpenTelemetry name.
pub fn by_name(name: &str) -> Option<&'static Metric> {
    all().find(|m| m.name == name)
}

/// The metrics of the congestion sample (every 100 ms), read only from sources that are cheap enough ([`crate::is_fast`]).
pub static CONGESTION: &[&Metric] = &[
    &traffic::PORT_IO,
    &traffic::PORT_PRIORITY_IO,
    &traffic::RDMA_IO,
    &netdev::NETDEV_IO,
    &pfc::PFC_FRAMES,
    &pfc::PFC_PAUSE,
    &pause::PAUSE_FRAMES,
    &pause::PAUSE_DURATION,
    &congestion::CNP_PACKETS,
    &congestion::CNP_IGNORED,
    &congestion::ECN_PACKETS,
    &congestion::XMIT_WAIT,
    &congestion::XMIT_WAIT_TICKS,
];

/// Metrics that the agent does not export yet, with the source that is missing. Their vendor counters are in the tables,
/// so that a sampler of that source needs no new rows.
pub static NOT_EXPORTED: &[(&str, &[&Metric])] = &[
    (
        "performance MADs, which the agent does not send yet",
        &[
            &state::WAIT_TICK,
            &traffic::SL_IO,
            &traffic::OPCODE_IO,
            &traffic::OPCODE_PACKETS,
            &traffic::OPCODE_VL_IO,
            &traffic::OPCODE_VL_PACKETS,
            &congestion::CNP_SL_PACKETS,
            &congestion::ECN_SL_PACKETS,
            &congestion::CONGESTED_TICKS,
            &congestion::VL_CONGESTED_TICKS,
            &link::VL_FLOW_CONTROL_ERRORS,
            &fec::FEC_CORRECTED_SYMBOLS,
            &fec::FEC_LANE_CORRECTED_SYMBOLS,
            &discard::PORT_DISCARD_DETAILS,
        ],
    ),
    ("switches, whose counters the collector receives (docs/switches.md)", switch::ALL),
    ("switches that the collector reads by gNMI (docs/gnmi.md)", switch_events::ALL),
    ("devlink, which the agent does not ask yet", &[&transport::HEALTH_ERRORS, &transport::HEALTH_RECOVERIES]),
    ("the DCBX mode, which the agent does not ask yet", &[&dcb::DCB_MODE]),
];

impl Metric {
    /// Whether the congestion sample (every 100 ms) reads this metric.
    pub fn in_congestion_sample(&self) -> bool {
        CONGESTION.contains(&self)
    }
}
