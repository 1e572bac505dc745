//! Dashboard "Switch": what do the ports of a switch do, and are its samples current?

use super::common::{bits, errors_rate};
use super::panel::{Dashboard, Link, Panel, Row, Unit, Var, lines, row, stat, table};
use super::thresholds;

/// Selects the ports of the selected switches: ports of hosts have a device.
pub const OF_SWITCH: &str = r#"host=~"$switch",device="",port!="""#;
/// The selected switches as they are called in the collector's own series.
const NAMED: &str = r#"switch=~"$switch""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "switch",
        title: "Fabriclens: Switch",
        description: "What do the ports of a switch do, and are its samples current? Pause that a port receives comes from the \
                    device at its other end; pause that it sends holds that device back. Marks say which queue is full.",
        since: "now-30m",
        vars: vec![Var::Switch],
        rows: vec![now(), traffic(), pause(), losses(), links()],
    }
}

/// Rate of a counter of ports, summed by port and more labels, of the ports with most.
pub fn worst_rate(counter: &str, labels: &[&str], more: &str) -> String {
    let by = [&["host", "port"], labels].concat().join(", ");
    format!("topk(12, sum by ({by}) (rate({counter}{{{more}{OF_SWITCH}}}[$__rate_interval])) > 0)")
}

fn now() -> Row {
    row(
        "Samples",
        vec![
            stat("Age of samples", Unit::Seconds)
                .description("Time since the last sample of each switch arrived, by source. The switch counts as silent after \
                    three minutes: `fabriclens switches` shows why.")
                .query(
                    format!("time() - max by (switch, source) (fabriclens_switch_last_received_timestamp_seconds{{{NAMED}}})"),
                    "{{switch}} {{source}}",
                )
                .threshold(60.0, "orange")
                .threshold(180.0, "red")
                .wide(8),
            stat("gNMI streams", Unit::Count)
                .description("Streams that work, of switches that are read by gNMI. 0: the switch is not read.")
                .query(format!("max by (switch) (fabriclens_gnmi_streams{{{NAMED}}})"), "{{switch}}")
                .threshold(1.0, "green")
                .wide(8)
                .no_data("No switch is read by gNMI."),
            stat("Ports up", Unit::Count)
                .description("Ports of each switch whose link is up.")
                .query(format!("sum by (host) (fabric_port_up{{{OF_SWITCH}}})"), "{{host}}")
                .wide(8),
        ],
    )
}

fn traffic() -> Row {
    let panel = |title, description, direction| {
        lines(title, Unit::BitsPerSecond)
            .description(description)
            .query(format!("topk(12, {})", bits(direction, OF_SWITCH)), "{{host}} {{port}}")
    };
    row(
        "Traffic",
        vec![
            panel(
                "Sent by ports",
                "The ports that send most. Uplinks of one switch that differ much: paths are not balanced.",
                "transmit",
            ),
            panel("Received by ports", "The ports that receive most, from the device at their other end.", "receive"),
        ],
    )
}

fn pause() -> Row {
    let paused = |direction: &str| {
        format!(
            "topk(12, max by (host, port, priority) (rate(fabric_pfc_pause_seconds_total{{direction=\"{direction}\",{OF_SWITCH}}}[$__rate_interval])) > 0.001)"
        )
    };
    let panel = |title, description, direction| {
        lines(title, Unit::Share)
            .description(description)
            .query(paused(direction), "{{host}} {{port}} priority {{priority}}")
            .detector_threshold(thresholds::PAUSED, "orange")
            .detector_threshold(thresholds::STORM, "red")
            .max(1.0)
            .no_data("No port is paused.")
    };
    let frames =
        |direction| worst_rate("fabric_pfc_frames_total", &["priority"], &format!("direction=\"{direction}\","));
    row(
        "Pause",
        vec![
            panel(
                "Paused by the other end, by priority",
                "Share of time in which a port may not send. A port of a host that is held: the host does not drain. An \
                    uplink: the trouble is beyond it.",
                "receive",
            ),
            panel(
                "Pauses the other end, by priority",
                "Share of time in which a port holds its peer, because its own buffers are full: follow the ports of \
                    this switch that are paused.",
                "transmit",
            ),
            lines("Pause frames, by priority", Unit::Packets)
                .description("Pause frames per second, also of switches that do not measure pause time.")
                .query(frames("receive"), "{{host}} {{port}} priority {{priority}} received")
                .query(frames("transmit"), "{{host}} {{port}} priority {{priority}} sent")
                .mirrored("sent")
                .no_data("No pause frame."),
            lines("Marked packets, by queue", Unit::Packets)
                .description(
                    "Packets that egress queues marked (ECN): where the congestion is. Pause without marks: the \
                    switch does not mark, or starts too late.",
                )
                .query(
                    worst_rate("fabric_port_queue_ecn_marks_total", &["queue", "traffic_class"], ""),
                    "{{host}} {{port}} queue {{queue}}{{traffic_class}}",
                )
                .query(worst_rate("fabric_ecn_marks_total", &[], ""), "{{host}} {{port}} all queues")
                .no_data("No packet is marked."),
        ],
    )
}

fn losses() -> Row {
    row(
        "Losses",
        vec![
            lines("Packets dropped, by reason", Unit::Packets)
                .description("Packets that ports dropped. A lossless priority drops none: PFC is off at one end, or the headroom \
                    is too small (dashboard Buffers).")
                .query(worst_rate("fabric_port_discards_total", &["direction", "reason"], ""), "{{host}} {{port}} {{direction}} {{reason}}")
                .no_data("No packet is dropped."),
            lines("Packets dropped, by queue", Unit::Packets)
                .description("Packets that egress queues dropped, by queue or traffic class.")
                .query(
                    worst_rate("fabric_port_queue_discards_total", &["queue"], ""),
                    "{{host}} {{port}} queue {{queue}}",
                )
                .query(
                    worst_rate("fabric_port_traffic_class_discards_total", &["traffic_class"], ""),
                    "{{host}} {{port}} class {{traffic_class}}",
                )
                .no_data("No queue drops packets."),
        ],
    )
}

fn links() -> Row {
    let table_of = |panel: Panel| panel.link(Link::Switch).wide(8);
    row(
        "Links",
        vec![
            lines("Link errors", Unit::PerSecond)
                .description(
                    "The larger of symbol and CRC errors. CRC errors of many ports at once are one bad cable before \
                    them, at switches that forward before they check.",
                )
                .query(format!("topk(12, {} > 0)", errors_rate(OF_SWITCH)), "{{host}} {{port}}")
                .wide(8)
                .no_data("No link has errors."),
            lines("Bit error ratio after correction", Unit::Count)
                .description(
                    "As the switch computes it, of the worst ports. Above 1e-14: the cable or module is replaced.",
                )
                .query(
                    format!(
                        "topk(12, max by (host, port) (fabric_link_ber_ratio{{kind=\"effective\",{OF_SWITCH}}}) > 0)"
                    ),
                    "{{host}} {{port}}",
                )
                .detector_threshold(thresholds::BER_12M, "red")
                .wide(8)
                .no_data("No errors remain after correction."),
            table_of(table("Links that went down", Unit::Count))
                .description("Ports whose link went down in the last half hour, and how often.")
                .query(
                    format!("sum by (host, port) (increase(fabric_link_downs_total{{{OF_SWITCH}}}[30m])) > 0"),
                    "times",
                )
                .no_data("No link went down."),
        ],
    )
}
