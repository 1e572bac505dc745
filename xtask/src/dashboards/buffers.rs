//! Dashboard "Buffers": which queues of switches are full, does headroom hold, and does a watchdog intervene?

use super::panel::{Dashboard, Panel, Row, Unit, Var, lines, row};
use super::switch::{OF_SWITCH, worst_rate};

/// Selects series of whole switches.
const POOLS: &str = r#"host=~"$switch""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "buffers",
        title: "Fabriclens: Buffers",
        description: "Which queues are full, does headroom hold, does a watchdog intervene? Watermarks are the highest since the \
                    switch cleared them, which may be hours ago; occupancy is of now.",
        since: "now-30m",
        vars: vec![Var::Switch],
        rows: vec![queues(), shared(), headroom(), watchdog()],
    }
}

/// The highest values of a gauge of ports, by the given labels.
fn highest(gauge: &str, labels: &str) -> String {
    format!("topk(12, max by (host, port, {labels}) ({gauge}{{{OF_SWITCH}}}) > 0)")
}

fn queues() -> Row {
    const QUEUE: &str = "queue, traffic_class";
    const LEGEND: &str = "{{host}} {{port}} queue {{queue}}{{traffic_class}}";
    row(
        "Egress queues",
        vec![
            lines("Queue occupancy", Unit::Bytes)
                .description(
                    "Bytes that wait, of the fullest queues. A queue that is full all the time and sends nothing is \
                    paused; one that sends at line rate is the target of an incast.",
                )
                .query(highest("fabric_port_queue_bytes", QUEUE), LEGEND)
                .no_data("No queue has waiting bytes, or no switch tells."),
            lines("Queue watermarks", Unit::Bytes)
                .description("Most bytes that waited since the switch last cleared its watermarks.")
                .query(highest("fabric_port_queue_watermark_bytes", QUEUE), LEGEND)
                .no_data("No switch tells watermarks."),
        ],
    )
}

fn shared() -> Row {
    row(
        "Shared buffer",
        vec![
            lines("Buffer pools", Unit::Bytes)
                .description("Bytes in the buffer pools of the switch now, and the most since watermarks were cleared.")
                .query(format!("max by (host, pool) (fabric_switch_buffer_bytes{{{POOLS}}})"), "{{host}} {{pool}} now")
                .query(
                    format!("max by (host, pool) (fabric_switch_buffer_watermark_bytes{{{POOLS}}})"),
                    "{{host}} {{pool}} watermark",
                )
                .no_data("No switch tells buffer pools."),
            lines("Shared buffer, by priority group", Unit::Bytes)
                .description(
                    "Bytes that priority groups (ingress buffers) hold, and their watermarks. A group at its limit \
                    pauses its peer.",
                )
                .query(
                    highest("fabric_port_priority_group_occupancy_bytes", "priority_group"),
                    "{{host}} {{port}} group {{priority_group}} now",
                )
                .query(
                    highest("fabric_port_priority_group_watermark_bytes", "priority_group"),
                    "{{host}} {{port}} group {{priority_group}} watermark",
                )
                .no_data("No switch tells priority groups."),
        ],
    )
}

fn headroom() -> Row {
    row(
        "Headroom",
        vec![
            lines("Headroom", Unit::Bytes)
                .description("Bytes in the headroom now, and the most since watermarks were cleared: what arrives after the peer \
                    was paused. Close to its size: the cable is longer than configured, or the peer is slow to stop.")
                .query(highest("fabric_port_headroom_bytes", "priority_group"), "{{host}} {{port}} {{priority_group}} now")
                .query(
                    highest("fabric_port_headroom_watermark_bytes", "priority_group"),
                    "{{host}} {{port}} {{priority_group}} watermark",
                )
                .no_data("No headroom is in use, or no switch tells."),
            lines("Packets dropped by priority groups", Unit::Packets)
                .description("Shared buffer and headroom were full. On a lossless priority this must not happen: the peer sends \
                    although it is paused, or the headroom is too small.")
                .query(
                    worst_rate("fabric_port_priority_group_discards_total", &["priority_group"], ""),
                    "{{host}} {{port}} group {{priority_group}}",
                )
                .no_data("No priority group drops packets."),
        ],
    )
}

fn watchdog() -> Row {
    let panel = |title, unit| -> Panel { lines(title, unit).no_data("No watchdog intervened.") };
    row(
        "PFC watchdog",
        vec![
            panel("Storms", Unit::PerSecond)
                .description("Queues that the switch's PFC watchdog found paused for too long. The device at the other end of the \
                    port pauses it: look there.")
                .query(worst_rate("fabric_pfc_watchdog_events_total", &["queue"], "event=\"storm\","), "{{host}} {{port}} queue {{queue}} counted")
                .query(worst_rate("fabric_pfc_watchdog_notices_total", &["queue"], ""), "{{host}} {{port}} queue {{queue}} reported"),
            panel("Packets dropped by watchdogs", Unit::Packets)
                .description("Packets that watchdogs dropped while a queue was in a storm. Jobs that sent them retransmit.")
                .query(
                    worst_rate("fabric_pfc_watchdog_discards_total", &["direction", "queue"], ""),
                    "{{host}} {{port}} queue {{queue}} {{direction}}",
                ),
        ],
    )
}
