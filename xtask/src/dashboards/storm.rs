//! What happened, in which order, and who was hit? For the post-mortem.

use super::common::{PORTS, bits, errors_rate, of_port, paused};
use super::limits;
use super::panel::{Dashboard, Link, Row, Unit, Var, heat, lines, row, states, table};

const CHOSEN: &str = r#"id=~"$incident""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "storm",
        title: "Fabriclens: Storm timeline",
        says: "What happened, in which order, and who was hit? For post-mortems: set the time to from some minutes before the \
               incident to some after it, and read downwards. The port that pauses first is the root; hosts that are paused \
               later are where it spread.",
        since: "now-30m",
        vars: vec![Var::Incident, Var::Host],
        rows: vec![verdict(), spread(), cost(), signs()],
    }
}

fn verdict() -> Row {
    row(
        "The verdict",
        vec![
            states("Incidents")
                .says("From when to when each was open. One inside another's time is often its consequence.")
                .ask(
                    format!("max by (id, kind, node, port, peer) (fabric_incident_info{{{CHOSEN}}})"),
                    "{{kind}} {{node}} {{port}} {{peer}}",
                )
                .words(&[("1", "open", "red")])
                .link(Link::Incident)
                .wide(14)
                .high(7)
                .none("No incident in this time."),
            lines("How sure", Unit::Share)
                .says("Confidence of each verdict, as it came to know more.")
                .ask(format!("fabric_incident_confidence{{{CHOSEN}}}"), "{{id}}")
                .max(1.0)
                .wide(5)
                .high(7)
                .none("No incident in this time."),
            lines("Jobs that suffer", Unit::Count)
                .says("Victims of each incident.")
                .ask(format!("fabric_incident_victims{{{CHOSEN}}}"), "{{id}}")
                .wide(5)
                .high(7)
                .none("No incident in this time."),
            table("Incidents of this time", Unit::Count)
                .says("All that were open at some time that is shown.")
                .ask(
                    format!(
                        "max by (id, kind, node, port, peer) (last_over_time(fabric_incident_info{{{CHOSEN}}}[$__range]))"
                    ),
                    "was open",
                )
                .link(Link::Incident)
                .wide(14)
                .high(7)
                .none("No incident in this time."),
            table("Jobs in them", Unit::Count)
                .says("Culprits and victims.")
                .ask(
                    format!(
                        "max by (cluster, job_id, role, id) (last_over_time(fabric_incident_job_info{{{CHOSEN}}}[$__range]))"
                    ),
                    "was in it",
                )
                .link(Link::Job)
                .wide(10)
                .high(7)
                .none("No job."),
        ],
    )
}

fn spread() -> Row {
    row(
        "How it spread",
        vec![
            lines("Who paused others", Unit::Share)
                .says("The root: the port that rises first and stays. A storm is 95 % and more while it receives nothing.")
                .ask(format!("topk(10, {} > 0.001)", paused("transmit", PORTS)), "{{host}} {{device}}")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .link(Link::Port)
                .none("No host paused its switch."),
            lines("What the culprits received", Unit::BitsPerSecond)
                .says("Of the ports at the left. Nothing, while they pause: a storm. Much: a slow receiver, or an incast.")
                .ask(
                    format!(
                        "topk(10, ({}) and on (host, device, port) (max_over_time(({})[5m:15s]) > {}))",
                        bits("receive", PORTS),
                        paused("transmit", PORTS),
                        limits::PAUSED.at
                    ),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .none("No host paused its switch."),
            heat("Who was paused, by host", Unit::Share)
                .says("The worst port of each host that was paused at all. Rows that begin later are further away from the root.")
                .ask(format!("max by (host) ({}) > 0.001", paused("receive", PORTS)), "{{host}}")
                .high(10)
                .none("No host was paused."),
            heat("Who was told to slow down, by host", Unit::Packets)
                .says("Notifications received. They should come before pause; pause alone means that switches do not mark.")
                .ask(
                    format!(
                        "sum by (host) ({}) > 0",
                        of_port("fabric_cnp_packets_total", &format!("direction=\"receive\",{PORTS}"))
                    ),
                    "{{host}}",
                )
                .high(10)
                .none("Nobody was told."),
        ],
    )
}

fn cost() -> Row {
    row(
        "What it cost",
        vec![
            lines("Rate of jobs", Unit::BitsPerSecond)
                .says("What each job sent. The area between before and during is the cost.")
                .ask(
                    r#"topk(10, 8 * sum by (job_id, job_name) (fabric_job_io_bytes_per_second{direction="transmit"}))"#,
                    "{{job_id}} {{job_name}}",
                )
                .link(Link::Job),
            lines("Traffic of all", Unit::BitsPerSecond)
                .says("All chosen hosts together.")
                .ask(format!("sum({})", bits("transmit", PORTS)), "sent"),
        ],
    )
}

fn signs() -> Row {
    row(
        "Other signs",
        vec![
            lines("Storm events of NICs", Unit::PerSecond)
                .says("NICs that found their own pause too long (warning), or ended it by force (error).")
                .ask(
                    format!(
                        "sum by (host, device, reason) (rate(fabric_pause_storm_events_total{{{PORTS}}}[$__rate_interval])) > 0"
                    ),
                    "{{host}} {{device}} {{reason}}",
                )
                .link(Link::Port)
                .wide(8)
                .none("No NIC told of a storm."),
            lines("Errors of the wire", Unit::PerSecond)
                .says("Symbol or CRC errors, whichever are more. A link that broke at the same time may be the cause, and not the storm.")
                .ask(format!("topk(10, {} > 0)", errors_rate(PORTS)), "{{host}} {{device}}")
                .link(Link::Port)
                .wide(8)
                .none("No link had errors."),
            lines("Packets lost", Unit::Packets)
                .says("Dropped, and sent again. Storms that stay without loss were stopped by nobody; those with loss by a watchdog.")
                .ask(format!("sum(rate(fabric_port_discards_total{{{PORTS}}}[$__rate_interval]))"), "dropped")
                .ask(
                    format!("sum(rate(fabric_rdma_sequence_naks_total{{direction=\"receive\",{PORTS}}}[$__rate_interval]))"),
                    "told of lost",
                )
                .ask(format!("sum(rate(fabric_rdma_ack_timeouts_total{{{PORTS}}}[$__rate_interval]))"), "time-outs")
                .wide(8),
        ],
    )
}
