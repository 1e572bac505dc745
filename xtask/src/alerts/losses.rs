//! Alerts on retransmissions, and on jobs that fall back to TCP.

use super::Severity::Warning;
use super::{Alert, BY, PORT, fires, rate, rdma_sent_over, silent};
use crate::dashboards::thresholds as t;

/// Rules with windows of minutes.
pub fn rules() -> Vec<Alert> {
    vec![retransmit_surge(), tcp_fallback()]
}

fn retransmit_surge() -> Alert {
    let timeouts = |offset: &str| format!("sum by ({BY}) (rate(fabric_rdma_ack_timeouts_total[1m]{offset}))");
    Alert {
        name: "FabricRetransmitSurge",
        severity: Warning,
        hold: "30s",
        expr: format!(
            "(\n  {} >= {}\n  unless on ({BY})\n  {} < on ({BY}) {} * {}\n)\nor on ({BY})\n{} / on ({BY}) {} >= {}\nor on ({BY})\nsum by ({BY}) (increase(fabric_rdma_retries_exceeded_total[2m])) >= {}",
            timeouts(""),
            t::TIMEOUTS.at / 20.0,
            timeouts(""),
            timeouts(" offset 1h"),
            t::TIMEOUTS_MORE.at,
            rate("fabric_rdma_retransmits_total", "1m"),
            rate("fabric_port_packets_total{direction=\"transmit\"}", "1m"),
            t::RETRANSMITS.at,
            t::GAVE_UP.at,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: RDMA losses and retransmissions",
        description: "Acknowledgements time out, more than 2 % is retransmitted, or queue pairs gave up. One host: that \
                    host or its cable. Hosts of one leaf: the leaf. More: the network. For timeouts alone the alert ends \
                    after an hour, when the baseline includes them.",
        cases: vec![
            fires(
                "5m",
                &[PORT],
                &[(r#"fabric_rdma_ack_timeouts_total{host="h1",device="mlx5_0",port="1"}"#, "0+5x40")],
            ),
            fires(
                "5m",
                &[PORT],
                &[
                    (r#"fabric_rdma_retransmits_total{host="h1",device="mlx5_0",port="1"}"#, "0+30x40"),
                    (
                        r#"fabric_port_packets_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+1000x40",
                    ),
                ],
            ),
            fires(
                "3m",
                &[PORT],
                &[(
                    r#"fabric_rdma_retries_exceeded_total{host="h1",device="mlx5_0",port="1",reason="transport"}"#,
                    "0x8 2x10",
                )],
            ),
            // A single one; and as many as an hour ago.
            silent(
                "90m",
                &[
                    (r#"fabric_rdma_ack_timeouts_total{host="h1",device="mlx5_0",port="1"}"#, "0x357 1x20"),
                    (r#"fabric_rdma_ack_timeouts_total{host="h2",device="mlx5_0",port="1"}"#, "0+5x400"),
                    (r#"fabric_rdma_retransmits_total{host="h1",device="mlx5_0",port="1"}"#, "0+10x400"),
                    (
                        r#"fabric_port_packets_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+1000x400",
                    ),
                ],
            )
            .slow(),
        ],
    }
}

fn tcp_fallback() -> Alert {
    let rdma = |offset: &str| format!("sum by (host) {}", rdma_sent_over("", "5m", offset));
    let tcp = |offset: &str| {
        format!("sum by (host) (rate(fabric_netdev_io_bytes_total{{direction=\"transmit\"}}[5m]{offset}))")
    };
    Alert {
        name: "FabricTcpFallback",
        severity: Warning,
        hold: "2m",
        expr: format!(
            "{} < {} * {}\nand on (host)\n{} - {} >= {} * {}",
            rdma(""),
            t::RDMA_LEFT.at,
            rdma(" offset 30m"),
            tcp(""),
            tcp(" offset 30m"),
            t::TCP_GROWN.at,
            rdma(" offset 30m"),
        ),
        summary: "{{ $labels.host }}: RDMA has stopped and TCP carries the traffic",
        description: "The job lost RDMA (a device, a library, a wrong interface) and continues over TCP, many times \
                    slower. Check the transport in the job's log. The alert ends after half an hour, although the fault \
                    may last.",
        cases: vec![
            fires(
                "40m",
                &[r#"host="h1""#],
                &[
                    (
                        r#"fabric_rdma_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+600e9x25 15000e9x40",
                    ),
                    (
                        r#"fabric_netdev_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+1e9x25 25e9+120e9x40",
                    ),
                ],
            )
            .every("1m"),
            // InfiniBand, whose ports do not count RDMA separately.
            fires(
                "40m",
                &[r#"host="h1""#],
                &[
                    (r#"fabric_port_info{host="h1",device="mlx5_0",port="1",fabric="infiniband",driver="mlx5_core"}"#, "1x70"),
                    (
                        r#"fabric_port_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+600e9x25 15000e9+1e9x40",
                    ),
                    (
                        r#"fabric_netdev_io_bytes_total{host="h1",device="eno1",direction="transmit"}"#,
                        "0+1e9x25 25e9+120e9x40",
                    ),
                ],
            )
            .every("1m"),
            // The job ended: RDMA stops and TCP does not grow. Another host copies files over TCP while RDMA continues.
            silent(
                "40m",
                &[
                    (
                        r#"fabric_rdma_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+600e9x25 15000e9x40",
                    ),
                    (
                        r#"fabric_netdev_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+1e9x70",
                    ),
                    (
                        r#"fabric_rdma_io_bytes_total{host="h2",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+600e9x70",
                    ),
                    (
                        r#"fabric_netdev_io_bytes_total{host="h2",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+1e9x25 25e9+120e9x40",
                    ),
                ],
            )
            .every("1m"),
        ],
    }
}
