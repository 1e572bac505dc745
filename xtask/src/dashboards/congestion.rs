//! Dashboard "Congestion": where is congestion, how far does it spread, and does ECN work?

use super::common::{PORTS, below_leaf, bits, by_leaf, of_port, paused, waits};
use super::panel::{Dashboard, Link, Panel, Row, Unit, Var, heat, lines, row, table};
use super::thresholds;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "congestion",
        title: "Fabriclens: Congestion",
        description: "Where is congestion, and does ECN work? Read from top to bottom: ports that pause and are paused, \
                    whether marks and notifications come before pause, what InfiniBand waits for. One bright row that \
                    pauses others is a culprit; many that are paused at the same time are its victims.",
        since: "now-30m",
        vars: vec![Var::Leaf, Var::Host],
        rows: vec![pause(), by_place(), ecn(), infiniband(), drops()],
    }
}

fn worst(panel: Panel, expr: &str) -> Panel {
    panel.query(format!("topk(12, {expr})"), "{{host}} {{device}}").link(Link::Port)
}

fn pause() -> Row {
    let by_priority = |direction: &str| {
        format!(
            "avg by (priority) (rate(fabric_pfc_pause_seconds_total{{direction=\"{direction}\",{PORTS}}}[$__rate_interval]))"
        )
    };
    row(
        "Pause (RoCE)",
        vec![
            worst(lines("Send pause: culprits", Unit::Share), &format!("{} > 0.001", below_leaf(&paused("transmit", PORTS))))
                .description("Share of time in which a NIC paused its switch. A host does not forward, so pause begins at a host: \
                    its NIC does not drain (PCIe, memory, a hung GPU) or is defective. Above 95 % with nothing received \
                    it is a storm: take the port down.")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .no_data("No host pauses its switch."),
            worst(lines("Receive pause: victims", Unit::Share), &format!("{} > 0.001", below_leaf(&paused("receive", PORTS))))
                .description("Share of time in which a port was paused by its switch. These ports are victims; the culprit is in \
                    the panel on the left or in the incident.")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .no_data("No port is paused."),
            lines("PFC by priority, mean of all ports", Unit::Share)
                .description("Only priorities that carry RDMA should appear (often 3). Pause in another priority: the DSCP map or \
                    trust mode of some host is wrong.")
                .query(format!("{} > 0", by_priority("receive")), "received, priority {{priority}}")
                .query(format!("{} > 0", by_priority("transmit")), "sent, priority {{priority}}")
                .mirrored("sent")
                .no_data("No priority is paused."),
            lines("Pause frames", Unit::Packets)
                .description("Pause frames per second. Adapters that do not count pause time (bnxt, ionic, irdma) appear only \
                    here; a frame may stand for up to 84 µs at 400 Gb/s.")
                .query(
                    format!("sum by (direction) (rate(fabric_pfc_frames_total{{{PORTS}}}[$__rate_interval]))"),
                    "{{direction}}",
                ),
        ],
    )
}

fn by_place() -> Row {
    row(
        "By leaf and rail",
        vec![
            heat("Paused, by leaf", Unit::Share)
                .description("The worst port of each leaf. One bright row: a problem below that leaf. All rows: the spine, or no \
                    ECN. Ports with an unknown switch (LLDP off) are one row.")
                .query(by_leaf("max", &below_leaf(&paused("receive", PORTS))), "{{switch}}"),
            heat("Paused, by rail", Unit::Share)
                .description("The worst port of each device name; on hosts with a NIC per rail, device N is rail N. One bright \
                    row: the switches of one rail.")
                .query(format!("max by (device) ({})", below_leaf(&paused("receive", PORTS))), "{{device}}"),
            heat("Notifications received, by leaf", Unit::Packets)
                .description("Congestion notifications received by the hosts of each leaf. Pause without notifications: ECN does \
                    not work there.")
                .query(
                    by_leaf("sum", &below_leaf(&of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{PORTS}")))),
                    "{{switch}}",
                ),
            heat("Sent, by rail", Unit::BitsPerSecond)
                .description("The rails of a job carry the same traffic. A rail that is paler than the others is slow or not used.")
                .query(format!("sum by (device) ({})", below_leaf(&bits("transmit", PORTS))), "{{device}}"),
        ],
    )
}

fn ecn() -> Row {
    let cnp = |direction: &str| of_port("fabric_cnp_packets_total", &format!("direction=\"{direction}\",{PORTS}"));
    row(
        "ECN and CNP",
        vec![
            lines("Marked packets received", Unit::Share)
                .description("Share of received RDMA packets with a congestion mark, of the ports with most. Some marks are \
                    healthy. None while ports are paused: switches do not mark.")
                .query(
                    format!(
                        "topk(12, {} / on (host, device, port) {} > 0)",
                        of_port("fabric_ecn_packets_total", PORTS),
                        of_port("fabric_port_packets_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .no_data("No packet is marked."),
            lines("Notifications sent", Unit::Packets)
                .description("Congestion notifications sent. The port that sends most is the target of an incast.")
                .query(format!("topk(12, {} > 0)", cnp("transmit")), "{{host}} {{device}}")
                .link(Link::Port)
                .no_data("No notification is sent."),
            lines("Notifications received", Unit::Packets)
                .description("Congestion notifications received and handled. Senders that get many and do not slow down ignore \
                    them: is congestion control on (fabric_ecn_enabled)?")
                .query(format!("topk(12, {} > 0)", cnp("receive")), "{{host}} {{device}}")
                .link(Link::Port)
                .no_data("No message is sent."),
            table("Notifications ignored, or congestion control off", Unit::Count)
                .description("Ports that ignored notifications in the last half hour, and ports where congestion control is off \
                    for a priority with PFC: configure them as the other ports.")
                .query(
                    format!("sum by (host, device) (increase(fabric_cnp_ignored_total{{{PORTS}}}[30m])) > 0"),
                    "ignored",
                )
                .query(
                    format!(
                        "count by (host, device) (fabric_ecn_enabled{{{PORTS}}} == 0 and on (host, device, port, priority) \
                         fabric_pfc_enabled == 1)"
                    ),
                    "off for priorities",
                )
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .no_data("All ports handle notifications."),
        ],
    )
}

fn infiniband() -> Row {
    row(
        "Credits (InfiniBand)",
        vec![
            worst(
                lines("Credit wait, share of line rate", Unit::Share),
                &format!("{} > 0.001", below_leaf(&waits(PORTS))),
            )
            .description(
                "XmitWait divided by the line rate: data waited for credits, or arbitration was lost. 5 % over a \
                    minute is congestion, 20 % is hot. The incident shows whether the receiver or the network is the \
                    bottleneck.",
            )
            .detector_threshold(thresholds::WAITS, "orange")
            .detector_threshold(thresholds::WAITS_HOT, "red")
            .max(1.0)
            .no_data("No port waits for credits."),
            heat("Credit wait, by leaf", Unit::Share)
                .description("The worst port of each leaf.")
                .query(by_leaf("max", &below_leaf(&waits(PORTS))), "{{switch}}")
                .high(8)
                .no_data("No InfiniBand port counts credit waits."),
        ],
    )
}

fn drops() -> Row {
    row(
        "Losses",
        vec![
            lines("Packets dropped", Unit::Packets)
                .description("Packets without errors that ports dropped. A lossless priority should drop none: PFC is off on one \
                    side, or the headroom is too small.")
                .query(
                    format!(
                        "topk(12, sum by (host, device, reason) (rate(fabric_port_discards_total{{{PORTS}}}[$__rate_interval])) > 0)"
                    ),
                    "{{host}} {{device}} {{reason}}",
                )
                .link(Link::Port)
                .no_data("No packet is dropped."),
            lines("Retransmissions", Unit::PerSecond)
                .description("Lost packets reported by receivers, and acknowledgement timeouts. On one host: that host or its \
                    cable. On many: the network.")
                .query(
                    format!(
                        "topk(8, {} > 0)",
                        of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}} {{device}} lost",
                )
                .query(format!("topk(8, {} > 0)", of_port("fabric_rdma_ack_timeouts_total", PORTS)), "{{host}} {{device}} timeout")
                .link(Link::Port)
                .no_data("No retransmission."),
        ],
    )
}
