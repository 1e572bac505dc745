//! SONiC's high-frequency telemetry: statistics of SAI by number. The switch is known by its address only.

use super::form::{Counter, Form, Message, Point, RX, Reading, TX, address, counter};
use super::otlp::{Sent, request};

/// Attribute of rows that count a queue: appended to the name of the port.
const QUEUE: &[(&str, &str)] = &[("object_name", "|3")];

/// Paused time, in microseconds.
const fn pause(labels: &'static [(&'static str, &'static str)], name: &'static str) -> Counter {
    counter("fabric_pfc_pause_seconds_total", labels, name).times(1e6)
}

/// `sai_counter_type_…`, one value per counter and second. Ids of a priority are `first + 2 * priority`.
pub static FORM: Form = Form {
    name: "sonic_hft",
    period_ms: 1000,
    delay_ms: 0,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "sai_counter_type_1_stat_9"),
        counter("fabric_port_io_bytes_total", &[RX], "sai_counter_type_1_stat_0"),
        counter("fabric_port_packets_total", &[TX], "sai_counter_type_1_stat_40"),
        counter("fabric_port_packets_total", &[RX], "sai_counter_type_1_stat_41"),
        counter("fabric_pfc_frames_total", &[RX, ("priority", "3")], "sai_counter_type_1_stat_109"),
        counter("fabric_pfc_frames_total", &[TX, ("priority", "3")], "sai_counter_type_1_stat_110"),
        counter("fabric_pfc_frames_total", &[RX, ("priority", "4")], "sai_counter_type_1_stat_111"),
        counter("fabric_pfc_frames_total", &[TX, ("priority", "4")], "sai_counter_type_1_stat_112"),
        pause(&[RX, ("priority", "3")], "sai_counter_type_1_stat_141"),
        pause(&[TX, ("priority", "3")], "sai_counter_type_1_stat_142"),
        pause(&[RX, ("priority", "4")], "sai_counter_type_1_stat_143"),
        pause(&[TX, ("priority", "4")], "sai_counter_type_1_stat_144"),
        counter("fabric_ecn_marks_total", &[], "sai_counter_type_1_stat_70"),
        counter("fabric_link_crc_errors_total", &[RX], "sai_counter_type_1_stat_160"),
        counter("fabric_port_discards_total", &[("reason", "buffer")], "sai_counter_type_1_stat_3"),
        counter("fabric_port_queue_bytes", &[], "sai_counter_type_21_stat_24").with(QUEUE),
    ],
    messages,
};

fn messages(reading: &Reading) -> Vec<Message> {
    let sent = |point: &Point| {
        let of = point.attributes.iter().map(|(_, queue)| *queue).next().unwrap_or_default();
        let attributes = vec![("object_name", format!("{}{of}", point.port))];
        Sent { name: point.name.clone(), attributes, time_ms: reading.time_ms, value: point.value }
    };
    vec![Message::Otlp(address(&reading.switch), request(&[], reading.points.iter().map(sent)))]
}
