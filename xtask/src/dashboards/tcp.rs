//! Dashboard "RDMA and TCP": is it the network or only RDMA?

use super::common::{OF_DEVICE, bits, of_port, rdma_sent};
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, stacked, table};
use super::thresholds;

/// Excludes traffic within a host, which says nothing about the network.
const REMOTE: &str = r#"host=~"$host",destination!="local""#;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "tcp",
        title: "Fabriclens: RDMA and TCP",
        description: "Is it the network or only RDMA? TCP between the same hosts is the control group. Both lose packets: \
                    the network (cable, switch, congestion). Only RDMA: its priority, PFC, ECN or the NIC. Only TCP: the \
                    other network, or a full CPU.",
        since: "now-1h",
        vars: vec![Var::Host, Var::Device],
        rows: vec![who_carries(), who_loses(), round_trips()],
    }
}

fn who_carries() -> Row {
    let rdma = rdma_sent(OF_DEVICE);
    row(
        "Traffic",
        vec![
            stacked("RDMA and TCP, sent", Unit::BitsPerSecond)
                .description("TCP that grows while RDMA falls is a fallback: the job continues, many times slower. InfiniBand \
                    ports count all bytes as RDMA, also TCP over IPoIB.")
                .query(
                    format!("8 * sum({rdma})"),
                    "RDMA",
                )
                .query(
                    format!("8 * sum(rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval]))"),
                    "TCP",
                ),
            lines("Share of TCP, by host", Unit::Share)
                .description("Share of bytes sent by TCP, of hosts with traffic. Above a tenth, check what runs there.")
                .query(
                    format!(
                        "topk(10, sum by (host) (rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval])) \
                         / (sum by (host) (rate(fabric_tcp_io_bytes_total{{direction=\"transmit\",{REMOTE}}}[$__rate_interval])) \
                         + sum by (host) ({rdma})))"
                    ),
                    "{{host}}",
                )
                .detector_threshold(thresholds::TCP_GROWN, "orange")
                .link(Link::Host)
                .max(1.0),
            lines("All traffic of the ports", Unit::BitsPerSecond)
                .description("All bytes on the link: RDMA and kernel traffic.")
                .query(format!("sum({})", bits("transmit", OF_DEVICE)), "sent")
                .query(format!("sum({})", bits("receive", OF_DEVICE)), "received")
                .mirrored("received"),
            lines("Kernel path of the ports", Unit::BitsPerSecond)
                .description("Kernel traffic over RDMA ports: TCP that shares the link with RDMA.")
                .query(
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
        "Losses",
        vec![
            lines("RDMA: lost packets and timeouts", Unit::PerSecond)
                .description("Sum over the selected hosts. Compare with TCP in the next panel.")
                .query(
                    format!(
                        "sum({})",
                        of_port("fabric_rdma_sequence_naks_total", &format!("direction=\"receive\",{OF_DEVICE}"))
                    ),
                    "lost packets",
                )
                .query(format!("sum({})", of_port("fabric_rdma_ack_timeouts_total", OF_DEVICE)), "timeouts")
                .query(format!("sum({})", of_port("fabric_rdma_out_of_sequence_total", OF_DEVICE)), "out of order")
                .wide(8),
            lines("TCP: retransmitted segments", Unit::PerSecond)
                .description("Retransmitted segments by cause. timeout: the network or the peer stopped answering; fast: single \
                    losses; probe: the last segments were lost.")
                .query(
                    format!("sum by (kind) (rate(fabric_tcp_retransmit_segments_total{{{REMOTE}}}[$__rate_interval]))"),
                    "{{kind}}",
                )
                .wide(8),
            lines("TCP: share retransmitted", Unit::Share)
                .description("Share of sent segments. Above a few per mille the data center network has a fault.")
                .query(
                    "topk(10, sum by (host) (rate(fabric_tcp_retransmits_total{host=~\"$host\"}[$__rate_interval])) \
                     / sum by (host) (rate(fabric_tcp_segments_total{direction=\"transmit\",host=~\"$host\"}[$__rate_interval])))",
                    "{{host}}",
                )
                .threshold(0.001, "orange")
                .threshold(0.01, "red")
                .link(Link::Host)
                .wide(8),
            lines("Congestion marks", Unit::Packets)
                .description("RDMA packets and TCP segments received with a congestion mark. If only one of the two is marked, the \
                    queues of the other have no ECN, or DSCP maps it to another queue.")
                .query(format!("sum({})", of_port("fabric_ecn_packets_total", OF_DEVICE)), "RDMA")
                .query(
                    r#"sum(rate(fabric_ip_ecn_packets_total{mark="ce",host=~"$host"}[$__rate_interval]))"#,
                    "IP (kernel path)",
                ),
            lines("TCP zero windows", Unit::PerSecond)
                .description("Zero windows announced by this host (receive: its programs read too slowly) or by the peer \
                    (transmit). This is not a network fault.")
                .query(
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
        "TCP round trips and connections",
        vec![
            lines("Round trip", Unit::Seconds)
                .description("Median and 99th percentile of the selected hosts. Queues in the network show here first.")
                .query(rtt(0.5, ""), "median")
                .query(rtt(0.99, ""), "99 %")
                .wide(8),
            lines("Round trip by host, median", Unit::Seconds)
                .description("The ten slowest hosts. A single host: its path or its CPU.")
                .query(format!("topk(10, {})", rtt(0.5, "host, ")), "{{host}}")
                .link(Link::Host)
                .wide(8),
            table("Connections that failed, last half hour", Unit::Count)
                .description(
                    "Failed connections by cause: refused (nothing listens), timeout (no answer), unreachable, reset.",
                )
                .query(
                    format!(
                        "sum by (host, reason) (increase(fabric_tcp_connection_failures_total{{{REMOTE}}}[30m])) > 0"
                    ),
                    "failed",
                )
                .link(Link::Host)
                .wide(8)
                .no_data("No connection failed."),
        ],
    )
}
