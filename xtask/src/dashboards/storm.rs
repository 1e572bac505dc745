//! Dashboard "Storm timeline", for post-mortems: what happened, in which order, and who was affected?

use super::common::{PORTS, bits, errors_rate, of_port, paused};
use super::panel::{Dashboard, Link, Row, Unit, Var, heat, lines, row, states, table};
use super::thresholds;

const CHOSEN: &str = r#"id=~"$incident""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "storm",
        title: "Fabriclens: Storm timeline",
        description: "What happened, in which order, and who was affected? For post-mortems: set the time range from some \
                    minutes before the incident to some after it, and read from top to bottom. The port that pauses \
                    first is the root; hosts that are paused later show how it spread.",
        since: "now-30m",
        vars: vec![Var::Incident, Var::Host],
        rows: vec![verdict(), spread(), cost(), signs()],
    }
}

fn verdict() -> Row {
    row(
        "Verdict",
        vec![
            states("Incidents")
                .description("Time in which each incident was open. An incident within the time of another is often its \
                    consequence.")
                .query(
                    format!("max by (id, kind, node, port, peer) (fabric_incident_info{{{CHOSEN}}})"),
                    "{{kind}} {{node}} {{port}} {{peer}}",
                )
                .mappings(&[("1", "open", "red")])
                .link(Link::Incident)
                .wide(14)
                .high(7)
                .no_data("No incident in this time."),
            lines("Confidence", Unit::Share)
                .description("Confidence of each verdict over time.")
                .query(format!("fabric_incident_confidence{{{CHOSEN}}}"), "{{id}}")
                .max(1.0)
                .wide(5)
                .high(7)
                .no_data("No incident in this time."),
            lines("Victim jobs", Unit::Count)
                .description("Number of victim jobs of each incident.")
                .query(format!("fabric_incident_victims{{{CHOSEN}}}"), "{{id}}")
                .wide(5)
                .high(7)
                .no_data("No incident in this time."),
            table("Incidents of this time", Unit::Count)
                .description("All incidents that were open in the selected time range.")
                .query(
                    format!(
                        "max by (id, kind, node, port, peer) (last_over_time(fabric_incident_info{{{CHOSEN}}}[$__range]))"
                    ),
                    "was open",
                )
                .link(Link::Incident)
                .wide(14)
                .high(7)
                .no_data("No incident in this time."),
            table("Jobs in incidents", Unit::Count)
                .description("Culprit and victim jobs of the incidents.")
                .query(
                    format!(
                        "max by (cluster, job_id, role, id) (last_over_time(fabric_incident_job_info{{{CHOSEN}}}[$__range]))"
                    ),
                    "was in it",
                )
                .link(Link::Job)
                .wide(10)
                .high(7)
                .no_data("No job."),
        ],
    )
}

fn spread() -> Row {
    row(
        "Spread",
        vec![
            lines("Ports that send pause", Unit::Share)
                .description("Share of time in which a port paused its switch. The port that rises first and stays is the root. A \
                    storm is above 95 % while the port receives nothing.")
                .query(format!("topk(10, {} > 0.001)", paused("transmit", PORTS)), "{{host}} {{device}}")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .link(Link::Port)
                .no_data("No host paused its switch."),
            lines("Traffic received by the culprits", Unit::BitsPerSecond)
                .description("Traffic received by the ports on the left. Nothing while they pause: a storm. Much: a slow receiver \
                    or an incast.")
                .query(
                    format!(
                        "topk(10, ({}) and on (host, device, port) (max_over_time(({})[5m:15s]) > {}))",
                        bits("receive", PORTS),
                        paused("transmit", PORTS),
                        thresholds::PAUSED.at
                    ),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .no_data("No host paused its switch."),
            heat("Paused time, by host", Unit::Share)
                .description("The worst port of each paused host. Rows that begin later are further away from the root.")
                .query(format!("max by (host) ({}) > 0.001", paused("receive", PORTS)), "{{host}}")
                .high(10)
                .no_data("No host was paused."),
            heat("Notifications received, by host", Unit::Packets)
                .description("Congestion notifications received. They should come before pause; pause without them means that \
                    switches do not mark.")
                .query(
                    format!(
                        "sum by (host) ({}) > 0",
                        of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}}",
                )
                .high(10)
                .no_data("No notification received."),
        ],
    )
}

fn cost() -> Row {
    row(
        "Cost",
        vec![
            lines("Throughput of jobs", Unit::BitsPerSecond)
                .description("Throughput of each job. The area between before and during is the cost.")
                .query(
                    r#"topk(10, 8 * sum by (job_id, job_name) (fabric_job_io_bytes_per_second{direction="transmit"}))"#,
                    "{{job_id}} {{job_name}}",
                )
                .link(Link::Job),
            lines("Total traffic", Unit::BitsPerSecond)
                .description("Traffic sent by the selected hosts together.")
                .query(format!("sum({})", bits("transmit", PORTS)), "sent"),
        ],
    )
}

fn signs() -> Row {
    row(
        "Other signs",
        vec![
            lines("Storm events of NICs", Unit::PerSecond)
                .description("Storm events reported by NICs: pause too long (warning), or ended by the NIC (error).")
                .query(
                    format!(
                        "sum by (host, device, reason) (rate(fabric_pause_storm_events_total{{{PORTS}}}[$__rate_interval])) > 0"
                    ),
                    "{{host}} {{device}} {{reason}}",
                )
                .link(Link::Port)
                .wide(8)
                .no_data("No NIC reported a storm."),
            lines("Link errors", Unit::PerSecond)
                .description("The larger of symbol and CRC errors. A link that failed at the same time may be the cause instead of \
                    the storm.")
                .query(format!("topk(10, {} > 0)", errors_rate(PORTS)), "{{host}} {{device}}")
                .link(Link::Port)
                .wide(8)
                .no_data("No link had errors."),
            lines("Packets lost", Unit::Packets)
                .description("Dropped packets and retransmissions. In a storm without loss no watchdog intervened; in one with \
                    loss a watchdog dropped the traffic.")
                .query(format!("sum(rate(fabric_port_discards_total{{{PORTS}}}[$__rate_interval]))"), "dropped")
                .query(
                    format!("sum(rate(fabric_rdma_sequence_naks_total{{direction=\"receive\",{PORTS}}}[$__rate_interval]))"),
                    "lost",
                )
                .query(format!("sum(rate(fabric_rdma_ack_timeouts_total{{{PORTS}}}[$__rate_interval]))"), "timeouts")
                .wide(8),
        ],
    )
}
