//! Dashboard "Job": how does the network affect this job? The live version of `fabriclens report`.

use super::common::{by_leaf, with_leaf};
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, stat, table};
use super::thresholds;

/// Selects the job's rollups.
const JOB: &str = r#"job_id="$job""#;

/// Restricts a query about ports to the hosts of the job.
fn of_hosts(expr: &str) -> String {
    format!(r#"({expr}) * on (host) group_left () max by (host) (fabric_job_info{{{JOB}}})"#)
}

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "job",
        title: "Fabriclens: Job",
        description: "How does the network affect this job? The live version of `fabriclens report JOB`, which adds \
                    bounds, evidence and other jobs. If the job is slow and nothing here is yellow, the network is not \
                    the cause. A host or rail that differs from the others is the one that all wait for.",
        since: "now-1h",
        vars: vec![Var::Job],
        rows: vec![now(), traffic(), congestion(), losses(), sockets()],
    }
}

fn now() -> Row {
    row(
        "Now",
        vec![
            stat("Throughput", Unit::BitsPerSecond)
                .description("Traffic sent by all ports of the job, mean of the last minute.")
                .query(format!(r#"8 * sum(fabric_job_io_bytes_per_second{{{JOB},direction="transmit"}})"#), "sends"),
            stat("Share of peak", Unit::Share)
                .description("Share of the highest throughput since the job began. A low value while the job should communicate: \
                    something holds it back.")
                .query(
                    format!(
                        r#"sum(fabric_job_io_bytes_per_second{{{JOB},direction="transmit"}}) / sum(fabric_job_io_peak_bytes_per_second{{{JOB},direction="transmit"}})"#
                    ),
                    "of peak",
                )
                .max(1.0),
            stat("Worst port: paused", Unit::Share)
                .description("Share of the last minute in which the worst port of the job was paused. All other ports wait for it.")
                .query(format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="receive"}})"#), "paused")
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .no_data("not counted"),
            stat("Worst port: waits for credits", Unit::Share)
                .description("Share of the last minute in which the worst InfiniBand port of the job waited for credits.")
                .query(format!("max(fabric_job_xmit_wait_share_max_ratio{{{JOB}}})"), "waits")
                .detector_threshold(thresholds::WAITS, "orange")
                .detector_threshold(thresholds::WAITS_HOT, "red")
                .max(1.0)
                .no_data("not counted"),
            stat("Hosts", Unit::Count)
                .description("Hosts of the job that have an agent.")
                .query(format!("count(max by (host) (fabric_job_info{{{JOB}}}))"), "hosts"),
            stat("Open incidents", Unit::Count)
                .description("Incidents of which the job is culprit or victim: see the table below.")
                .query(format!("count(fabric_incident_job_info{{{JOB}}}) or vector(0)"), "incidents")
                .threshold(1.0, "red"),
            table("Incidents of this job", Unit::Share)
                .description("Open incidents of which the job is culprit or victim, with their confidence.")
                .query(
                    format!(
                        "fabric_incident_confidence * on (id) group_right () max by (id, role) (fabric_incident_job_info{{{JOB}}})"
                    ),
                    "confidence",
                )
                .link(Link::Incident)
                .wide(8)
                .high(6)
                .no_data("No incident is open."),
            table("Hosts of this job", Unit::BitsPerSecond)
                .description("Traffic sent by each host. shared: other jobs run there too, and their bytes are included.")
                .query(
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
                .description("All ports of the job. Computing steps show as gaps; longer gaps than usual mean waiting.")
                .query(
                    format!("8 * sum by (direction) (fabric_job_io_bytes_per_second{{{JOB}}})"),
                    "{{direction}}",
                )
                .query(
                    format!(r#"8 * sum(fabric_job_io_mean_bytes_per_second{{{JOB},direction="transmit"}})"#),
                    "sent, mean since it began",
                ),
            stacked("Sent, by host", Unit::BitsPerSecond)
                .description("The hosts of a job send the same. The one that stops first is the one that all others wait for.")
                .query(
                    of_hosts(
                        r#"8 * sum by (host) (rate(fabric_port_io_bytes_total{direction="transmit",port!=""}[$__rate_interval]))"#,
                    ),
                    "{{host}}",
                )
                .link(Link::Host),
            lines("Sent, by rail", Unit::BitsPerSecond)
                .description("Traffic by device name, which is the rail on hosts with a NIC per rail. Rails carry the same; a \
                    lower one is a straggler.")
                .query(
                    format!(
                        "sum by (device) ({})",
                        of_hosts(r#"8 * rate(fabric_port_io_bytes_total{direction="transmit",port!=""}[$__rate_interval])"#)
                    ),
                    "{{device}}",
                ),
            lines("Sent, by leaf", Unit::BitsPerSecond)
                .description("A job on few leaves crosses few spines. Ports with an unknown switch are one series.")
                .query(
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
                .description("Received: its ports were paused, mean and worst. Transmitted: its hosts pause the network, and the \
                    job is the culprit; check the host that pauses.")
                .query(format!(r#"max(fabric_job_pause_share_ratio{{{JOB},direction="receive"}})"#), "is paused, mean")
                .query(format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="receive"}})"#), "is paused, worst port")
                .query(
                    format!(r#"max(fabric_job_pause_share_max_ratio{{{JOB},direction="transmit"}})"#),
                    "pauses others, worst port",
                )
                .detector_threshold(thresholds::PAUSED, "orange")
                .detector_threshold(thresholds::STORM, "red")
                .max(1.0)
                .wide(8),
            lines("Share of rate lost to credits (InfiniBand)", Unit::Share)
                .description("XmitWait of its ports, mean and worst.")
                .query(format!("max(fabric_job_xmit_wait_share_ratio{{{JOB}}})"), "mean")
                .query(format!("max(fabric_job_xmit_wait_share_max_ratio{{{JOB}}})"), "worst port")
                .detector_threshold(thresholds::WAITS, "orange")
                .detector_threshold(thresholds::WAITS_HOT, "red")
                .max(1.0)
                .wide(8)
                .no_data("No port of the job counts credit waits."),
            lines("Marks and notifications", Unit::Packets)
                .description("Marked packets received; notifications received (the job must slow down) and transmitted (others \
                    must slow down).")
                .query(format!("sum(rate(fabric_job_ecn_packets_total{{{JOB}}}[$__rate_interval]))"), "marked packets")
                .query(
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
            lines("Retransmissions", Unit::PerSecond)
                .description("Retransmissions by cause, as its adapters count them. Timeouts cost most: each stops a queue pair \
                    for milliseconds to seconds.")
                .query(
                    format!("sum by (reason) (rate(fabric_job_retransmits_total{{{JOB}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8),
            lines("Link errors", Unit::PerSecond)
                .description("Errors of the links of the job. For any sustained rate see Link health, and take the host out of the \
                    queue.")
                .query(
                    format!("sum by (reason) (rate(fabric_job_link_errors_total{{{JOB}}}[$__rate_interval]))"),
                    "{{reason}}",
                )
                .wide(8),
            lines("Dropped", Unit::Packets)
                .description("Packets without errors that its ports dropped.")
                .query(
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
                .description("TCP traffic of the job. A little is control traffic. As much as RDMA was before: the job has fallen \
                    back to TCP (a library without RDMA, a wrong interface, a missing device).")
                .query(
                    format!("8 * sum by (direction) (rate(fabric_job_tcp_io_bytes_total{{{JOB}}}[$__rate_interval]))"),
                    "{{direction}}",
                ),
            lines("TCP round trip, median", Unit::Seconds)
                .description("The control group: if the round trip grows with the problem of the job, it is the network; if not, \
                    it is RDMA, its priority or the hosts.")
                .query(format!("max(fabric_job_tcp_rtt_seconds{{{JOB}}})"), "round trip"),
        ],
    )
}
