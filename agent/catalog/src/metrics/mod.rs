//! Canonical metrics, one file per theme. A metric is written here once; the agent, the reference page and the
//! check of dashboards and rules all read these tables.

use crate::Metric;

/// Declares the metrics of one theme, each as a documented `static`, and their slice `ALL`.
macro_rules! metrics {
    ($($id:ident, $kind:ident, $scope:ident, $name:literal, $unit:expr, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: $crate::Metric = $crate::Metric {
                name: $name,
                unit: $unit,
                kind: $crate::MetricKind::$kind,
                scope: $crate::Scope::$scope,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// The metrics of this file, in order.
        pub static ALL: &[&$crate::Metric] = &[$(&$id),*];
    };
}

pub mod congestion;
pub mod dcb;
pub mod discard;
pub mod fec;
pub mod host;
pub mod job;
pub mod link;
pub mod microburst;
pub mod netdev;
pub mod optics;
pub mod pause;
pub mod pcie;
pub mod pfc;
pub mod self_;
pub mod state;
pub mod storm;
pub mod traffic;
pub mod transport;
pub mod vendor;

/// Units as the tables write them.
mod words {
    pub(super) use crate::MetricUnit::{self, *};
    pub(super) const PACKETS: MetricUnit = Count("{packet}");
    pub(super) const EVENTS: MetricUnit = Count("{event}");
    pub(super) const ERRORS: MetricUnit = Count("{error}");
    pub(super) const BLOCKS: MetricUnit = Count("{block}");
    pub(super) const SYMBOLS: MetricUnit = Count("{symbol}");
    pub(super) const BITS: MetricUnit = Count("{bit}");
    pub(super) const TICKS: MetricUnit = Count("{tick}");
}

/// Themes in the order of the reference page: title and metrics.
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
    ("Optics and temperature", optics::ALL),
    ("Kernel network device", netdev::ALL),
    ("TCP/IP of the host", host::ALL),
    ("Jobs", job::ALL),
    ("Bursts within a second", microburst::ALL),
    ("DCB and congestion-control configuration", dcb::ALL),
    ("Raw vendor counters on request", vendor::ALL),
    ("The agent itself", self_::ALL),
];

/// Every canonical metric.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    THEMES.iter().flat_map(|(_, metrics)| metrics.iter().copied())
}

/// The metric of that OpenTelemetry name.
pub fn by_name(name: &str) -> Option<&'static Metric> {
    all().find(|m| m.name == name)
}

/// What the 100 ms congestion sample reads and nothing else, where the driver's source is cheap enough ([`crate::is_fast`]).
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

/// Metrics that no code of the agent gives yet, and the source that is missing. Their vendor counters are bound, so
/// that a reader of that source needs no new rows.
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
    ("devlink, which the agent does not ask yet", &[&transport::HEALTH_ERRORS, &transport::HEALTH_RECOVERIES]),
    ("the DCBX mode, which the agent does not ask yet", &[&dcb::DCB_MODE]),
];
