//! Cumulus Linux: OTLP, one gauge per counter.

use super::form::{Form, Message, Point, RX, Reading, TX, address, counter};
use super::otlp::{Sent, request};

/// `nvswitch_…`, each second.
pub static FORM: Form = Form {
    name: "cumulus",
    period_ms: 1000,
    delay_ms: 0,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "nvswitch_interface_if_out_octets"),
        counter("fabric_port_io_bytes_total", &[RX], "nvswitch_interface_ether_stats_octets"),
        counter("fabric_port_packets_total", &[TX], "nvswitch_interface_if_out_pkts"),
        counter("fabric_port_packets_total", &[RX], "nvswitch_interface_ether_stats_pkts"),
        counter("fabric_pfc_frames_total", &[TX], "nvswitch_interface_sp_tx_pause"),
        counter("fabric_pfc_frames_total", &[RX], "nvswitch_interface_sp_rx_pause"),
        counter("fabric_pfc_pause_seconds_total", &[TX], "nvswitch_interface_sp_tx_pause_duration").times(1e6),
        counter("fabric_pfc_pause_seconds_total", &[RX], "nvswitch_interface_sp_rx_pause_duration").times(1e6),
        counter("fabric_ecn_marks_total", &[], "nvswitch_interface_performance_marked_packets"),
        counter("fabric_link_crc_errors_total", &[RX], "nvswitch_interface_dot3_stats_fcs_errors"),
        counter("fabric_port_discards_total", &[("reason", "buffer")], "nvswitch_interface_if_in_discards"),
        counter("fabric_port_queue_bytes", &[], "nvswitch_interface_tc_tx_queue").with(&[("tc", "3")]),
        counter("fabric_port_rate_bytes_per_second", &[], "nvswitch_interface_oper_aggregate_speed").times(8.0),
    ],
    messages,
};

fn messages(reading: &Reading) -> Vec<Message> {
    let sent = |point: &Point| {
        let priority = Some(("switch-priority", point.priority.clone())).filter(|(_, text)| !text.is_empty());
        let more = point.attributes.iter().map(|(name, text)| (*name, (*text).to_owned()));
        let attributes = [("interface", point.port.clone())].into_iter().chain(priority).chain(more).collect();
        Sent { name: point.name.clone(), attributes, time_ms: reading.time_ms, value: point.value }
    };
    let switch = [("net.host.name", reading.switch.clone())];
    vec![Message::Otlp(address(&reading.switch), request(&switch, reading.points.iter().map(sent)))]
}
