//! Dashboard "Fleet and fabric": is the fabric healthy, and where is it hot?

use super::common::{HEARD, PORTS, below_leaf, bits, by_leaf, errors_rate, of_port, paused, waits};
use super::panel::{Dashboard, Link, Unit, Var, bars, lines, row, stacked, stat, table};
use super::thresholds;

pub fn dashboard() -> Dashboard {
    let ports = r#"port!="""#;
    Dashboard {
        name: "overview",
        title: "Fabriclens: Fleet and fabric",
        description: "Is the fabric healthy, and where is it hot? Open incidents come first; a click leads to the \
                    incident, the host or the job. If no incident is open and a number is yellow, go to Congestion or \
                    Link health.",
        since: "now-1h",
        vars: vec![Var::Leaf, Var::Host],
        rows: vec![
            row(
                "Health",
                vec![
                    stat("Open incidents", Unit::Count)
                        .description("Incidents that are open now. The table below shows kind, location and jobs.")
                        .query("count(fabric_incident_info) or vector(0)", "open")
                        .threshold(1.0, "red"),
                    stat("Victim jobs", Unit::Count)
                        .description("Victim jobs of open incidents. Inform their owners; the table of jobs below lists them.")
                        .query(r#"count(count by (cluster, job_id) (fabric_incident_job_info{role="victim"})) or vector(0)"#, "jobs")
                        .threshold(1.0, "red"),
                    stat("Ports down", Unit::Count)
                        .description("RDMA ports that carry no data, including ports that were never cabled; alerts cover only ports that \
                    were up. See Link health.")
                        .query("count(fabric_port_up{port!=\"\"} == 0) or vector(0)", "down")
                        .threshold(1.0, "orange"),
                    stat("Ports paused", Unit::Count)
                        .description("Ports that pause or are paused for 1 % of the time or more: a receiver does not drain its traffic. \
                    See Congestion.")
                        .query(
                            format!(
                                "count({} >= {at} or {} >= {at}) or vector(0)",
                                paused("transmit", ports),
                                paused("receive", ports),
                                at = thresholds::PAUSED.at
                            ),
                            "paused",
                        )
                        .threshold(1.0, "orange"),
                    stat("Hosts with samples", Unit::Count)
                        .description("Hosts whose agent sent samples in the last minute. Fewer than expected: see Fabriclens itself.")
                        .query(format!("count({HEARD}) or vector(0)"), "hosts"),
                    stat("Traffic", Unit::BitsPerSecond)
                        .description("Traffic sent by all RDMA ports together.")
                        .query(format!("sum({})", bits("transmit", ports)), "sent"),
                ],
            ),
            row(
                "Incidents",
                vec![
                    table("Open incidents", Unit::Share)
                        .description("Location and confidence of each. `fabriclens incidents ID` shows the evidence and the action.")
                        .query(
                            "fabric_incident_confidence * on (id) group_right () \
                             max by (id, kind, severity, node, port, peer, job_id) (fabric_incident_info)",
                            "confidence",
                        )
                        .link(Link::Incident)
                        .wide(14)
                        .high(6)
                        .no_data("No incident is open."),
                    table("Jobs in incidents", Unit::Share)
                        .description("Culprit and victim jobs, with the confidence of the verdict.")
                        .query(
                            "max by (cluster, job_id, role, id) (fabric_incident_confidence * on (id) group_right () \
                             fabric_incident_job_info)",
                            "confidence",
                        )
                        .link(Link::Job)
                        .link(Link::Incident)
                        .wide(10)
                        .high(6)
                        .no_data("No victim job."),
                ],
            ),
            row(
                "Hottest ports",
                vec![
                    bars("Busiest, of line rate", Unit::Share)
                        .description("Ports with the highest share of their line rate. A full link is no fault; a full and paused one is congestion.")
                        .query(
                            format!(
                                "topk(8, {} / on (host, device, port) group_left () (8 * fabric_port_rate_bytes_per_second{{{PORTS}}}))",
                                below_leaf(&bits("transmit", PORTS)),
                            ),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8),
                    bars("Send pause", Unit::Share)
                        .description("Ports that pause their switch: the culprits. Such a host does not drain its traffic: check its PCIe \
                    and memory, or reset the NIC if it receives nothing.")
                        .query(format!("topk(8, {} > 0)", below_leaf(&paused("transmit", PORTS))), "{{host}} {{device}}")
                        .detector_threshold(thresholds::PAUSED, "orange")
                        .detector_threshold(thresholds::STORM, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .no_data("No host pauses its switch."),
                    bars("Receive pause", Unit::Share)
                        .description("Ports paused by their switch: the victims. The culprits are in the panel of ports that send pause.")
                        .query(format!("topk(8, {} > 0)", below_leaf(&paused("receive", PORTS))), "{{host}} {{device}}")
                        .detector_threshold(thresholds::PAUSED, "orange")
                        .detector_threshold(thresholds::STORM, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .no_data("No port is paused."),
                    bars("Wait for credits (InfiniBand)", Unit::Share)
                        .description("Share of the line rate that could not be sent (XmitWait): no credits, or lost arbitration.")
                        .query(format!("topk(8, {} > 0)", below_leaf(&waits(PORTS))), "{{host}} {{device}}")
                        .detector_threshold(thresholds::WAITS, "orange")
                        .detector_threshold(thresholds::WAITS_HOT, "red")
                        .link(Link::Port)
                        .max(1.0)
                        .wide(8)
                        .no_data("No InfiniBand port waits."),
                    bars("Link errors", Unit::PerSecond)
                        .description("The larger of symbol and CRC errors per second. Any sustained rate is a fault of a cable, module or \
                    connector: see Link health.")
                        .query(
                            format!("topk(8, {} > 0)", below_leaf(&errors_rate(PORTS))),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .threshold(0.1, "red")
                        .wide(8)
                        .no_data("No link has errors."),
                    bars("Congestion notifications sent", Unit::Packets)
                        .description("Congestion notifications (CNP) sent. The ports that send most are overrun by an incast.")
                        .query(
                            format!(
                                "topk(8, {} > 0)",
                                below_leaf(&of_port(r"fabric_cnp_packets_total", &format!("direction=\"transmit\",{PORTS}")))
                            ),
                            "{{host}} {{device}}",
                        )
                        .link(Link::Port)
                        .wide(8)
                        .no_data("No congestion notification is sent."),
                ],
            ),
            row(
                "Over time",
                vec![
                    stacked("Traffic by leaf", Unit::BitsPerSecond)
                        .description("Traffic from hosts into each leaf. A leaf that falls while others do not has a problem of its own. \
                    Ports with an unknown switch are one series.")
                        .query(by_leaf("sum", &below_leaf(&bits("transmit", PORTS))), "{{switch}}")
                        .link(Link::Leaf),
                    lines("Paused, by leaf", Unit::Share)
                        .description("The longest paused port of each leaf.")
                        .query(by_leaf("max", &below_leaf(&paused("receive", PORTS))), "{{switch}}")
                        .detector_threshold(thresholds::PAUSED, "orange")
                        .link(Link::Leaf),
                    lines("Open incidents by kind", Unit::Count)
                        .description("Open incidents by kind. A kind that comes and goes all day is not solved: docs/verdicts.md explains \
                    each kind.")
                        .query("count by (kind) (fabric_incident_info)", "{{kind}}")
                        .no_data("No incident in this time."),
                    lines("Throughput of jobs", Unit::BitsPerSecond)
                        .description("Throughput of each job, from its rollups. A job that falls to zero and stays there hangs.")
                        .query(
                            r#"topk(10, sum by (job_id, job_name) (fabric_job_io_bytes_per_second{direction="transmit"}) * 8)"#,
                            "{{job_id}} {{job_name}}",
                        )
                        .link(Link::Job),
                ],
            ),
        ],
    }
}
