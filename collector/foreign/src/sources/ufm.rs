//! Telemetry of NVIDIA UFM, by any agent that turns its endpoint into Prometheus series. Switches and adapters are not told
//! apart in the data; what a GUID is, the topology knows.

use super::ib::{self, Counter};
use crate::row::{PortFrom, Row, is, left_out};
use crate::source::{Describes, PROTOCOL_SUFFIXES, Source, SwitchFrom, keep};

/// `Infiniband_…_u_…`, and the names of the counters that newer releases use.
pub static SOURCE: Source = Source {
    name: "ufm",
    title: "NVIDIA UFM telemetry",
    prefixes: &[
        "Infiniband_",
        "PortXmit",
        "PortRcv",
        "PortUniCast",
        "PortMultiCast",
        "SymbolErrorCounter",
        "LinkErrorRecovery",
        "LinkDowned",
        "LocalLinkIntegrity",
        "ExcessiveBufferOverrun",
        "VL15Dropped",
    ],
    having: &["node_guid"],
    describes: Describes::Switches,
    switch: &[SwitchFrom::Description("node_description"), SwitchFrom::Guid("node_guid", "node_name")],
    suffixes: PROTOCOL_SUFFIXES,
    rename: keep,
    rows: &[ROWS],
};

const PORT: PortFrom = PortFrom::Attribute(&["port_num", "port"]);
const KEY: &str = "identifies the row and is no value";
const RATIO: &str = "computed by UFM from counters that are stored";
const UNIT: &str =
    "named MB and Gb at once, and the unit is not documented; PortXmitDataExtended and PortRcvDataExtended are stored";
const BINS: &str = "a histogram of UFM's own bins";

const fn of(name: &'static str, counter: Counter) -> Row {
    is(name, PORT, counter.metric, counter.labels, counter.conversion)
}

static ROWS: &[Row] = &[
    left_out("timestamp", KEY),
    left_out("source_id", KEY),
    left_out("node_guid", KEY),
    left_out("port_guid", KEY),
    left_out("port_num", KEY),
    left_out("Infiniband_MBOut_u_Gb", UNIT),
    left_out("Infiniband_MBIn_u_Gb", UNIT),
    of("Infiniband_PckOut_u_Packets", ib::XMIT_PACKETS),
    of("Infiniband_PckIn_u_Packets", ib::RCV_PACKETS),
    of("Infiniband_SymbolErrors_u_Errors", ib::SYMBOL_ERRORS),
    of("Infiniband_LinkRecovers_u_Errors", ib::RECOVERIES),
    of("Infiniband_LinkDowned_u_Errors", ib::DOWNS),
    of("Infiniband_RcvErrors_u_Errors", ib::RCV_ERRORS),
    of("Infiniband_RcvRemotePhysErrors_u_Errors", ib::REMOTE_PHYSICAL),
    of("Infiniband_RcvSwRelayErrors_u_Errors", ib::SWITCH_RELAY),
    of("Infiniband_XmtDiscards_u_Errors", ib::XMIT_DISCARDS),
    of("Infiniband_XmtConstraintErrors_u_Errors", ib::XMIT_CONSTRAINT),
    of("Infiniband_RcvConstraintErrors_u_Errors", ib::RCV_CONSTRAINT),
    of("Infiniband_LinkIntegrityErrors_u_Errors", ib::INTEGRITY),
    of("Infiniband_ExcBufOverrunErrors_u_Errors", ib::EXCESSIVE_OVERRUN),
    of("Infiniband_VL15Dropped_u_Drops", ib::VL15_DROPPED),
    of("Infiniband_XmitWait_u_Ticks", ib::XMIT_WAIT),
    left_out("hist{}_u_count", BINS),
    left_out("hist{}", BINS),
    left_out("Infiniband_CBW_f_u_Gbps", RATIO),
    left_out("Infiniband_Normalized_*", RATIO),
    of("PortXmitDataExtended", ib::XMIT_WORDS),
    of("PortXmitData", ib::XMIT_WORDS),
    of("PortRcvDataExtended", ib::RCV_WORDS),
    of("PortRcvData", ib::RCV_WORDS),
    of("PortXmitPktsExtended", ib::XMIT_PACKETS),
    of("PortXmitPkts", ib::XMIT_PACKETS),
    of("PortRcvPktsExtended", ib::RCV_PACKETS),
    of("PortRcvPkts", ib::RCV_PACKETS),
    of("PortUniCastXmitPktsExtended", ib::XMIT_UNICAST),
    of("PortUniCastXmitPkts", ib::XMIT_UNICAST),
    of("PortUniCastRcvPktsExtended", ib::RCV_UNICAST),
    of("PortUniCastRcvPkts", ib::RCV_UNICAST),
    of("PortMultiCastXmitPktsExtended", ib::XMIT_MULTICAST),
    of("PortMultiCastXmitPkts", ib::XMIT_MULTICAST),
    of("PortMultiCastRcvPktsExtended", ib::RCV_MULTICAST),
    of("PortMultiCastRcvPkts", ib::RCV_MULTICAST),
    of("SymbolErrorCounterExtended", ib::SYMBOL_ERRORS),
    of("SymbolErrorCounter", ib::SYMBOL_ERRORS),
    of("LinkErrorRecoveryCounterExtended", ib::RECOVERIES),
    of("LinkErrorRecoveryCounter", ib::RECOVERIES),
    of("LinkDownedCounterExtended", ib::DOWNS),
    of("LinkDownedCounter", ib::DOWNS),
    of("PortRcvErrorsExtended", ib::RCV_ERRORS),
    of("PortRcvErrors", ib::RCV_ERRORS),
    of("PortRcvRemotePhysicalErrorsExtended", ib::REMOTE_PHYSICAL),
    of("PortRcvRemotePhysicalErrors", ib::REMOTE_PHYSICAL),
    of("PortRcvSwitchRelayErrorsExtended", ib::SWITCH_RELAY),
    of("PortRcvSwitchRelayErrors", ib::SWITCH_RELAY),
    of("PortXmitDiscardsExtended", ib::XMIT_DISCARDS),
    of("PortXmitDiscards", ib::XMIT_DISCARDS),
    of("PortXmitConstraintErrorsExtended", ib::XMIT_CONSTRAINT),
    of("PortXmitConstraintErrors", ib::XMIT_CONSTRAINT),
    of("PortRcvConstraintErrorsExtended", ib::RCV_CONSTRAINT),
    of("PortRcvConstraintErrors", ib::RCV_CONSTRAINT),
    of("LocalLinkIntegrityErrorsExtended", ib::INTEGRITY),
    of("LocalLinkIntegrityErrors", ib::INTEGRITY),
    of("ExcessiveBufferOverrunErrorsExtended", ib::EXCESSIVE_OVERRUN),
    of("ExcessiveBufferOverrunErrors", ib::EXCESSIVE_OVERRUN),
    of("VL15DroppedExtended", ib::VL15_DROPPED),
    of("VL15Dropped", ib::VL15_DROPPED),
    of("PortXmitWaitExtended", ib::XMIT_WAIT),
    of("PortXmitWait", ib::XMIT_WAIT),
];
