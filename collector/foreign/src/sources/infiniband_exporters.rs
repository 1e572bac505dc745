//! Prometheus exporters of InfiniBand fabrics: treydock/infiniband_exporter and guilbaults/infiniband-exporter, by remote
//! write. Both also tell the adapters' own ports, which agents read on their hosts: those are left out.

use super::ib::{self, Counter};
use crate::conversion::Conversion;
use crate::row::{AS_IS, PortFrom, Row, is, left_out};
use crate::source::{Describes, PROTOCOL_SUFFIXES, Source, SwitchFrom, keep};
use fabriclens_catalog::metrics::state;

const ADAPTER: &str = "a port of a host, which its agent reads";
const SELF: &str = "the exporter's own health";
const MACHINE: &str = "fans, power and temperature of the switch's case";
const NAMES: &str = "tells names of switches; the collector uses it for the other series";

/// treydock/infiniband_exporter: `guid` and `port`.
pub static TREYDOCK: Source = Source {
    name: "treydock",
    title: "treydock/infiniband_exporter (remote write)",
    prefixes: &["infiniband_switch_", "infiniband_hca_", "infiniband_exporter_"],
    having: &[],
    describes: Describes::Switches,
    switch: &[SwitchFrom::Guid("guid", "switch")],
    suffixes: PROTOCOL_SUFFIXES,
    rename: keep,
    rows: &[TREYDOCK_ROWS],
};

const TREYDOCK_PORT: PortFrom = PortFrom::Attribute(&["port"]);

const fn switch(name: &'static str, counter: Counter) -> Row {
    is(name, TREYDOCK_PORT, counter.metric, counter.labels, counter.conversion)
}

static TREYDOCK_ROWS: &[Row] = &[
    switch("infiniband_switch_port_transmit_data_bytes_total", ib::XMIT_BYTES),
    switch("infiniband_switch_port_receive_data_bytes_total", ib::RCV_BYTES),
    switch("infiniband_switch_port_transmit_packets_total", ib::XMIT_PACKETS),
    switch("infiniband_switch_port_receive_packets_total", ib::RCV_PACKETS),
    switch("infiniband_switch_port_unicast_transmit_packets_total", ib::XMIT_UNICAST),
    switch("infiniband_switch_port_unicast_receive_packets_total", ib::RCV_UNICAST),
    switch("infiniband_switch_port_multicast_transmit_packets_total", ib::XMIT_MULTICAST),
    switch("infiniband_switch_port_multicast_receive_packets_total", ib::RCV_MULTICAST),
    switch("infiniband_switch_port_symbol_error_total", ib::SYMBOL_ERRORS),
    switch("infiniband_switch_port_link_error_recovery_total", ib::RECOVERIES),
    switch("infiniband_switch_port_link_downed_total", ib::DOWNS),
    switch("infiniband_switch_port_receive_errors_total", ib::RCV_ERRORS),
    switch("infiniband_switch_port_receive_remote_physical_errors_total", ib::REMOTE_PHYSICAL),
    switch("infiniband_switch_port_receive_switch_relay_errors_total", ib::SWITCH_RELAY),
    switch("infiniband_switch_port_transmit_discards_total", ib::XMIT_DISCARDS),
    switch("infiniband_switch_port_transmit_constraint_errors_total", ib::XMIT_CONSTRAINT),
    switch("infiniband_switch_port_receive_constraint_errors_total", ib::RCV_CONSTRAINT),
    switch("infiniband_switch_port_local_link_integrity_errors_total", ib::INTEGRITY),
    switch("infiniband_switch_port_excessive_buffer_overrun_errors_total", ib::EXCESSIVE_OVERRUN),
    switch("infiniband_switch_port_vl15_dropped_total", ib::VL15_DROPPED),
    switch("infiniband_switch_port_transmit_wait_total", ib::XMIT_WAIT),
    switch("infiniband_switch_port_qp1_dropped_total", ib::QP1_DROPPED),
    switch("infiniband_switch_port_local_physical_errors_total", ib::LOCAL_PHYSICAL),
    switch("infiniband_switch_port_malformed_packet_errors_total", ib::MALFORMED),
    switch("infiniband_switch_port_buffer_overrun_errors_total", ib::OVERRUN),
    switch("infiniband_switch_port_dli_mapping_errors_total", ib::DLID_MAPPING),
    switch("infiniband_switch_port_dlid_mapping_errors_total", ib::DLID_MAPPING),
    switch("infiniband_switch_port_vl_mapping_errors_total", ib::VL_MAPPING),
    switch("infiniband_switch_port_looping_errors_total", ib::LOOPING),
    switch("infiniband_switch_port_inactive_discards_total", ib::INACTIVE),
    switch("infiniband_switch_port_neighbor_mtu_discards_total", ib::NEIGHBOR_MTU),
    switch("infiniband_switch_port_switch_lifetime_limit_discards_total", ib::LIFETIME),
    switch("infiniband_switch_port_switch_hoq_lifetime_limit_discards_total", ib::HOQ),
    is("infiniband_switch_port_rate_bytes_per_second", TREYDOCK_PORT, &state::PORT_RATE, &[], AS_IS),
    left_out("infiniband_switch_port_raw_rate_bytes_per_second", "the signaling rate; the data rate is stored"),
    left_out("infiniband_switch_info", NAMES),
    left_out("infiniband_switch_uplink_info", NAMES),
    left_out("infiniband_switch_hardware_info", "facts in labels; no canonical metric yet"),
    left_out("infiniband_switch_fan_*", MACHINE),
    left_out("infiniband_switch_power_supply_*", MACHINE),
    left_out("infiniband_switch_temperature_celsius", MACHINE),
    left_out("infiniband_switch_uptime_seconds", MACHINE),
    left_out("infiniband_hca_*", ADAPTER),
    left_out("infiniband_exporter_*", SELF),
];

/// guilbaults/infiniband-exporter: both ends of a cable in the labels; data in words of four bytes.
pub static GUILBAULTS: Source = Source {
    name: "guilbaults",
    title: "guilbaults/infiniband-exporter (remote write)",
    prefixes: &["infiniband_"],
    having: &[],
    describes: Describes::Switches,
    switch: &[SwitchFrom::Description("local_name"), SwitchFrom::Guid("local_guid", "local_name")],
    suffixes: PROTOCOL_SUFFIXES,
    rename: keep,
    rows: &[GUILBAULTS_ADAPTERS, GUILBAULTS_ROWS],
};

const GUILBAULTS_PORT: PortFrom = PortFrom::Attribute(&["local_port"]);

const fn end(name: &'static str, counter: Counter) -> Row {
    is(name, GUILBAULTS_PORT, counter.metric, counter.labels, counter.conversion)
}

static GUILBAULTS_ADAPTERS: &[Row] = &[left_out("infiniband_*", ADAPTER).when(&[("component", "ca")])];

static GUILBAULTS_ROWS: &[Row] = &[
    end("infiniband_linkdownedcounter_total", ib::DOWNS),
    end("infiniband_symbolerrorcounter_total", ib::SYMBOL_ERRORS),
    end("infiniband_portxmitconstrainterrors_total", ib::XMIT_CONSTRAINT),
    end("infiniband_portmalformedpkterrors_total", ib::MALFORMED),
    end("infiniband_portswlifetimelimitdiscards_total", ib::LIFETIME),
    end("infiniband_portxmitdiscards_total", ib::XMIT_DISCARDS),
    end("infiniband_portswhoqlifetimelimitdiscards_total", ib::HOQ),
    end("infiniband_portbufferoverrunerrors_total", ib::OVERRUN),
    end("infiniband_portlocalphysicalerrors_total", ib::LOCAL_PHYSICAL),
    end("infiniband_portrcvremotephysicalerrors_total", ib::REMOTE_PHYSICAL),
    end("infiniband_portinactivediscards_total", ib::INACTIVE),
    end("infiniband_portdlidmappingerrors_total", ib::DLID_MAPPING),
    end("infiniband_portvlmappingerrors_total", ib::VL_MAPPING),
    end("infiniband_portloopingerrors_total", ib::LOOPING),
    end("infiniband_portrcvswitchrelayerrors_total", ib::SWITCH_RELAY),
    end("infiniband_qp1dropped_total", ib::QP1_DROPPED),
    end("infiniband_linkerrorrecoverycounter_total", ib::RECOVERIES),
    end("infiniband_locallinkintegrityerrors_total", ib::INTEGRITY),
    end("infiniband_vl15dropped_total", ib::VL15_DROPPED),
    end("infiniband_portneighbormtudiscards_total", ib::NEIGHBOR_MTU),
    end("infiniband_portrcvconstrainterrors_total", ib::RCV_CONSTRAINT),
    end("infiniband_excessivebufferoverrunerrors_total", ib::EXCESSIVE_OVERRUN),
    end("infiniband_portxmitwait_total", ib::XMIT_WAIT),
    end("infiniband_portxmitdata_total", ib::XMIT_WORDS),
    end("infiniband_portrcvdata_total", ib::RCV_WORDS),
    end("infiniband_portxmitpkts_total", ib::XMIT_PACKETS),
    end("infiniband_portrcvpkts_total", ib::RCV_PACKETS),
    end("infiniband_portrcverrors_total", ib::RCV_ERRORS),
    end("infiniband_portunicastxmitpkts_total", ib::XMIT_UNICAST),
    end("infiniband_portunicastrcvpkts_total", ib::RCV_UNICAST),
    end("infiniband_portmulticastxmitpkts_total", ib::XMIT_MULTICAST),
    end("infiniband_portmulticastrcvpkts_total", ib::RCV_MULTICAST),
    left_out("infiniband_speed", "speed of one lane, without the width; the rate comes from the topology"),
    is("infiniband_width", GUILBAULTS_PORT, &state::PORT_WIDTH, &[], Conversion::Scale(1.0)),
    left_out("infiniband_scrape_ok", SELF),
    left_out("infiniband_scrape_duration_seconds", SELF),
    left_out("infiniband_ibqueryerrors_duration_seconds", SELF),
    left_out("infiniband_bad_status_error", SELF),
    left_out("infiniband_query_failed_error", SELF),
    left_out("infiniband_mad_rpc_failed_error", SELF),
    left_out("infiniband_query_cap_mask_error", SELF),
    left_out("infiniband_print_error", SELF),
];
