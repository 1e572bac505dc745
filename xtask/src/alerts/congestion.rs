//! Alerts on congestion.

use super::Severity::{Critical, Warning};
use super::{Alert, BY, PORT, fires, line, paused, rate, silent};
use crate::dashboards::thresholds as t;

/// Rules with windows of minutes.
pub fn rules() -> Vec<Alert> {
    vec![pfc_storm(), pause_sustained(), pause_without_ecn(), xmit_wait(), xmit_wait_hot()]
}

fn pfc_storm() -> Alert {
    Alert {
        name: "FabricPfcStorm",
        severity: Critical,
        hold: "0s",
        expr: format!(
            "(\n  {} >= {}\n  and on ({BY})\n  {} < on ({BY}) {} * {}\n)\nor on ({BY})\nsum by ({BY}) (increase(fabric_pause_storm_events_total{{direction=\"transmit\",reason=~\"warning|error|continuous.*\"}}[2m])) > 0",
            paused("transmit", "1m"),
            t::STORM.at,
            rate("fabric_port_io_bytes_total{direction=\"receive\"}", "1m"),
            line(),
            t::STANDS_STILL.at,
        ),
        summary: "PFC storm from {{ $labels.host }} {{ $labels.device }}",
        description: "This NIC pauses its switch without end and receives nothing, so pause spreads to every sender. Take \
                    the port down, then reset the NIC.",
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
            // The NIC reports the storm.
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
            // Much pause and much traffic received: a slow receiver, no storm.
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
             # Adapters without pause time: each frame counts as the longest pause, 65535 quanta of 512 bits.\n\
             sum by ({BY}, direction) (rate(fabric_pfc_frames_total[5m])) * on ({BY}) group_left () (65535 * 64 / {}) >= {}\n  unless on ({BY}) fabric_pfc_pause_seconds_total",
            t::PAUSED.at,
            line(),
            t::PAUSED_ESTIMATED.at,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: sustained pause ({{ $labels.direction }})",
        description: "transmit: this host does not drain its traffic and pauses its switch. receive: the network pauses \
                    this host; find the culprit on the dashboard Congestion.",
        cases: vec![
            fires(
                "10m",
                &[r#"host="h1",device="mlx5_0",port="1",direction="transmit""#],
                &[(
                    r#"fabric_pfc_pause_seconds_total{host="h1",device="mlx5_0",port="1",direction="transmit",priority="3"}"#,
                    "0+0.3x60",
                )],
            ),
            // An adapter without pause time: many frames per second are at most 10 % and more of 100 Gb/s.
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
            // Half a percent, and an adapter whose many frames add up to little time.
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

/// Share of its rate from which a port that is paused should be notified of congestion.
const LOADED: f64 = 0.3;

fn pause_without_ecn() -> Alert {
    Alert {
        name: "FabricPauseWithoutEcn",
        severity: Warning,
        hold: "5m",
        expr: format!(
            "{} >= {}\nand on ({BY})\n{} == 0\nand on ({BY})\n{} >= on ({BY}) {} * {}",
            paused("receive", "5m"),
            t::PAUSED.at,
            rate("fabric_cnp_packets_total{direction=\"receive\"}", "5m"),
            rate("fabric_port_io_bytes_total{direction=\"transmit\"}", "5m"),
            line(),
            LOADED,
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} is paused without congestion notifications",
        description: "The port sends at a high rate and is paused by its switch, but gets no congestion notification: \
                    switches do not mark, receivers do not notify, or DCQCN is off. Compare the ECN settings with a leaf \
                    that works.",
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
            // With notifications; and an adapter that does not count notifications.
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

/// Share of the rate that waited for credits; without RoCE ports, whose counter has no meaning.
fn credit_wait(least: f64) -> String {
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
        expr: credit_wait(t::WAITS.at),
        summary: "{{ $labels.host }} {{ $labels.device }} waits for credits: {{ $value | humanizePercentage }} of its rate",
        description: "Data waited for credits (InfiniBand) or lost arbitration. One port: its receiver or the ports next \
                    to it are the bottleneck. Many: an incast or a full uplink; the incident names it.",
        cases: vec![
            fires(
                "5m",
                &[PORT],
                &[
                    (r#"fabric_port_xmit_wait_bytes_total{host="h1",device="mlx5_0",port="1"}"#, "0+30e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "25e9x40"),
                ],
            ),
            // Little; and a RoCE port, whose counter has no meaning.
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
        expr: credit_wait(t::WAITS_HOT.at),
        summary: "{{ $labels.host }} {{ $labels.device }} waits for credits: {{ $value | humanizePercentage }} of its rate",
        description: "A fifth of the line rate or more is lost waiting for credits, and jobs on this port wait. Find the \
                    full receiver or uplink on the dashboard Congestion.",
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
