//! Is it the network, or only RDMA?

use super::common::{OF_DEVICE, bits, of_port, rdma_sent};
use super::limits;
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, table};

/// Other hosts: what stays within one says nothing of the network.
const REMOTE: &str = r#"host=~"$host",destination!="local""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "tcp",
        title: "Fabriclens: RDMA against TCP",
        says: "Is it the network, or only RDMA? TCP between the same hosts is the control group. Both lose: the network (cable, \
               switch, congestion). Only RDMA loses: its priority, PFC, ECN, or the NIC. Only TCP loses: the other network, or \
               a full CPU.",
        since: "now-1h",
        vars: vec![Var::Host, Var::Device],
        rows: vec![who_carries(), who_loses(), round_trips()],
    }
}

fn who_carries() -> Row {
    let rdma = rdma_sent(OF_DEVICE);
    row(
        "Who carries the bytes",
        vec![
            stacked("RDMA and TCP, sent", Unit::BitsPerSecond)
                .says("TCP that grows while RDMA falls is a fallback: the job runs on, many times slower. On InfiniBand, RDMA is all that \
                       the port sends, TCP over IPoIB too.")
                .ask(
                    format!("8 * sum({rdma})"),
                    "RDMA",
                )
                .ask(
                    format!("8 * sum(rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval]))"),
                    "TCP",
                ),
            lines("Share of TCP, by host", Unit::Share)
                .says("Hosts that move most of their bytes by TCP, among those with traffic. From a tenth on, ask what runs there.")
                .ask(
                    format!(
                        "topk(10, sum by (host) (rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval])) \
                         / (sum by (host) (rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval])) \
                         + sum by (host) ({rdma})))"
                    ),
                    "{{host}}",
                )
                .limit(limits::TCP_GROWN, "orange")
                .link(Link::Host)
                .max(1.0),
            lines("All that crosses the ports", Unit::BitsPerSecond)
                .says("RDMA and kernel together, as the wire has it.")
                .ask(format!("sum({})", bits("transmit", OF_DEVICE)), "sent")
                .ask(format!("sum({})", bits("receive", OF_DEVICE)), "received")
                .down("received"),
            lines("Kernel path of the ports", Unit::BitsPerSecond)
                .says("What the kernel sends over RDMA ports: TCP that shares the link with RDMA.")
                .ask(
                    format!(
                        "topk(10, 8 * sum by (host, device) (rate(fabric_netdev_io_bytes_total{{direction=\"transmit\",{OF_DEVICE}}}[$__rate_interval])))"
                    ),
                    "{{host}} {{device}}",
                )
                .link(Link::Port),
        ],
    )
}

fn who_loses() -> Row {
    row(
        "Who loses",
        vec![
            lines("RDMA: told of lost packets, time-outs", Unit::PerSecond)
                .says("Of all chosen hosts. Compare with TCP beside.")
                .ask(
                    format!(
                        "sum({})",
                        of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{OF_DEVICE}"))
                    ),
                    "lost packets",
                )
                .ask(format!("sum({})", of_port("fabric_rdma_ack_timeouts_total", OF_DEVICE)), "time-outs")
                .ask(format!("sum({})", of_port("fabric_rdma_out_of_sequence_total", OF_DEVICE)), "out of order")
                .wide(8),
            lines("TCP: segments sent again", Unit::PerSecond)
                .says("By why. timeout: the network or the other end stopped answering; fast: single losses; probe: the tail was lost.")
                .ask(
                    format!("sum by (kind) (rate(fabric_tcp_retransmit_segments_total{{{REMOTE}}}[$__rate_interval]))"),
                    "{{kind}}",
                )
                .wide(8),
            lines("TCP: share sent again", Unit::Share)
                .says("Of segments sent. Above some per mille a data centre's network has a fault.")
                .ask(
                    "topk(10, sum by (host) (rate(fabric_tcp_retransmits_total{host=~\"$host\"}[$__rate_interval])) \
                     / sum by (host) (rate(fabric_tcp_segments_total{direction=\"transmit\",host=~\"$host\"}[$__rate_interval])))",
                    "{{host}}",
                )
                .step(0.001, "orange")
                .step(0.01, "red")
                .link(Link::Host)
                .wide(8),
            lines("Congestion marks", Unit::Packets)
                .says("RDMA packets and TCP segments that came marked. Only one of the two is marked: the queues of the other have no \
                       ECN, or DSCP maps them to another queue.")
                .ask(format!("sum({})", of_port("fabric_ecn_packets_total", OF_DEVICE)), "RDMA")
                .ask(
                    r#"sum(rate(fabric_ip_ecn_packets_total{mark="ce",host=~"$host"}[$__rate_interval]))"#,
                    "IP (kernel path)",
                ),
            lines("Closed windows of TCP", Unit::PerSecond)
                .says("Announced by this end (receive: programs here are too slow) or by the other (transmit). That is no network fault.")
                .ask(
                    format!("sum by (direction) (rate(fabric_tcp_window_closed_total{{{REMOTE}}}[$__rate_interval]))"),
                    "{{direction}}",
                ),
        ],
    )
}

fn round_trips() -> Row {
    let rtt = |q: f64, by: &str| {
        format!(
            "histogram_quantile({q}, sum by ({by}le) (rate(fabric_tcp_rtt_seconds_bucket{{{REMOTE}}}[$__rate_interval])))"
        )
    };
    row(
        "Round trips and connections of TCP",
        vec![
            lines("Round trip", Unit::Seconds)
                .says("Median and 99 % of all chosen hosts. Queues in the network show here first.")
                .ask(rtt(0.5, ""), "median")
                .ask(rtt(0.99, ""), "99 %")
                .wide(8),
            lines("Round trip by host, median", Unit::Seconds)
                .says("The slowest ten. One host alone: its path, or its processor.")
                .ask(format!("topk(10, {})", rtt(0.5, "host, ")), "{{host}}")
                .link(Link::Host)
                .wide(8),
            table("Connections that failed, last half hour", Unit::Count)
                .says("By why: refused (nobody listens), timeout (no way there), unreachable, reset.")
                .ask(
                    format!(
                        "sum by (host, reason) (increase(fabric_tcp_connection_failures_total{{{REMOTE}}}[30m])) > 0"
                    ),
                    "failed",
                )
                .link(Link::Host)
                .wide(8)
                .none("None failed."),
        ],
    )
}
