//! Prometheus exporters that run on SONiC switches (vinted/sonic-exporter and its forks), by remote write. The switch is the
//! scrape target.

use crate::conversion::Conversion;
use crate::row::{AS_IS, Label, LabelValue, PortFrom, RX, Row, TX, fixed, from, is, left_out};
use crate::source::{Describes, PROTOCOL_SUFFIXES, Source, SwitchFrom, keep};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{discard, link, optics, state, switch, traffic};

/// `sonic_…`
pub static SOURCE: Source = Source {
    name: "sonic_exporter",
    title: "vinted/sonic-exporter and forks (remote write)",
    prefixes: &["sonic_"],
    having: &[],
    describes: Describes::Switches,
    switch: &[SwitchFrom::Instance],
    suffixes: PROTOCOL_SUFFIXES,
    rename: keep,
    rows: &[ROWS],
};

const PORT: PortFrom = PortFrom::Attribute(&["device", "interface"]);
const QUEUE: Label = from("queue", &["queue"]);
/// Upper edges of frame sizes, as the exporter writes its ranges.
const SIZES: &[(&str, &str)] = &[
    ("64", "64"),
    ("65-127", "127"),
    ("65_to_127", "127"),
    ("128-255", "255"),
    ("128_to_255", "255"),
    ("256-511", "511"),
    ("256_to_511", "511"),
    ("512-1023", "1023"),
    ("512_to_1023", "1023"),
    ("1024-1518", "1518"),
    ("1024_to_1518", "1518"),
    ("1519-2047", "2047"),
    ("1519_to_2047", "2047"),
    ("2048-4095", "4095"),
    ("2048_to_4095", "4095"),
    ("4096-9216", "9216"),
    ("4096_to_9216", "9216"),
    ("9217-16383", "16383"),
    ("9217_to_16383", "16383"),
];
const SIZE: Label = Label { name: "size", value: LabelValue::Choice("size", SIZES) };
const CASTS: &[(&str, &str)] = &[("unicast", "unicast"), ("multicast", "multicast"), ("broadcast", "broadcast")];
const CAST: Label = Label { name: "cast", value: LabelValue::Choice("method", CASTS) };

const SELF: &str = "the exporter's own health";
const LLDP: &str = "LLDP; topology comes from agents and topology files";
const MODULE: &str = "state and flags of modules; their measured values are stored";
const CONFIGURATION: &str = "configuration of the switch";
const BUNDLE: &str = "bundles of links; their member ports are stored";
const RAW_METHOD: &str = "a method of sending that the catalog does not count";

const fn port(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, PORT, metric, labels, AS_IS)
}

static ROWS: &[Row] = &[
    left_out("sonic_interface_info", "facts in labels; no canonical metric yet"),
    port("sonic_interface_mtu_bytes", &state::PORT_MTU, &[]),
    // Bytes per second, although the name says bytes.
    port("sonic_interface_speed_bytes", &state::PORT_RATE, &[]),
    left_out("sonic_interface_admin_status", CONFIGURATION),
    port("sonic_interface_operational_status", &state::PORT_UP, &[]),
    port("sonic_interface_transceiver_temperature_celsius", &optics::MODULE_TEMPERATURE, &[]),
    port("sonic_interface_transceiver_voltage", &optics::MODULE_SUPPLY, &[]),
    is(
        "sonic_interface_optic_transmit_power_dbm",
        PORT,
        &optics::MODULE_TX_POWER,
        &[from("lane", &["unit", "lane"])],
        Conversion::Dbm,
    ),
    is(
        "sonic_interface_optic_receive_power_dbm",
        PORT,
        &optics::MODULE_RX_POWER,
        &[from("lane", &["unit", "lane"])],
        Conversion::Dbm,
    ),
    port("sonic_interface_transmit_ethernet_packets_total", &traffic::PORT_FRAMES_SIZE, &[TX, SIZE]),
    port("sonic_interface_receive_ethernet_packets_total", &traffic::PORT_FRAMES_SIZE, &[RX, SIZE]),
    port("sonic_interface_transmit_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, TX])
        .when(&[("method", "unicast")]),
    port("sonic_interface_transmit_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, TX])
        .when(&[("method", "multicast")]),
    port("sonic_interface_transmit_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, TX])
        .when(&[("method", "broadcast")]),
    left_out("sonic_interface_transmit_packets_total", RAW_METHOD),
    port("sonic_interface_receive_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, RX])
        .when(&[("method", "unicast")]),
    port("sonic_interface_receive_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, RX])
        .when(&[("method", "multicast")]),
    port("sonic_interface_receive_packets_total", &traffic::PORT_PACKETS_CAST, &[CAST, RX])
        .when(&[("method", "broadcast")]),
    left_out("sonic_interface_receive_packets_total", RAW_METHOD),
    port("sonic_interface_transmit_errs_total", &discard::PORT_DISCARDS, &[TX, fixed("reason", "discarded")])
        .when(&[("type", "discard")]),
    port("sonic_interface_transmit_errs_total", &link::LINK_ERRORS, &[TX, fixed("reason", "any")])
        .when(&[("type", "error")]),
    port("sonic_interface_transmit_errs_total", &link::LINK_ERRORS, &[TX, from("reason", &["type"])]),
    port("sonic_interface_receive_errs_total", &discard::PORT_DISCARDS, &[RX, fixed("reason", "discarded")])
        .when(&[("type", "discard")]),
    port("sonic_interface_receive_errs_total", &link::RCV_ERRORS, &[]).when(&[("type", "error")]),
    port("sonic_interface_receive_errs_total", &link::LINK_ERRORS, &[RX, from("reason", &["type"])]),
    port("sonic_interface_transmit_bytes_total", &traffic::PORT_IO, &[TX]),
    port("sonic_interface_receive_bytes_total", &traffic::PORT_IO, &[RX]),
    port("sonic_queue_packets_total", &traffic::PORT_QUEUE_PACKETS, &[TX, QUEUE]),
    port("sonic_queue_bytes_total", &traffic::PORT_QUEUE_IO, &[TX, QUEUE]),
    port("sonic_queue_dropped_packets_total", &discard::PORT_QUEUE_DISCARDS, &[TX, QUEUE]),
    port("sonic_queue_dropped_bytes_total", &discard::PORT_QUEUE_DISCARD_IO, &[TX, QUEUE]),
    // No counters, in spite of their names.
    left_out("sonic_queue_shared_watermark_bytes_total", "the shared part of the watermark, which is stored"),
    port("sonic_queue_watermark_bytes_total", &switch::QUEUE_WATERMARK, &[QUEUE]).when(&[("watermark", "user")]),
    port("sonic_queue_watermark_bytes_total", &switch::QUEUE_WATERMARK, &[QUEUE]).when(&[("watermark", "")]),
    left_out("sonic_queue_watermark_bytes_total", "another reading of the same queue; one watermark is stored"),
    left_out("sonic_lldp_*", LLDP),
    left_out("sonic_transceiver_*", MODULE),
    left_out("sonic_switch_*", CONFIGURATION),
    left_out("sonic_lag_*", BUNDLE),
    left_out("sonic_exporter_*", SELF),
    left_out("sonic_interface_scrape_duration_seconds", SELF),
    left_out("sonic_interface_collector_success", SELF),
    left_out("sonic_queue_scrape_duration_seconds", SELF),
    left_out("sonic_queue_collector_success", SELF),
    left_out("sonic_hw_*", "fans, power and temperature of the switch's case"),
    left_out("sonic_crm_*", "tables of the ASIC"),
];
