//! gNMI of OpenConfig targets and of Cumulus: paths without keys; keys are attributes such as `interface.name`.

use crate::conversion::Conversion;
use crate::row::{AS_IS, Label, PortFrom, RX, Row, TX, fixed, from, is, left_out};
use crate::source::{Describes, Source, keep};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{discard, fec, link, pause, pfc, state, switch, traffic};

/// `interfaces/…`, `qos/…`
pub static SOURCE: Source = Source {
    name: "openconfig",
    title: "OpenConfig and NVIDIA Cumulus Linux (gNMI)",
    prefixes: &[],
    having: &[],
    describes: Describes::Switches,
    switch: &[],
    suffixes: &[],
    rename: keep,
    rows: &[INTERFACES, ETHERNET, QOS, PHYSICAL],
};

const PORT: PortFrom = PortFrom::Attribute(&["interface.name", "interface.interface-id"]);
const QUEUE: Label = from("queue", &["queue.name"]);
const PRIORITY: Label = from("priority", &["switch-priority.priority"]);
const LANE: Label = from("lane", &["lane.lane", "lane.index"]);
const UP: Conversion = Conversion::Words(&[("up", 1.0), ("down", 0.0), ("lower_layer_down", 0.0)]);

const SUM: &str = "the sum of counters that are stored";
const UPPER: &str = "of layers above Ethernet; no verdict needs it";
const FACT: &str = "a fact that no verdict needs";

const fn port(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PORT, metric, labels, AS_IS)
}

const fn cast(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &traffic::PORT_PACKETS_CAST, labels)
}

const fn error(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &link::LINK_ERRORS, labels)
}

static INTERFACES: &[Row] = &[
    is("interfaces/interface/state/oper-status", PORT, &state::PORT_UP, &[], UP),
    port("interfaces/interface/state/mtu", &state::PORT_MTU, &[]),
    port("interfaces/interface/state/counters/in-octets", &traffic::PORT_IO, &[RX]),
    port("interfaces/interface/state/counters/out-octets", &traffic::PORT_IO, &[TX]),
    port("interfaces/interface/state/counters/in-pkts", &traffic::PORT_PACKETS, &[RX]),
    port("interfaces/interface/state/counters/out-pkts", &traffic::PORT_PACKETS, &[TX]),
    cast("interfaces/interface/state/counters/in-unicast-pkts", &[fixed("cast", "unicast"), RX]),
    cast("interfaces/interface/state/counters/out-unicast-pkts", &[fixed("cast", "unicast"), TX]),
    cast("interfaces/interface/state/counters/in-multicast-pkts", &[fixed("cast", "multicast"), RX]),
    cast("interfaces/interface/state/counters/out-multicast-pkts", &[fixed("cast", "multicast"), TX]),
    cast("interfaces/interface/state/counters/in-broadcast-pkts", &[fixed("cast", "broadcast"), RX]),
    cast("interfaces/interface/state/counters/out-broadcast-pkts", &[fixed("cast", "broadcast"), TX]),
    port(
        "interfaces/interface/state/counters/in-discards",
        &discard::PORT_DISCARDS,
        &[RX, fixed("reason", "discarded")],
    ),
    port(
        "interfaces/interface/state/counters/out-discards",
        &discard::PORT_DISCARDS,
        &[TX, fixed("reason", "discarded")],
    ),
    port("interfaces/interface/state/counters/in-errors", &link::RCV_ERRORS, &[]),
    error("interfaces/interface/state/counters/out-errors", &[TX, fixed("reason", "any")]),
    // Of the port; `ethernet/…/in-crc-errors` is the same.
    port("interfaces/interface/state/counters/in-fcs-errors", &link::CRC_ERRORS, &[RX]),
    port("interfaces/interface/state/counters/carrier-transitions", &link::CARRIER_CHANGES, &[]),
    left_out("interfaces/interface/state/counters/in-unknown-protos", UPPER),
    left_out("interfaces/interface/state/counters/last-clear", FACT),
    left_out("interfaces/interface/state/admin-status", FACT),
    left_out("interfaces/interface/state/ifindex", FACT),
];

static ETHERNET: &[Row] = &[
    port("interfaces/interface/ethernet/state/counters/in-mac-pause-frames", &pause::PAUSE_FRAMES, &[RX]),
    port("interfaces/interface/ethernet/state/counters/out-mac-pause-frames", &pause::PAUSE_FRAMES, &[TX]),
    error("interfaces/interface/ethernet/state/counters/in-oversize-frames", &[RX, fixed("reason", "oversize")]),
    error("interfaces/interface/ethernet/state/counters/in-undersize-frames", &[RX, fixed("reason", "undersize")]),
    error("interfaces/interface/ethernet/state/counters/in-jabber-frames", &[RX, fixed("reason", "jabber")]),
    error("interfaces/interface/ethernet/state/counters/in-fragment-frames", &[RX, fixed("reason", "fragment")]),
    port("interfaces/interface/ethernet/state/counters/in-fcs-errors", &link::CRC_ERRORS, &[RX]),
    left_out(
        "interfaces/interface/ethernet/state/counters/in-crc-errors",
        "the same as in-fcs-errors, which is stored",
    ),
    left_out("interfaces/interface/ethernet/state/counters/in-mac-control-frames", SUM),
    left_out("interfaces/interface/ethernet/state/counters/out-mac-control-frames", SUM),
    left_out("interfaces/interface/ethernet/state/counters/in-8021q-frames", UPPER),
    left_out("interfaces/interface/ethernet/state/counters/out-8021q-frames", UPPER),
    left_out("interfaces/interface/ethernet/state/counters/in-maxsize-exceeded", "see in-oversize-frames"),
];

static QOS: &[Row] = &[
    port("qos/interfaces/interface/output/queues/queue/state/transmit-octets", &traffic::PORT_QUEUE_IO, &[TX, QUEUE]),
    port(
        "qos/interfaces/interface/output/queues/queue/state/transmit-pkts",
        &traffic::PORT_QUEUE_PACKETS,
        &[TX, QUEUE],
    ),
    port(
        "qos/interfaces/interface/output/queues/queue/state/dropped-pkts",
        &discard::PORT_QUEUE_DISCARDS,
        &[TX, QUEUE],
    ),
    port(
        "qos/interfaces/interface/output/queues/queue/state/dropped-octets",
        &discard::PORT_QUEUE_DISCARD_IO,
        &[TX, QUEUE],
    ),
    port("qos/interfaces/interface/output/queues/queue/state/ecn-marked-pkts", &switch::QUEUE_MARKS, &[QUEUE]),
    port("qos/interfaces/interface/output/queues/queue/state/max-queue-len", &switch::QUEUE_WATERMARK, &[QUEUE]),
    left_out(
        "qos/interfaces/interface/output/queues/queue/state/avg-queue-len",
        "an average over a time that is not told",
    ),
    left_out("qos/interfaces/interface/output/queues/queue/state/name", FACT),
    left_out("qos/interfaces/interface/output/queues/queue/state/queue-management-profile", FACT),
    port("qos/interfaces/interface/state/switch-priority/counters/in-pause-pkts", &pfc::PFC_FRAMES, &[RX, PRIORITY]),
    port("qos/interfaces/interface/state/switch-priority/counters/out-pause-pkts", &pfc::PFC_FRAMES, &[TX, PRIORITY]),
];

/// Cumulus: physical layer, before 5.15 under `ethernet/phy`.
static PHYSICAL: &[Row] = &[
    port(
        "interfaces/interface/ethernet/phy/state/effective-ber",
        &switch::BIT_ERROR_RATIO,
        &[fixed("kind", "effective")],
    ),
    port("interfaces/interface/ethernet/phy/state/symbol-ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "symbol")]),
    port("interfaces/interface/phy/ber/state/effective-ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "effective")]),
    port("interfaces/interface/phy/ber/state/symbol-ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "symbol")]),
    port("interfaces/interface/ethernet/phy/state/symbol-errors", &link::SYMBOL_ERRORS, &[]),
    port("interfaces/interface/ethernet/phy/state/corrected-bits", &fec::FEC_CORRECTED_BITS, &[]),
    port("interfaces/interface/ethernet/phy/state/rs-fec-uncorrectable-blocks", &fec::FEC_UNCORRECTABLE_BLOCKS, &[]),
    port(
        "interfaces/interface/ethernet/phy/state/lane/rs-fec-corrected-symbols",
        &fec::FEC_LANE_CORRECTED_SYMBOLS,
        &[LANE],
    ),
    port("interfaces/interface/ethernet/phy/state/lane/raw-errors", &link::LANE_ERRORS, &[LANE]),
    left_out("interfaces/interface/ethernet/phy/state/received-bits", SUM),
    left_out("interfaces/interface/ethernet/phy/state/effective-errors", "see the ratio of effective errors"),
    left_out("interfaces/interface/ethernet/phy/state/fec-time-since-last-clear", FACT),
    left_out("interfaces/interface/ethernet/phy/state/ber-time-since-last-clear", FACT),
];
