//! Is the fabric healthy, and where is it hot?

use super::common::{HEARD, PORTS, below_leaf, bits, by_leaf, errors_rate, of_port, paused, waits};
use super::limits;
use super::panel::{Dashboard, Link, Unit, Var, bars, lines, row, stacked, stat, table};

pub fn dashboard() -> Dashboard {
    let ports = r#"port!="""#;
    Dashboard {
        name: "overview",
        title: "Fabriclens: Fleet and fabric",
        says: "Is the fabric healthy, and where is it hot? Open incidents first; a click leads to the incident, the host or the \
               job. If nothing is open and a number is yellow, go to Congestion or Link health.",
        since: "now-1h",
        vars: vec![Var::Leaf, Var::Host],
        rows: vec![
            row(
                "Health",
                vec![
                    stat("Open incidents", Unit::Count)
                        .says("Incidents that are open now. Not 0: the table below tells what, where and who suffers.")
                        .ask("count(fabric_incident_info) or vector(0)", "open")
                        .step(1.0, "red"),
                    stat("Jobs that suffer", Unit::Count)
                        .says("Jobs that lose time to an open incident. Tell their owners; the table of jobs below names them.")
                        .ask(r#"count(count by (cluster, job_id) (fabric_incident_job_info{role="victim"})) or vector(0)"#, "jobs")
                        .step(1.0, "red"),
                    stat("Ports down", Unit::Count)
                        .says("RDMA ports that carry no data. Ports that were never cabled count too; alerts speak only of those \
                               that were up. See Link health.")
                        .ask("count(fabric_port_up{port!=\"\"} == 0) or vector(0)", "down")
                        .step(1.0, "orange"),
                    stat("Ports paused", Unit::Count)
                        .says("Ports that pause, or are paused, 1 % of the time or more: somebody does not drain what it gets. See \
                               Congestion.")
                        .ask(
                            format!(
                                "count({} >= {at} or {} >= {at}) or vector(0)",
                                paused("transmit", ports),
                                paused("receive", ports),
                                at = limits::PAUSED.at
                            ),
                            "paused",
                        )
                        .step(1.0, "orange"),
                    stat("Hosts that tell", Unit::Count)
                        .says("Hosts whose agent sent something in the last minute. Fewer than you have: see Fabriclens itself.")
                        .ask(format!("count({HEARD}) or vector(0)"), "hosts"),
                    stat("Traffic", Unit::BitsPerSecond)
                        .says("What all RDMA ports together send.")
                        .ask(format!("sum({})", bits("transmit", ports)), "sent"),
                ],
            ),
            row(
                "What is wrong",
                vec![
                    table("Open incidents", Unit::Share)
                        .says("Each with its place and how sure the verdict is. `fabriclens incidents ID` has the evidence and what \
                               to do.")
                        .ask(
                            "fabric_incident_confidence * on (id) group_right () \
                             max by (id, kind, severity, node, port, peer, job_id) (fabric_incident_info)",
                            "sure",
                        )
                        .link(Link::Incident)
                        .wide(14)
                        .high(6)
                        .none("Nothing is open."),
                    table("Jobs in incidents", Unit::Share)
                        .says("Who causes (culprit) and who suffers (victim), by how sure the verdict is.")
                        .ask(
                            "max by (cluster, job_id, role, id) (fabric_incident_confidence * on (id) group_right () \
                             fabric_incident_job_info)",
                            "sure",
                        )
                        .link(Link::Job)
                        .link(Link::Incident)
                        .wide(10)
                        .high(6)
                        .none("No job suffers."),
                ],
            ),
            row(
                "Hottest ports",
                vec![
                    bars("Busiest, of line rate", Unit::Share)
                        .says("Ports that send most of what their link carries. Full is no fault; full and paused is congestion.")
                        .ask(
                            format!(
                                "topk(8, {} / on (host, device, port) group_left () (8 * fabric_port_rate_bytes_per_second{{{PORTS}}}))",
                                below_leaf(&bits("transmit", PORTS)),
                            ),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8),
                    bars("Pause others", Unit::Share)
                        .says("Ports that keep their switch from sending: the culprits. A host that does this does not drain what \
                               it gets: look at its PCIe and memory, or reset the NIC if it receives nothing.")
                        .ask(format!("topk(8, {} > 0)", below_leaf(&paused("transmit", PORTS))), "{{host}} {{device}}")
                        .limit(limits::PAUSED, "orange")
                        .limit(limits::STORM, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .none("No host pauses its switch."),
                    bars("Are kept from sending", Unit::Share)
                        .says("Ports that were paused by their switch: the victims. Look for who pauses, beside this.")
                        .ask(format!("topk(8, {} > 0)", below_leaf(&paused("receive", PORTS))), "{{host}} {{device}}")
                        .limit(limits::PAUSED, "orange")
                        .limit(limits::STORM, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .none("No port is paused."),
                    bars("Wait for credits (InfiniBand)", Unit::Share)
                        .says("Share of the line rate that could not be sent (XmitWait): no credits, or lost arbitration.")
                        .ask(format!("topk(8, {} > 0)", below_leaf(&waits(PORTS))), "{{host}} {{device}}")
                        .limit(limits::WAITS, "orange")
                        .limit(limits::WAITS_HOT, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .none("No InfiniBand port waits."),
                    bars("Errors of the wire", Unit::PerSecond)
                        .says("Symbol or CRC errors a second, whichever are more. Any that stays is a cable, a module or a connector: see Link health.")
                        .ask(
                            format!("topk(8, {} > 0)", below_leaf(&errors_rate(PORTS))),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .step(0.1, "red")
                        .wide(8)
                        .none("No link has errors."),
                    bars("Told to slow down", Unit::Packets)
                        .says("Congestion notifications (CNP) that ports send: those who send most are being overrun.")
                        .ask(
                            format!(
                                "topk(8, {} > 0)",
                                below_leaf(&of_port(r"fabric_cnp_packets_total", &format!("direction=\"transmit\",{PORTS}")))
                            ),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .wide(8)
                        .none("No congestion is signalled."),
                ],
            ),
            row(
                "Over time",
                vec![
                    stacked("Traffic by leaf", Unit::BitsPerSecond)
                        .says("What hosts send into each leaf. A leaf that falls while others do not has trouble of its own. \
                               Ports whose switch nobody tells are in one series.")
                        .ask(by_leaf("sum", &below_leaf(&bits("transmit", PORTS))), "{{switch}}")
                        .link(Link::Leaf),
                    lines("Paused, by leaf", Unit::Share)
                        .says("The port below each leaf that was kept from sending longest.")
                        .ask(by_leaf("max", &below_leaf(&paused("receive", PORTS))), "{{switch}}")
                        .limit(limits::PAUSED, "orange")
                        .link(Link::Leaf),
                    lines("Open incidents by kind", Unit::Count)
                        .says("Gaps are calm. A kind that comes and goes all day is not solved: see docs/verdicts.md for what each means.")
                        .ask("count by (kind) (fabric_incident_info)", "{{kind}}")
                        .none("No incident in this time."),
                    lines("Rate of jobs", Unit::BitsPerSecond)
                        .says("What each job sends, from its rollups. A job that falls to nothing and stays there hangs.")
                        .ask(
                            r#"topk(10, sum by (job_id, job_name) (fabric_job_io_bytes_per_second{direction="transmit"}) * 8)"#,
                            "{{job_id}} {{job_name}}",
                        )
                        .link(Link::Job),
                ],
            ),
        ],
    }
}
