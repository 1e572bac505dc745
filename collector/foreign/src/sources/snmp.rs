//! `prometheus/snmp_exporter` by remote write: the interface MIB, and the vendors' MIBs of priority flow control. The switch is
//! the scrape target.

use crate::conversion::Conversion;
use crate::row::{AS_IS, Label, PortFrom, RX, Row, TX, fixed, from, is, left_out};
use crate::source::{Describes, Source, SwitchFrom, keep};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{discard, link, pause, pfc, state, traffic};

/// Objects indexed by `ifIndex`.
pub static SOURCE: Source = Source {
    name: "snmp",
    title: "prometheus/snmp_exporter: IF-MIB and PFC MIBs (remote write)",
    prefixes: &["if", "dot3", "etherStats", "mellanoxQos", "pfcCl", "cpfcIf", "ieee8021Pfc"],
    having: &["ifIndex"],
    describes: Describes::Switches,
    switch: &[SwitchFrom::Instance],
    suffixes: &[],
    rename: keep,
    rows: &[INTERFACES, FLOW_CONTROL],
};

const PORT: PortFrom = PortFrom::Attribute(&["ifName", "ifDescr"]);
const PRIORITY: Label =
    from("priority", &["priority", "mellanoxQosPrio", "pfcClPriority", "cpfcIfPriority", "ieee8021PfcPriority"]);

const NARROW: &str = "32 bits, which a fast link wraps in seconds; the 64-bit object is stored";
const FACT: &str = "a fact of the interface that no verdict needs";
const OLD: &str = "deprecated by the MIB; its parts are stored";

const fn port(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PORT, metric, labels, AS_IS)
}

const fn cast(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &traffic::PORT_PACKETS_CAST, labels)
}

static INTERFACES: &[Row] = &[
    left_out("ifNumber", FACT),
    left_out("ifIndex", FACT),
    left_out("ifType*", FACT),
    port("ifMtu", &state::PORT_MTU, &[]),
    left_out("ifSpeed", "32 bits, too few for a fast link; ifHighSpeed is stored"),
    left_out("ifPhysAddress", FACT),
    left_out("ifAdminStatus", FACT),
    is("ifOperStatus", PORT, &state::PORT_UP, &[], Conversion::Equals(1.0)),
    left_out("ifLastChange", FACT),
    left_out("ifInOctets", NARROW),
    left_out("ifInUcastPkts", NARROW),
    left_out("ifInNUcastPkts", OLD),
    port("ifInDiscards", &discard::PORT_DISCARDS, &[RX, fixed("reason", "discarded")]),
    port("ifInErrors", &link::RCV_ERRORS, &[]),
    port("ifInUnknownProtos", &discard::PORT_DISCARD_DETAILS, &[RX, fixed("reason", "unknown_protocol")]),
    left_out("ifOutOctets", NARROW),
    left_out("ifOutUcastPkts", NARROW),
    left_out("ifOutNUcastPkts", OLD),
    port("ifOutDiscards", &discard::PORT_DISCARDS, &[TX, fixed("reason", "discarded")]),
    port("ifOutErrors", &link::LINK_ERRORS, &[TX, fixed("reason", "any")]),
    left_out("ifOutQLen", OLD),
    left_out("ifSpecific", OLD),
    left_out("ifInMulticastPkts", NARROW),
    left_out("ifInBroadcastPkts", NARROW),
    left_out("ifOutMulticastPkts", NARROW),
    left_out("ifOutBroadcastPkts", NARROW),
    port("ifHCInOctets", &traffic::PORT_IO, &[RX]),
    cast("ifHCInUcastPkts", &[fixed("cast", "unicast"), RX]),
    cast("ifHCInMulticastPkts", &[fixed("cast", "multicast"), RX]),
    cast("ifHCInBroadcastPkts", &[fixed("cast", "broadcast"), RX]),
    port("ifHCOutOctets", &traffic::PORT_IO, &[TX]),
    cast("ifHCOutUcastPkts", &[fixed("cast", "unicast"), TX]),
    cast("ifHCOutMulticastPkts", &[fixed("cast", "multicast"), TX]),
    cast("ifHCOutBroadcastPkts", &[fixed("cast", "broadcast"), TX]),
    left_out("ifLinkUpDownTrapEnable", FACT),
    // Units of 1,000,000 bits per second.
    is("ifHighSpeed", PORT, &state::PORT_RATE, &[], Conversion::Scale(125_000.0)),
    left_out("ifPromiscuousMode", FACT),
    left_out("ifConnectorPresent*", FACT),
    left_out("ifCounterDiscontinuityTime", "when a counter restarted; a restart is seen in the counter"),
    left_out("ifAlias", FACT),
    left_out("ifName", FACT),
    left_out("ifDescr", FACT),
];

const fn pause_time(name: &'static str, labels: &'static [Label]) -> Row {
    is(name, PORT, &pfc::PFC_PAUSE, labels, Conversion::Scale(1e-6))
}

static FLOW_CONTROL: &[Row] = &[
    port("dot3InPauseFrames", &pause::PAUSE_FRAMES, &[RX]),
    port("dot3OutPauseFrames", &pause::PAUSE_FRAMES, &[TX]),
    port("dot3HCInPauseFrames", &pause::PAUSE_FRAMES, &[RX]),
    port("dot3HCOutPauseFrames", &pause::PAUSE_FRAMES, &[TX]),
    port("dot3StatsFCSErrors", &link::CRC_ERRORS, &[RX]),
    port("dot3HCStatsFCSErrors", &link::CRC_ERRORS, &[RX]),
    port("dot3StatsSymbolErrors", &link::SYMBOL_ERRORS, &[]),
    port("dot3HCStatsSymbolErrors", &link::SYMBOL_ERRORS, &[]),
    port("dot3StatsAlignmentErrors", &link::LINK_ERRORS, &[RX, fixed("reason", "alignment")]),
    port("dot3StatsFrameTooLongs", &link::LINK_ERRORS, &[RX, fixed("reason", "too_long")]),
    port("mellanoxQosPrioRxPausePkts", &pfc::PFC_FRAMES, &[RX, PRIORITY]),
    port("mellanoxQosPrioTxPausePkts", &pfc::PFC_FRAMES, &[TX, PRIORITY]),
    pause_time("mellanoxQosPrioRxPauseDuration", &[RX, PRIORITY]),
    pause_time("mellanoxQosPrioTxPauseDuration", &[TX, PRIORITY]),
    port("ieee8021PfcRequests", &pfc::PFC_FRAMES_PORT, &[TX]),
    port("ieee8021PfcIndications", &pfc::PFC_FRAMES_PORT, &[RX]),
    port("cpfcIfRequests", &pfc::PFC_FRAMES_PORT, &[TX]),
    port("cpfcIfIndications", &pfc::PFC_FRAMES_PORT, &[RX]),
    port("cpfcIfPriorityRequests", &pfc::PFC_FRAMES, &[TX, PRIORITY]),
    port("cpfcIfPriorityIndications", &pfc::PFC_FRAMES, &[RX, PRIORITY]),
];
