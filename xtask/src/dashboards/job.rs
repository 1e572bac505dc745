//! What does the network do to this job? The live twin of `fabriclens report`.

use super::common::{by_leaf, with_leaf};
use super::limits;
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, stat, table};

/// What the job's rollups are chosen by.
const JOB: &str = r#"job_id="$job""#;

/// A question about ports, of those hosts alone on which the job runs.
fn of_hosts(expr: &str) -> String {
    format!(r#"({expr}) * on (host) group_left () max by (host) (fabric_job_info{{{JOB}}})"#)
}

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "job",
        title: "Fabriclens: Job",
        says: "What does the network do to this job? The live twin of `fabriclens report JOB`, which has bounds, evidence and \
               neighbours. Slow, and nothing here is yellow: it is not the network. A host or rail that differs from the \
               others is the one that all wait for.",
        since: "now-1h",
        vars: vec![Var::Job],
        rows: vec![now(), traffic(), congestion(), losses(), sockets()],
    }
}

fn now() -> Row {
    row(
        "Now",
        vec![
            stat("Sends", Unit::BitsPerSecond)
                .says("What all ports of the job send, mean of the last minute.")
                .ask(format!(r#"8 * sum(fabric_job_io_bytes_per_second{{{JOB},direction="transmit"}})"#), "sends"),
            stat("Of its peak", Unit::Share)
                .says("Of the highest it sent since it began. Far below while it should be communicating: something holds it back.")
                .ask(
                    format!(
                        r#"sum(fabric_job_io_bytes_per_second{{{JOB},direction="transmit"}}) / sum(fabric_job_io_peak_bytes_per_second{{{JOB},direction="transmit"}})"#
                    ),
                    "of peak",
                )
                .max(1.0),
            stat("Worst port is paused", Unit::Share)
                .says("Share of the last minute for which the job's worst port could not send. All wait for that one.")
                .ask(format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="receive"}})"#), "paused")
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .none("none counted"),
            stat("Worst port waits for credits", Unit::Share)
                .says("The same on InfiniBand.")
                .ask(format!("max(fabric_job_xmit_wait_share_max_ratio{{{JOB}}})"), "waits")
                .limit(limits::WAITS, "orange")
                .limit(limits::WAITS_HOT, "red")
                .max(1.0)
                .none("none counted"),
            stat("Hosts", Unit::Count)
                .says("Hosts on which it runs, as far as they have an agent.")
                .ask(format!("count(max by (host) (fabric_job_info{{{JOB}}}))"), "hosts"),
            stat("Open incidents", Unit::Count)
                .says("Incidents that it causes or suffers from: see the table below.")
                .ask(format!("count(fabric_incident_job_info{{{JOB}}}) or vector(0)"), "incidents")
                .step(1.0, "red"),
            table("Incidents of this job", Unit::Share)
                .says("What it causes (culprit) or suffers from (victim) now, and how sure that is.")
                .ask(
                    format!(
                        "fabric_incident_confidence * on (id) group_right () max by (id, role) (fabric_incident_job_info{{{JOB}}})"
                    ),
                    "sure",
                )
                .link(Link::Incident)
                .wide(8)
                .high(6)
                .none("None is open."),
            table("Its hosts", Unit::BitsPerSecond)
                .says("What each host sends now. shared: other jobs run there too, and their bytes are in the number.")
                .ask(
                    format!(
                        r#"8 * sum by (host) (rate(fabric_port_io_bytes_total{{direction="transmit",port!=""}}[$__rate_interval])) * on (host) group_right () max by (host, job_name, user, attribution) (fabric_job_info{{{JOB}}})"#
                    ),
                    "sends",
                )
                .link(Link::Host)
                .wide(16)
                .high(6),
        ],
    )
}

fn traffic() -> Row {
    row(
        "Traffic",
        vec![
            lines("Sent and received", Unit::BitsPerSecond)
                .says("All ports of the job. Steps of computing show as gaps; longer gaps than usual mean waiting.")
                .ask(
                    format!("8 * sum by (direction) (fabric_job_io_bytes_per_second{{{JOB}}})"),
                    "{{direction}}",
                )
                .ask(
                    format!(r#"8 * sum(fabric_job_io_mean_bytes_per_second{{{JOB},direction="transmit"}})"#),
                    "sent, mean since it began",
                ),
            stacked("Sent, by host", Unit::BitsPerSecond)
                .says("Hosts of one job send alike. The one that stops first is the one that all others wait for.")
                .ask(
                    of_hosts(
                        r#"8 * sum by (host) (rate(fabric_port_io_bytes_total{direction="transmit",port!=""}[$__rate_interval]))"#,
                    ),
                    "{{host}}",
                )
                .link(Link::Host),
            lines("Sent, by rail", Unit::BitsPerSecond)
                .says("Device names, which are rails where hosts have a NIC for each. They carry the same; a lower one is a straggler.")
                .ask(
                    format!(
                        "sum by (device) ({})",
                        of_hosts(r#"8 * rate(fabric_port_io_bytes_total{direction="transmit",port!=""}[$__rate_interval])"#)
                    ),
                    "{{device}}",
                ),
            lines("Sent, by leaf", Unit::BitsPerSecond)
                .says("A job that is on few leaves crosses few spines. Ports whose switch nobody tells are one series.")
                .ask(
                    by_leaf("sum", &of_hosts(
                            &with_leaf(
                                r#"8 * rate(fabric_port_io_bytes_total{direction="transmit",port!=""}[$__rate_interval])"#,
                                r#"port!="""#
                            )
                        )),
                    "{{switch}}",
                )
                .link(Link::Leaf),
        ],
    )
}

fn congestion() -> Row {
    row(
        "Congestion",
        vec![
            lines("Share of time paused", Unit::Share)
                .says("Received: its ports could not send, mean and worst. Transmitted: its hosts keep the network from sending: then \
                       this job is the culprit; look at the host that does.")
                .ask(format!(r#"max(fabric_job_pause_share_ratio{{{JOB},direction="receive"}})"#), "is paused, mean")
                .ask(format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="receive"}})"#), "is paused, worst port")
                .ask(
                    format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="transmit"}})"#),
                    "pauses others, worst port",
                )
                .limit(limits::PAUSED, "orange")
                .limit(limits::STORM, "red")
                .max(1.0)
                .wide(8),
            lines("Share of rate lost to credits (InfiniBand)", Unit::Share)
                .says("XmitWait: mean of its ports, and the worst.")
                .ask(format!("max(fabric_job_xmit_wait_share_ratio{{{JOB}}})"), "mean")
                .ask(format!("max(fabric_job_xmit_wait_share_max_ratio{{{JOB}}})"), "worst port")
                .limit(limits::WAITS, "orange")
                .limit(limits::WAITS_HOT, "red")
                .max(1.0)
                .wide(8)
                .none("No port of it counts credits."),
            lines("Marks and notifications", Unit::Packets)
                .says("Marked packets that arrive; notifications received (it is told to slow down) and transmitted (it tells others).")
                .ask(format!("sum(rate(fabric_job_ecn_packets_total{{{JOB}}}[$__rate_interval]))"), "marked packets")
                .ask(
                    format!("sum by (direction) (rate(fabric_job_cnp_packets_total{{{JOB}}}[$__rate_interval]))"),
                    "CNP, {{direction}}",
                )
                .wide(8),
        ],
    )
}

fn losses() -> Row {
    row(
        "Losses",
        vec![
            lines("Sent again", Unit::PerSecond)
                .says("By what its adapters count. Time-outs cost most: each stops a queue pair for milliseconds to seconds.")
                .ask(
                    format!("sum by (reason) (rate(fabric_job_retransmits_total{{{JOB}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8),
            lines("Errors of its links", Unit::PerSecond)
                .says("Any that stays: see Link health, and take the host out of the queue.")
                .ask(
                    format!("sum by (reason) (rate(fabric_job_link_errors_total{{{JOB}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8),
            lines("Dropped", Unit::Packets)
                .says("Packets without error that its ports dropped.")
                .ask(
                    format!("sum by (direction) (rate(fabric_job_discards_total{{{JOB}}}[$__rate_interval]))"),
                    "{{direction}}",
                )
                .wide(8),
        ],
    )
}

fn sockets() -> Row {
    row(
        "Sockets",
        vec![
            lines("TCP", Unit::BitsPerSecond)
                .says("A little is control traffic. As much as RDMA once was: the job has fallen back to TCP (a library without RDMA, a \
                       wrong interface, a missing device).")
                .ask(
                    format!("8 * sum by (direction) (rate(fabric_job_tcp_io_bytes_total{{{JOB}}}[$__rate_interval]))"),
                    "{{direction}}",
                ),
            lines("Round trip of TCP, median", Unit::Seconds)
                .says("The yardstick: when it grows together with the job's trouble it is the network; when it does not, it is RDMA, \
                       its priority or the hosts.")
                .ask(format!("max(fabric_job_tcp_rtt_seconds{{{JOB}}})"), "round trip"),
        ],
    )
}
