//! NVIDIA Cumulus Linux: OTLP of Spectrum switches (5.10 and later). Counters arrive as gauges, some newer ones as sums.
//! The switch is the resource attribute `net.host.name`; labels that an operator adds to an export are ignored.

use crate::conversion::Conversion;
use crate::row::{AS_IS, Label, LabelValue, PortFrom, RX, Row, TX, fixed, from, is, left_out};
use crate::source::{Describes, PROTOCOL_SUFFIXES, Source, SwitchFrom, keep};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{
    congestion, discard, fec, link, optics, pause, pfc, state, switch, switch_events, traffic,
};

mod buffers;
mod removed;

/// `nvswitch_…`
pub static SOURCE: Source = Source {
    name: "cumulus",
    title: "NVIDIA Cumulus Linux (OTLP)",
    prefixes: &["nvswitch_"],
    having: &[],
    describes: Describes::Switches,
    switch: &[
        SwitchFrom::Attribute("net_host_name"),
        SwitchFrom::Attribute("host_name"),
        SwitchFrom::Attribute("host"),
    ],
    suffixes: PROTOCOL_SUFFIXES,
    rename: keep,
    rows: &[INTERFACE, FRAME_SIZES, QUALITY_OF_SERVICE, PHYSICAL, buffers::ROWS, PLATFORM, OTHER, removed::ROWS],
};

const INTERFACE_PORT: PortFrom = PortFrom::Attribute(&["interface"]);
/// A transceiver belongs to a front panel port.
const MODULE: PortFrom = PortFrom::Prefixed("swp", "port");
/// The document does not print how the attribute of a switch priority is called.
const PRIORITY: Label = from("priority", &["priority", "switch_priority", "sp", "prio", "pcp"]);
const CLASS: Label = from("traffic_class", &["tc", "traffic_class"]);
const GROUP: Label = from("priority_group", &["pg", "priority_group"]);

const SIGNED: &str = "a fact of the interface that no verdict needs";
const LLDP: &str = "LLDP; the topology needs the names of neighbors and their ports only";
const NEIGHBOR: Label = from("neighbor", &["system_name"]);
const LATENCY: &str = "round trips measured by switches; no canonical metric yet";
const HISTOGRAM: &str = "a histogram of the switch's own bins; no canonical metric yet";
const ALARM: &str = "an alarm against the module's own thresholds; the value itself is stored";
const INFO: &str = "facts in labels; no canonical metric yet";
const MACHINE: &str = "the switch as a computer (processor, fans, routing, access control), not its ports";

const fn port(name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, INTERFACE_PORT, metric, labels, AS_IS)
}

const fn scaled(name: &'static str, metric: &'static Metric, labels: &'static [Label], factor: f64) -> Row {
    is(name, INTERFACE_PORT, metric, labels, Conversion::Scale(factor))
}

const fn detail(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &discard::PORT_DISCARD_DETAILS, labels)
}

const fn error(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &link::LINK_ERRORS, labels)
}

static INTERFACE: &[Row] = &[
    is("nvswitch_interface_oper_state", INTERFACE_PORT, &state::PORT_UP, &[], Conversion::OnlyBit(1)),
    port("nvswitch_interface_dot3_control_in_unknown_opcodes", &pause::PAUSE_UNSUPPORTED_FRAMES, &[]),
    port("nvswitch_interface_dot3_in_pause_frames", &pause::PAUSE_FRAMES, &[RX]),
    port("nvswitch_interface_dot3_out_pause_frames", &pause::PAUSE_FRAMES, &[TX]),
    error("nvswitch_interface_dot3_stats_carrier_sense_errors", &[TX, fixed("reason", "carrier")]),
    left_out("nvswitch_interface_dot3_stats_deferred_transmissions", "happens on half-duplex links only"),
    port("nvswitch_interface_dot3_stats_fcs_errors", &link::CRC_ERRORS, &[RX]),
    error("nvswitch_interface_dot3_stats_frame_too_longs", &[RX, fixed("reason", "too_long")]),
    port("nvswitch_interface_dot3_stats_symbol_errors", &link::SYMBOL_ERRORS, &[]),
    left_out(
        "nvswitch_interface_802_dot3_a_frames_transmitted_ok",
        "the same as nvswitch_interface_if_out_pkts less errors, which is stored",
    ),
    port("nvswitch_interface_performance_marked_packets", &congestion::ECN_MARKS, &[]),
    detail("nvswitch_interface_discards_ingress_policy_engine", &[RX, fixed("reason", "policy")]),
    detail("nvswitch_interface_discards_ingress_vlan_membership", &[RX, fixed("reason", "vlan")]),
    detail("nvswitch_interface_discards_ingress_tag_frame_type", &[RX, fixed("reason", "tag")]),
    detail("nvswitch_interface_discards_egress_vlan_membership", &[TX, fixed("reason", "vlan")]),
    detail("nvswitch_interface_discards_loopback_filter", &[TX, fixed("reason", "loopback")]),
    detail("nvswitch_interface_discards_egress_hoq", &[TX, fixed("reason", "hoq")]),
    detail("nvswitch_interface_discards_egress_policy_engine", &[TX, fixed("reason", "policy")]),
    detail("nvswitch_interface_discards_ingress_tx_link_down", &[RX, fixed("reason", "link_down")]),
    detail("nvswitch_interface_discards_egress_stp_filter", &[TX, fixed("reason", "spanning_tree")]),
    detail("nvswitch_interface_discards_egress_hoq_stall", &[TX, fixed("reason", "hoq_stall")]),
    detail("nvswitch_interface_discards_egress_sll", &[TX, fixed("reason", "lifetime")]),
    port("nvswitch_interface_carrier_up_changes_total", &link::CARRIER_TRANSITIONS, &[fixed("state", "up")]),
    port("nvswitch_interface_carrier_down_changes_total", &link::CARRIER_TRANSITIONS, &[fixed("state", "down")]),
    port("nvswitch_interface_carrier_changes_total", &link::CARRIER_CHANGES, &[]),
    left_out("nvswitch_interface_carrier_last_change_time_ms", "a time; the changes are counted"),
    port(
        "nvswitch_interface_ether_stats_broadcast_pkts",
        &traffic::PORT_PACKETS_CAST,
        &[fixed("cast", "broadcast"), RX],
    ),
    port(
        "nvswitch_interface_ether_stats_multicast_pkts",
        &traffic::PORT_PACKETS_CAST,
        &[fixed("cast", "multicast"), RX],
    ),
    port("nvswitch_interface_ether_stats_octets", &traffic::PORT_IO, &[RX]),
    port("nvswitch_interface_ether_stats_pkts", &traffic::PORT_PACKETS, &[RX]),
    error("nvswitch_interface_ether_stats_crc_align_errors", &[RX, fixed("reason", "crc_or_alignment")]),
    port("nvswitch_interface_ether_stats_drop_events", &discard::PORT_BUFFER_EVENTS, &[fixed("reason", "drop")]),
    error("nvswitch_interface_ether_stats_fragments", &[RX, fixed("reason", "fragment")]),
    error("nvswitch_interface_ether_stats_jabbers", &[RX, fixed("reason", "jabber")]),
    error("nvswitch_interface_ether_stats_oversize_pkts", &[RX, fixed("reason", "oversize")]),
    error("nvswitch_interface_ether_stats_undersize_pkts", &[RX, fixed("reason", "undersize")]),
    port("nvswitch_interface_if_in_discards", &discard::PORT_DISCARDS, &[RX, fixed("reason", "discarded")]),
    port("nvswitch_interface_if_in_errors", &link::RCV_ERRORS, &[]),
    port("nvswitch_interface_if_in_ucast_pkts", &traffic::PORT_PACKETS_CAST, &[fixed("cast", "unicast"), RX]),
    port("nvswitch_interface_if_out_ucast_pkts", &traffic::PORT_PACKETS_CAST, &[fixed("cast", "unicast"), TX]),
    port("nvswitch_interface_if_out_broadcast_pkts", &traffic::PORT_PACKETS_CAST, &[fixed("cast", "broadcast"), TX]),
    port("nvswitch_interface_if_out_multicast_pkts", &traffic::PORT_PACKETS_CAST, &[fixed("cast", "multicast"), TX]),
    port("nvswitch_interface_if_out_discards", &discard::PORT_DISCARDS, &[TX, fixed("reason", "discarded")]),
    error("nvswitch_interface_if_out_errors", &[TX, fixed("reason", "any")]),
    port("nvswitch_interface_if_out_octets", &traffic::PORT_IO, &[TX]),
    port("nvswitch_interface_if_out_pkts", &traffic::PORT_PACKETS, &[TX]),
    detail("nvswitch_interface_no_buffer_discard_mc", &[TX, fixed("reason", "buffer_multicast")]),
    port("nvswitch_interface_rx_buffer_almost_full", &discard::PORT_BUFFER_EVENTS, &[fixed("reason", "almost_full")]),
    port("nvswitch_interface_rx_buffer_full", &discard::PORT_BUFFER_EVENTS, &[fixed("reason", "full")]),
    error("nvswitch_interface_rx_ebp", &[RX, fixed("reason", "remote_physical")]),
    error("nvswitch_interface_tx_ebp", &[TX, fixed("reason", "remote_physical")]),
    error("nvswitch_interface_tx_int_cksm_err", &[TX, fixed("reason", "internal")]),
    scaled("nvswitch_interface_tx_wait", &switch::XMIT_WAIT_TIME, &[], 1e-9),
    port("nvswitch_interface_mtu_bytes", &state::PORT_MTU, &[]),
    left_out("nvswitch_interface_info", INFO),
    left_out("nvswitch_interface_hw_address_info", INFO),
    left_out("nvswitch_interface_iface_id", SIGNED),
    left_out("nvswitch_interface_flags", SIGNED),
    left_out("nvswitch_interface_proto_down", SIGNED),
    scaled("nvswitch_interface_oper_aggregate_speed", &state::PORT_RATE, &[], 0.125),
    port("nvswitch_interface_number_of_lanes", &state::PORT_WIDTH, &[]),
    left_out("nvswitch_interface_type", SIGNED),
    port("nvswitch_interface_link_debounce_ignored_events", &switch::LINK_DEBOUNCE, &[fixed("event", "ignored_up")])
        .when(&[("event", "up-event")]),
    port("nvswitch_interface_link_debounce_ignored_events", &switch::LINK_DEBOUNCE, &[fixed("event", "ignored_down")])
        .when(&[("event", "down-event")]),
    port("nvswitch_interface_link_debounce_received_events", &switch::LINK_DEBOUNCE, &[fixed("event", "received_up")])
        .when(&[("event", "up-event")]),
    port(
        "nvswitch_interface_link_debounce_received_events",
        &switch::LINK_DEBOUNCE,
        &[fixed("event", "received_down")],
    )
    .when(&[("event", "down-event")]),
    port("nvswitch_interface_link_debounce_timer_cancellations", &switch::LINK_DEBOUNCE, &[fixed("event", "reverted")]),
    port("nvswitch_interface_link_debounce_timer_expirations", &switch::LINK_DEBOUNCE, &[fixed("event", "stable")]),
];

const fn size(name: &'static str, labels: &'static [Label]) -> Row {
    port(name, &traffic::PORT_FRAMES_SIZE, labels)
}

static FRAME_SIZES: &[Row] = &[
    size("nvswitch_interface_ether_stats_pkts64octets", &[RX, fixed("size", "64")]),
    size("nvswitch_interface_tx_stats_pkts64octets", &[TX, fixed("size", "64")]),
    size("nvswitch_interface_ether_stats_pkts65to127octets", &[RX, fixed("size", "127")]),
    size("nvswitch_interface_tx_stats_pkts65to127octets", &[TX, fixed("size", "127")]),
    size("nvswitch_interface_ether_stats_pkts128to255octets", &[RX, fixed("size", "255")]),
    size("nvswitch_interface_tx_stats_pkts128to255octets", &[TX, fixed("size", "255")]),
    size("nvswitch_interface_ether_stats_pkts256to511octets", &[RX, fixed("size", "511")]),
    size("nvswitch_interface_tx_stats_pkts256to511octets", &[TX, fixed("size", "511")]),
    size("nvswitch_interface_ether_stats_pkts512to1023octets", &[RX, fixed("size", "1023")]),
    size("nvswitch_interface_tx_stats_pkts512to1023octets", &[TX, fixed("size", "1023")]),
    size("nvswitch_interface_ether_stats_pkts1024to1518octets", &[RX, fixed("size", "1518")]),
    size("nvswitch_interface_tx_stats_pkts1024to1518octets", &[TX, fixed("size", "1518")]),
    size("nvswitch_interface_ether_stats_pkts1519to2047octets", &[RX, fixed("size", "2047")]),
    size("nvswitch_interface_tx_stats_pkts1519to2047octets", &[TX, fixed("size", "2047")]),
    size("nvswitch_interface_ether_stats_pkts2048to4095octets", &[RX, fixed("size", "4095")]),
    size("nvswitch_interface_tx_stats_pkts2048to4095octets", &[TX, fixed("size", "4095")]),
    size("nvswitch_interface_ether_stats_pkts4096to8191octets", &[RX, fixed("size", "8191")]),
    size("nvswitch_interface_tx_stats_pkts4096to8191octets", &[TX, fixed("size", "8191")]),
    size("nvswitch_interface_ether_stats_pkts8192to10239octets", &[RX, fixed("size", "10239")]),
    size("nvswitch_interface_tx_stats_pkts8192to10239octets", &[TX, fixed("size", "10239")]),
];

static QUALITY_OF_SERVICE: &[Row] = &[
    port("nvswitch_interface_tc_tx_ecn_marked_tc", &switch::QUEUE_MARKS, &[CLASS]),
    port("nvswitch_interface_tc_tx_frames", &switch::TRAFFIC_CLASS_PACKETS, &[TX, CLASS]),
    port(
        "nvswitch_interface_tc_tx_no_buffer_discard_uc",
        &switch::TRAFFIC_CLASS_DISCARDS,
        &[TX, fixed("reason", "buffer"), CLASS],
    ),
    port("nvswitch_interface_tc_tx_octet", &switch::TRAFFIC_CLASS_IO, &[TX, CLASS]),
    port("nvswitch_interface_tc_tx_queue", &switch::QUEUE, &[CLASS]),
    left_out("nvswitch_interface_tc_tx_uc_frames", "unicast alone; all packets of the traffic class are stored"),
    port(
        "nvswitch_interface_tc_tx_wred_discard",
        &switch::TRAFFIC_CLASS_DISCARDS,
        &[TX, fixed("reason", "wred"), CLASS],
    ),
    port("nvswitch_interface_pg_rx_frames", &switch::PRIORITY_GROUP_PACKETS, &[RX, GROUP]),
    port("nvswitch_interface_pg_rx_octet", &switch::PRIORITY_GROUP_IO, &[RX, GROUP]),
    port(
        "nvswitch_interface_sp_rx_discard",
        &discard::PORT_PRIORITY_DISCARDS,
        &[RX, PRIORITY, fixed("reason", "discarded")],
    ),
    port("nvswitch_interface_sp_rx_pause", &pfc::PFC_FRAMES, &[RX, PRIORITY]),
    port("nvswitch_interface_sp_tx_pause", &pfc::PFC_FRAMES, &[TX, PRIORITY]),
    scaled("nvswitch_interface_sp_rx_pause_duration", &pfc::PFC_PAUSE, &[RX, PRIORITY], 1e-6),
    scaled("nvswitch_interface_sp_tx_pause_duration", &pfc::PFC_PAUSE, &[TX, PRIORITY], 1e-6),
    port("nvswitch_interface_trimmed_unicast_pkts", &switch::PORT_TRIMS, &[fixed("outcome", "all")]),
    port("nvswitch_interface_trimmed_tx_unicast_pkts", &switch::PORT_TRIMS, &[fixed("outcome", "sent")]),
    port("nvswitch_interface_trimmed_drop_unicast_pkts", &switch::PORT_TRIMS, &[fixed("outcome", "dropped")]),
    port("nvswitch_interface_tc_trimmed_unicast_pkts", &switch::QUEUE_TRIMS, &[fixed("outcome", "all"), CLASS]),
    is("nvswitch_qos_trimmed_unicast_pkts", PortFrom::Switch, &switch::SWITCH_TRIMS, &[fixed("outcome", "all")], AS_IS),
    is(
        "nvswitch_qos_trimmed_tx_unicast_pkts",
        PortFrom::Switch,
        &switch::SWITCH_TRIMS,
        &[fixed("outcome", "sent")],
        AS_IS,
    ),
    is(
        "nvswitch_qos_trimmed_drop_unicast_pkts",
        PortFrom::Switch,
        &switch::SWITCH_TRIMS,
        &[fixed("outcome", "dropped")],
        AS_IS,
    ),
];

const OTHER_FEC: &str = "a kind of FEC block that is neither corrected nor lost";
const LANE: Label = from("lane", &["lane"]);
const MODULE_LANE: Label = from("lane", &["channel"]);

static PHYSICAL: &[Row] = &[
    left_out("nvswitch_interface_phy_stats_phy_received_bits", "bits of the line; bytes of packets are stored"),
    port(
        "nvswitch_interface_phy_stats_phy_symbol_errors",
        &link::LINK_ERRORS,
        &[RX, fixed("reason", "symbol_after_fec")],
    ),
    port("nvswitch_interface_phy_stats_phy_effective_errors", &link::LINK_ERRORS, &[RX, fixed("reason", "after_fec")]),
    error("nvswitch_interface_phy_stats_phy_raw_errors", &[RX, fixed("reason", "before_fec")]).when(&[("lane", "")]),
    port("nvswitch_interface_phy_stats_phy_raw_errors", &fec::FEC_LANE_ERRORS, &[LANE]),
    port(
        "nvswitch_interface_phy_stats_phy_raw_errors_lane{}",
        &fec::FEC_LANE_ERRORS,
        &[Label { name: "lane", value: LabelValue::Number }],
    ),
    port("nvswitch_interface_phy_stats_raw_ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "raw")])
        .when(&[("lane", "")]),
    port("nvswitch_interface_phy_stats_raw_ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "raw"), LANE]),
    port(
        "nvswitch_interface_phy_stats_raw_ber_lane{}",
        &switch::BIT_ERROR_RATIO,
        &[fixed("kind", "raw"), Label { name: "lane", value: LabelValue::Number }],
    ),
    port("nvswitch_interface_phy_stats_symbol_ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "symbol")]),
    port("nvswitch_interface_phy_stats_effective_ber", &switch::BIT_ERROR_RATIO, &[fixed("kind", "effective")]),
    left_out(
        "nvswitch_interface_phy_layer_time_since_last_clear",
        "age of the counters; a restart of a counter is seen in it",
    ),
    left_out(
        "nvswitch_interface_phy_stats_time_since_last_clear",
        "age of the counters; a restart of a counter is seen in it",
    ),
    port("nvswitch_interface_phy_layer_fec_per_lane_corrections", &fec::FEC_LANE_CORRECTED_BLOCKS, &[LANE])
        .when(&[("mechanism", "fc"), ("state", "corrected")]),
    port("nvswitch_interface_phy_layer_fec_per_lane_corrections", &fec::FEC_LANE_UNCORRECTABLE_BLOCKS, &[LANE])
        .when(&[("mechanism", "fc"), ("state", "uncorrected")]),
    port("nvswitch_interface_phy_layer_fec_per_lane_corrections", &fec::FEC_LANE_UNCORRECTABLE_BLOCKS, &[LANE])
        .when(&[("mechanism", "fc"), ("state", "uncorrectable")]),
    port("nvswitch_interface_phy_layer_fec_per_lane_corrections", &fec::FEC_LANE_CORRECTED_SYMBOLS, &[LANE])
        .when(&[("mechanism", "rs"), ("state", "corrected")]),
    left_out("nvswitch_interface_phy_layer_fec_per_lane_corrections", OTHER_FEC),
    port("nvswitch_interface_phy_layer_fec_block_state_count", &fec::FEC_CORRECTED_BLOCKS, &[])
        .when(&[("mechanism", "rs"), ("state", "corrected")]),
    port("nvswitch_interface_phy_layer_fec_block_state_count", &fec::FEC_UNCORRECTABLE_BLOCKS, &[])
        .when(&[("mechanism", "rs"), ("state", "uncorrectable")]),
    port("nvswitch_interface_phy_layer_fec_block_state_count", &fec::FEC_UNCORRECTABLE_BLOCKS, &[])
        .when(&[("mechanism", "rs"), ("state", "uncorrected")]),
    left_out("nvswitch_interface_phy_layer_fec_block_state_count", OTHER_FEC),
    port("nvswitch_interface_phy_stats_phy_corrected_bits", &fec::FEC_CORRECTED_BITS, &[]),
    port(
        "nvswitch_interface_phy_rs_fec_histogram",
        &switch::FEC_CODEWORDS,
        &[from("symbols", &["bin", "index", "symbols"])],
    ),
    port("nvswitch_interface_phy_stats_link_down_events", &link::LINK_DOWNS, &[]),
    port(
        "nvswitch_interface_phy_stats_intentional_link_down_events",
        &switch::LINK_DOWN_CAUSES,
        &[fixed("cause", "intentional")],
    ),
    port(
        "nvswitch_interface_phy_stats_unintentional_link_down_events",
        &switch::LINK_DOWN_CAUSES,
        &[fixed("cause", "unintentional")],
    ),
    left_out(
        "nvswitch_interface_phy_stats_link_down_reason_code_local",
        "a code of the firmware; the falls are counted",
    ),
    left_out(
        "nvswitch_interface_phy_stats_link_down_reason_code_remote",
        "a code of the firmware; the falls are counted",
    ),
];

static PLATFORM: &[Row] = &[
    left_out("nvswitch_platform_transceiver_info", INFO),
    left_out("nvswitch_platform_transceiver_vendor_info", INFO),
    is("nvswitch_platform_transceiver_temperature", MODULE, &optics::MODULE_TEMPERATURE, &[], AS_IS),
    left_out("nvswitch_platform_transceiver_temperature_alarm", ALARM),
    is("nvswitch_platform_transceiver_voltage", MODULE, &optics::MODULE_SUPPLY, &[], AS_IS),
    left_out("nvswitch_platform_transceiver_voltage_alarm", ALARM),
    is(
        "nvswitch_platform_transceiver_channel_power",
        MODULE,
        &optics::MODULE_RX_POWER,
        &[MODULE_LANE],
        Conversion::Dbm,
    )
    .when(&[("direction", "rx")]),
    is(
        "nvswitch_platform_transceiver_channel_power",
        MODULE,
        &optics::MODULE_TX_POWER,
        &[MODULE_LANE],
        Conversion::Dbm,
    )
    .when(&[("direction", "tx")]),
    left_out("nvswitch_platform_transceiver_channel_power_alarm", ALARM),
    is("nvswitch_platform_transceiver_channel_tx_bias_current", MODULE, &optics::MODULE_BIAS, &[MODULE_LANE], AS_IS),
    left_out("nvswitch_platform_transceiver_channel_tx_bias_current_alarm", ALARM),
    left_out("nvswitch_platform_transceiver_firmware_version", INFO),
    left_out("nvswitch_platform_transceiver_ethernet_pmd", INFO),
    left_out(
        "nvswitch_platform_transceiver_physical_channel_state",
        "loss of signal by channel; the received power is stored",
    ),
    left_out(
        "nvswitch_platform_transceiver_host_lane_state",
        "state of a lane towards the switch; no canonical metric yet",
    ),
];

const fn neighbor(labels: &'static [Label]) -> Row {
    port("nvswitch_lldp_neighbor_info", &switch_events::PORT_NEIGHBOR, labels)
}

const fn machine(prefix: &'static str) -> Row {
    left_out(prefix, MACHINE)
}

static OTHER: &[Row] = &[
    left_out(
        "nvswitch_ar_congestion_changes",
        "port selections of adaptive routing, at least one per packet: not congestion",
    ),
    left_out("nvswitch_srv6_no_sid_drops", "segment routing; no canonical metric yet"),
    left_out("nvswitch_srv6_in_pkts", "segment routing; no canonical metric yet"),
    left_out("nvswitch_lldp_neighbor_info", "the management port").when(&[("interface", "eth0")]),
    left_out("nvswitch_lldp_neighbor_info", "a neighbor without a name").when(&[("system_name", "")]),
    // Where the identifier is a MAC address, the description is the name.
    neighbor(&[NEIGHBOR, from("neighbor_port", &["port_description", "port_id"])]).when(&[("port_id_type", "mac")]),
    neighbor(&[NEIGHBOR, from("neighbor_port", &["port_id"])]),
    left_out("nvswitch_lldp_*", LLDP),
    left_out("nvswitch_histogram_*", HISTOGRAM),
    left_out("nvswitch_interface_latency_measurement_*", LATENCY),
    left_out("nvswitch_interface_step_time_estimate", "the switch's estimate of a training step; jobs report theirs"),
    left_out("nvswitch_wjh_*", "drop events of What Just Happened without a port; drops are counted by port"),
    machine("nvswitch_control_plane_*"),
    machine("nvswitch_platform_*"),
    machine("nvswitch_system_*"),
    machine("nvswitch_acl_*"),
    machine("nvswitch_dot1x_*"),
    machine("nvswitch_interface_dot1x_*"),
    machine("nvswitch_routing_*"),
    machine("nvswitch_router_*"),
    machine("nvswitch_bgp_*"),
    machine("nvswitch_ptp_*"),
    machine("nvswitch_node_*"),
];
