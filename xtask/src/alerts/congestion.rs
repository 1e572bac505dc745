//! Alerts about congestion and losses.

use super::Severity::{Critical, Warning};
use super::{Alert, BY, PORT, fires, line, paused, rate, rdma_sent_over, silent};
use crate::dashboards::limits as l;

/// What is judged within a minute.
pub fn rules() -> Vec<Alert> {
    vec![
        pfc_storm(),
        pause_sustained(),
        pause_without_ecn(),
        xmit_wait(),
        xmit_wait_hot(),
        retransmit_surge(),
        tcp_fallback(),
    ]
}

fn pfc_storm() -> Alert {
    Alert {
        name: "FabricPfcStorm",
        severity: Critical,
        hold: "0s",
        expr: format!(
            "(\n  {} >= {}\n  and on ({BY})\n  {} < on ({BY}) {} * {}\n)\nor on ({BY})\nsum by ({BY}) (increase(fabric_pause_storm_events_total{{direction=\"transmit\",reason=~\"warning|error|continuous.*\"}}[2m])) > 0",
            paused("transmit", "1m"),
            l::STORM.at,
            rate("fabric_port_io_bytes_total{direction=\"receive\"}", "1m"),
            line(),
            l::STANDS_STILL.at,
        ),
        summary: "PFC storm from {{ $labels.host }} {{ $labels.device }}",
        says: "This NIC pauses its switch without end and receives nothing, so pause spreads to every sender. Take the port down, then reset the NIC.",
        cases: vec![
            fires(
                "5m",
                &[PORT],
                &[
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                        "0+14.7x40",
                    ),
                    (r#"fabric_port_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#, "0+0x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                ],
            ),
            // The NIC says so itself.
            fires(
                "5m",
                &[PORT],
                &[(
                    r#"fabric_pause_storm_events_total{host="h1",device="mlx5_0",port="1",direction="transmit",reason="error"}"#,
                    "0x18 1x10",
                )],
            ),
            fires(
                "5m",
                &[r#"host="h1",device="bnxt_re0",port="1""#],
                &[(
                    r#"fabric_pause_storm_events_total{host="h1",device="bnxt_re0",port="1",direction="transmit",reason="continuous_roce"}"#,
                    "0x18 1x10",
                )],
            ),
            // Much pause, and much is received: a slow receiver, no storm.
            silent(
                "5m",
                &[
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                        "0+14.4x40",
                    ),
                    (
                        r#"fabric_port_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#,
                        "0+100e9x40",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                    (
                        r#"fabric_pause_storm_events_total{host="h1",device="bnxt_re0",port="1",direction="transmit",reason="resume_roce"}"#,
                        "0+1x40",
                    ),
                ],
            ),
        ],
    }
}

fn pause_sustained() -> Alert {
    Alert {
        name: "FabricPauseSustained",
        severity: Warning,
        hold: "2m",
        expr: format!(
            "max by ({BY}, direction) (rate(fabric_pfc_pause_seconds_total[5m]) or rate(fabric_pause_duration_seconds_total[5m])) >= {}\nor\n\
             # Frames alone: each taken for the longest pause, 65535 quanta of 512 bits.\n\
             sum by ({BY}, direction) (rate(fabric_pfc_frames_total[5m])) * on ({BY}) group_left () (65535 * 64 / {}) >= {}\n  unless on ({BY}) fabric_pfc_pause_seconds_total",
            l::PAUSED.at,
            line(),
            l::PAUSED_ESTIMATED.at,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: paused ({{ $labels.direction }}) for minutes",
        says: "transmit: this host does not drain what it gets and holds its switch back. receive: the network holds this host back; find who pauses on the dashboard Congestion.",
        cases: vec![
            fires(
                "10m",
                &[r#"host="h1",device="mlx5_0",port="1",direction="transmit""#],
                &[(
                    r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                    "0+0.3x60",
                )],
            ),
            // An adapter that counts frames alone: 15,000 a second are 10 % and more of 100 Gb/s at most.
            fires(
                "10m",
                &[r#"host="h1",device="mlx5_0",port="1",direction="receive""#],
                &[
                    (
                        r#"fabric_pfc_frames_total{host="h1",device="mlx5_0",port="1",direction="receive",priority="3"}"#,
                        "0+6000x60",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "12.5e9x60"),
                ],
            ),
            // Half a per cent, and an adapter whose many frames come to little time.
            silent(
                "10m",
                &[
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                        "0+0.07x60",
                    ),
                    (
                        r#"fabric_pfc_frames_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                        "0+60000x60",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "12.5e9x60"),
                ],
            ),
        ],
    }
}

fn pause_without_ecn() -> Alert {
    Alert {
        name: "FabricPauseWithoutEcn",
        severity: Warning,
        hold: "5m",
        expr: format!(
            "{} >= {}\nand on ({BY})\n{} == 0\nand on ({BY})\n{} >= on ({BY}) {} * {}",
            paused("receive", "5m"),
            l::PAUSED.at,
            rate("fabric_cnp_packets_total{direction=\"receive\"}", "5m"),
            rate("fabric_port_io_bytes_total{direction=\"transmit\"}", "5m"),
            line(),
            l::MOVES.at,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} is paused and never told to slow down",
        says: "It sends much, is paused by its switch, and no congestion notification arrives: switches do not mark, receivers do not tell, or DCQCN is off. Compare ECN settings with a leaf that works.",
        cases: vec![
            fires(
                "15m",
                &[PORT],
                &[
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="receive",priority="3"}"#,
                        "0+1x80",
                    ),
                    (r#"fabric_cnp_packets_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#, "7x80"),
                    (
                        r#"fabric_port_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+400e9x80",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x80"),
                ],
            ),
            // Told; and one that counts no notifications at all.
            silent(
                "15m",
                &[
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="receive",priority="3"}"#,
                        "0+1x80",
                    ),
                    (r#"fabric_cnp_packets_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#, "0+700x80"),
                    (
                        r#"fabric_port_io_bytes_total{host="h1",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+400e9x80",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x80"),
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h2",device="mlx5_0",port="1",direction="receive",priority="3"}"#,
                        "0+1x80",
                    ),
                    (
                        r#"fabric_port_io_bytes_total{host="h2",device="mlx5_0",port="1",direction="transmit"}"#,
                        "0+400e9x80",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h2",device="mlx5_0",port="1"}"#, "50e9x80"),
                ],
            ),
        ],
    }
}

/// RoCE adapters have this counter too, and there it tells nothing.
fn could_not_send(least: f64) -> String {
    format!(
        "{} / on ({BY}) {} >= {least}\nunless on ({BY}) fabric_pfc_pause_seconds_total",
        rate("fabric_port_xmit_wait_bytes_total", "1m"),
        line()
    )
}

fn xmit_wait() -> Alert {
    Alert {
        name: "FabricXmitWait",
        severity: Warning,
        hold: "1m",
        expr: could_not_send(l::WAITS.at),
        summary: "{{ $labels.host }} {{ $labels.device }} could not send {{ $value | humanizePercentage }} of its rate",
        says: "Data waited for credits (InfiniBand), or lost arbitration. One port: its neighbours or its receiver are narrow. Many: an incast or a full uplink; the incident names it.",
        cases: vec![
            fires(
                "5m",
                &[PORT],
                &[
                    (r#"fabric_port_xmit_wait_bytes_total{host="h1",device="mlx5_0",port="1"}"#, "0+30e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "25e9x40"),
                ],
            ),
            // Little; and a RoCE port, whose counter tells nothing.
            silent(
                "5m",
                &[
                    (r#"fabric_port_xmit_wait_bytes_total{host="h1",device="mlx5_0",port="1"}"#, "0+3e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "25e9x40"),
                    (r#"fabric_port_xmit_wait_bytes_total{host="h2",device="mlx5_0",port="1"}"#, "0+90e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h2",device="mlx5_0",port="1"}"#, "25e9x40"),
                    (
                        r#"fabric_pfc_pause_seconds_total{host="h2",device="mlx5_0",port="1",direction="receive",priority="3"}"#,
                        "0x40",
                    ),
                ],
            ),
        ],
    }
}

fn xmit_wait_hot() -> Alert {
    Alert {
        name: "FabricXmitWaitHot",
        severity: Critical,
        hold: "30s",
        expr: could_not_send(l::WAITS_HOT.at),
        summary: "{{ $labels.host }} {{ $labels.device }} could not send {{ $value | humanizePercentage }} of its rate",
        says: "A fifth of the line rate or more is lost to waiting for credits: jobs on it wait. Find the receiver or uplink that is full on the dashboard Congestion.",
        cases: vec![
            fires(
                "5m",
                &[PORT],
                &[
                    (r#"fabric_port_xmit_wait_bytes_total{host="h1",device="mlx5_0",port="1"}"#, "0+100e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "25e9x40"),
                ],
            ),
            silent(
                "5m",
                &[
                    (r#"fabric_port_xmit_wait_bytes_total{host="h1",device="mlx5_0",port="1"}"#, "0+60e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "25e9x40"),
                ],
            ),
        ],
    }
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
            l::TIMEOUTS.at / 20.0,
            timeouts(""),
            timeouts(" offset 1h"),
            l::TIMEOUTS_MORE.at,
            rate("fabric_rdma_retransmits_total", "1m"),
            rate("fabric_port_packets_total{direction=\"transmit\"}", "1m"),
            l::RETRANSMITS.at,
            l::GAVE_UP.at,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: RDMA is lost and sent again",
        says: "Acknowledgements do not come, more than 2 % is sent again, or queue pairs gave up. One host: that host or its cable. Hosts of one leaf: the leaf. More: the network. Time-outs alone are told for an hour; after that they are as many as before.",
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
            // Now and then one; and as many as an hour ago.
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
            .seldom(),
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
            l::RDMA_LEFT.at,
            rdma(" offset 30m"),
            tcp(""),
            tcp(" offset 30m"),
            l::TCP_GROWN.at,
            rdma(" offset 30m"),
        ),
        summary: "{{ $labels.host }}: RDMA has ceased and TCP carries the bytes",
        says: "What runs there lost its RDMA (a device, a library, a wrong interface) and goes on over TCP, many times slower. Ask the job's log for the transport that it chose. This ends after half an hour, although the fault may last.",
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
            // InfiniBand, whose ports do not count RDMA apart.
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
            // The job ended: RDMA ceases, and nothing takes over. Another moves files over TCP beside its RDMA.
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
