//! Where is congestion, how far does it spread, and does ECN work?

use super::common::{PORTS, below_leaf, bits, by_leaf, of_port, paused, waits};
use super::limits;
use super::panel::{Dashboard, Link, Panel, Row, Unit, Var, heat, lines, row, table};

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "congestion",
        title: "Fabriclens: Congestion",
        says: "Where is congestion, and does ECN work? Read from above: who pauses whom, whether marks and notifications come \
               before pause, what InfiniBand waits for. One bright line that pauses others is a culprit; many that are \
               paused at the same time are its victims.",
        since: "now-30m",
        vars: vec![Var::Leaf, Var::Host],
        rows: vec![pause(), by_place(), ecn(), infiniband(), drops()],
    }
}

fn worst(panel: Panel, expr: &str) -> Panel {
    panel.ask(format!("topk(12, {expr})"), "{{host}} {{device}}").link(Link::Port)
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
            worst(lines("Pause others: culprits", Unit::Share), &format!("{} > 0.001", below_leaf(&paused("transmit", PORTS))))
                .says("Share of time for which a NIC kept its switch from sending. A host forwards nothing, so a host that pauses \
                       is where it begins: a NIC that does not drain (PCIe, memory, a hung GPU), or a NIC gone mad. From 95 % \
                       with nothing received it is a storm: take the port down.")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .none("No host pauses its switch."),
            worst(lines("Are paused: victims", Unit::Share), &format!("{} > 0.001", below_leaf(&paused("receive", PORTS))))
                .says("Share of time for which a port was kept from sending. These wait for somebody else: find who, at the left, or \
                       in the incident.")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .none("No port is paused."),
            lines("PFC by priority, mean of all ports", Unit::Share)
                .says("Only priorities that carry RDMA should be here (often 3). Pause in another priority: the DSCP map or trust mode \
                       of some host is wrong.")
                .ask(format!("{} > 0", by_priority("receive")), "paused, priority {{priority}}")
                .ask(format!("{} > 0", by_priority("transmit")), "pauses, priority {{priority}}")
                .down("pauses")
                .none("No priority is paused."),
            lines("Pause frames", Unit::Packets)
                .says("Frames a second. Adapters that count no time (bnxt, ionic, irdma) show here alone; each frame may stand for up \
                       to 84 µs at 400 Gb/s.")
                .ask(
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
                .says("The worst port below each leaf. One strong row: trouble below that leaf. All rows: the spine, or no ECN. Ports whose \
                       switch nobody tells (LLDP off) are in one row.")
                .ask(by_leaf("max", &below_leaf(&paused("receive", PORTS))), "{{switch}}"),
            heat("Paused, by rail", Unit::Share)
                .says("The worst port of each device name; where hosts have a NIC for each rail, device N is rail N. One strong row: one \
                       rail's switches.")
                .ask(format!("max by (device) ({})", below_leaf(&paused("receive", PORTS))), "{{device}}"),
            heat("Notifications received, by leaf", Unit::Packets)
                .says("Senders below each leaf that are told to slow down. Pause without this: ECN does not work there.")
                .ask(
                    by_leaf("sum", &below_leaf(&of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{PORTS}")))),
                    "{{switch}}",
                ),
            heat("Sent, by rail", Unit::BitsPerSecond)
                .says("Rails of one job carry the same. A rail that is paler than its siblings is slow, or not used.")
                .ask(format!("sum by (device) ({})", below_leaf(&bits("transmit", PORTS))), "{{device}}"),
        ],
    )
}

fn ecn() -> Row {
    let cnp = |direction: &str| of_port("fabric_cnp_packets_total", &format!("direction=\"{direction}\",{PORTS}"));
    row(
        "ECN and CNP",
        vec![
            lines("Marked packets that arrive", Unit::Share)
                .says("Share of RDMA packets with a congestion mark, of the ports that get most. Marks are how congestion should be \
                       told: some are healthy. None, while ports are paused: switches do not mark.")
                .ask(
                    format!(
                        "topk(12, {} / on (host, device, port) {} > 0)",
                        of_port("fabric_ecn_packets_total", PORTS),
                        of_port("fabric_port_packets_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .none("Nothing is marked."),
            lines("Who tells others to slow down", Unit::Packets)
                .says("Notifications sent. The port that sends most is where an incast ends.")
                .ask(format!("topk(12, {} > 0)", cnp("transmit")), "{{host}} {{device}}")
                .link(Link::Port)
                .none("Nobody is overrun."),
            lines("Who is told to slow down", Unit::Packets)
                .says("Notifications received and acted on. Senders that get many and send as much as before do not listen: is \
                       congestion control on (fabric_ecn_enabled)?")
                .ask(format!("topk(12, {} > 0)", cnp("receive")), "{{host}} {{device}}")
                .link(Link::Port)
                .none("Nobody is told."),
            table("Notifications ignored, and congestion control switched off", Unit::Count)
                .says("Ports that ignored notifications in the last half hour, and ports where congestion control is off for a priority \
                       that has PFC: set them as their neighbours are.")
                .ask(
                    format!("sum by (host, device) (increase(fabric_cnp_ignored_total{{{PORTS}}}[30m])) > 0"),
                    "ignored",
                )
                .ask(
                    format!(
                        "count by (host, device) (fabric_ecn_enabled{{{PORTS}}} == 0 and on (host, device, port, priority) \
                         fabric_pfc_enabled == 1)"
                    ),
                    "off for priorities",
                )
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .none("All listen."),
        ],
    )
}

fn infiniband() -> Row {
    row(
        "Credits (InfiniBand)",
        vec![
            worst(lines("Could not send, of line rate", Unit::Share), &format!("{} > 0.001", below_leaf(&waits(PORTS))))
                .says("XmitWait over the line rate: data waited and there were no credits, or arbitration was lost. 5 % over a minute \
                       is congestion, 20 % is hot. Whether the receiver or the network is narrow, the incident says.")
                .limit(limits::WAITS, "orange")
                .limit(limits::WAITS_HOT, "red")
                .max(1.0)
                .none("No port waits for credits."),
            heat("Could not send, by leaf", Unit::Share)
                .says("The worst port below each leaf.")
                .ask(by_leaf("max", &below_leaf(&waits(PORTS))), "{{switch}}")
                .high(8)
                .none("No InfiniBand port tells of credits."),
        ],
    )
}

fn drops() -> Row {
    row(
        "What was lost of it",
        vec![
            lines("Packets dropped", Unit::Packets)
                .says("Packets without error that ports dropped. In a lossless priority there should be none: PFC is off on one side, \
                       or headroom is too small.")
                .ask(
                    format!(
                        "topk(12, sum by (host, device, reason) (rate(fabric_port_discards_total{{{PORTS}}}[$__rate_interval])) > 0)"
                    ),
                    "{{host}} {{device}} {{reason}}",
                )
                .link(Link::Port)
                .none("Nothing is dropped."),
            lines("Sent again", Unit::PerSecond)
                .says("Lost packets that senders were told of, and acknowledgements that did not come. On one host: that host or its \
                       cable. On many: the network.")
                .ask(
                    format!(
                        "topk(8, {} > 0)",
                        of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}} {{device}} lost",
                )
                .ask(format!("topk(8, {} > 0)", of_port("fabric_rdma_ack_timeouts_total", PORTS)), "{{host}} {{device}} timeout")
                .link(Link::Port)
                .none("Nothing is sent again."),
        ],
    )
}
