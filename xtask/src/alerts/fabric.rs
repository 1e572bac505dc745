//! Alerts about the fabric.

use super::Severity::{Critical, Warning};
use super::{Alert, fires, silent};
use crate::dashboards::limits as l;

/// A port, however many other labels a scrape adds.
const BY: &str = "host, device, port";
/// That port in the cases.
const PORT: &str = r#"host="h1",device="mlx5_0",port="1""#;

/// Highest of a gauge, by port.
fn port(gauge: &str) -> String {
    format!("max by ({BY}) ({gauge})")
}

/// Rate of a counter, summed over what is counted of a port.
fn rate(counter: &str, window: &str) -> String {
    format!("sum by ({BY}) (rate({counter}[{window}]))")
}

/// Share of time paused by the priority that was paused longest.
fn paused(direction: &str, window: &str) -> String {
    let of = |name: &str| format!("rate({name}{{direction=\"{direction}\"}}[{window}])");
    format!("max by ({BY}) ({} or {})", of("fabric_pfc_pause_seconds_total"), of("fabric_pause_duration_seconds_total"))
}

/// Line rate.
fn line() -> String {
    port("fabric_port_rate_bytes_per_second")
}

/// How much a counter grew; two samples, however long the window.
fn grown(series: &str, window: &str) -> String {
    format!("clamp_min({series} - {series} offset {window}, 0)")
}

/// What is judged within a minute.
pub fn fast() -> Vec<Alert> {
    vec![
        pfc_storm(),
        pause_sustained(),
        pause_without_ecn(),
        xmit_wait(),
        xmit_wait_hot(),
        retransmit_surge(),
        tcp_fallback(),
        link_down(),
    ]
}

/// What takes minutes to hours to show.
pub fn slow() -> Vec<Alert> {
    vec![ber_high(), ber_rising(), flapping(), degraded(), pcie()]
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
                        r#"fabric_pause_storm_events_total{host="h1",device="mlx5_0",port="1",direction="transmit",reason="resume"}"#,
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
        says: "Acknowledgements do not come, more than 2 % is sent again, or queue pairs gave up. One host: that host or its cable. Hosts of one leaf: the leaf. More: the network.",
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
    let sent = |name: &str, offset: &str| format!("sum by (host) (rate({name}{{direction=\"transmit\"}}[5m]{offset}))");
    let (rdma, tcp) = ("fabric_rdma_io_bytes_total", "fabric_netdev_io_bytes_total");
    Alert {
        name: "FabricTcpFallback",
        severity: Warning,
        hold: "2m",
        expr: format!(
            "{} < {} * {}\nand on (host)\n{} - {} >= {} * {}",
            sent(rdma, ""),
            l::RDMA_LEFT.at,
            sent(rdma, " offset 30m"),
            sent(tcp, ""),
            sent(tcp, " offset 30m"),
            l::TCP_GROWN.at,
            sent(rdma, " offset 30m"),
        ),
        summary: "{{ $labels.host }}: RDMA has ceased and TCP carries the bytes",
        says: "What runs there lost its RDMA (a device, a library, a wrong interface) and goes on over TCP, many times slower. Ask the job's log for the transport that it chose.",
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

fn link_down() -> Alert {
    Alert {
        name: "FabricLinkDown",
        severity: Critical,
        hold: "30s",
        expr: format!(
            "max by ({BY}) (fabric_port_up{{port!=\"\"}}) == 0\nand on ({BY})\nmax by ({BY}) (max_over_time(fabric_port_up{{port!=\"\"}}[6h:5m])) == 1"
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} is down",
        says: "This port was up within six hours and carries nothing now. Many at once: their switch or host. One: cable or module.",
        cases: vec![
            fires("20m", &[PORT], &[(r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x60 0x40")]),
            // Never up; and a netdev without RDMA.
            silent(
                "20m",
                &[
                    (r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "0x100"),
                    (r#"fabric_port_up{host="h1",device="mlx5_1",port="1"}"#, "1x100"),
                    (r#"fabric_port_up{host="h1",device="eno1"}"#, "1x60 0x40"),
                ],
            ),
        ],
    }
}

/// Errors of the wire in a window beyond what a bit error rate gives at the link's own rate, and more than an accident.
fn beyond(window: &str, seconds: u32, ber: l::Limit) -> String {
    let errors = format!(
        "sum by ({BY}) ({} or {})",
        grown("fabric_link_crc_errors_total{direction=\"receive\"}", window),
        grown("fabric_link_symbol_errors_total", window)
    );
    format!(
        "{errors} >= {}\nand on ({BY})\n{errors} >= on ({BY}) {} * 8 * {seconds} * {:e}",
        l::ERRORS.at,
        line(),
        ber.at
    )
}

fn ber_high() -> Alert {
    Alert {
        name: "FabricLinkBerHigh",
        severity: Critical,
        hold: "0s",
        expr: beyond("12m", 720, l::BER_12M),
        summary: "{{ $labels.host }} {{ $labels.device }}: bit error rate above 1e-14",
        says: "{{ $value }} errors of the wire in 12 minutes: more than any good link of this rate has. Take it out of use, clean and reseat, replace.",
        cases: vec![
            // 400 Gb/s: 2.88 errors in 12 minutes are the limit.
            fires(
                "30m",
                &[PORT],
                &[
                    (r#"fabric_link_symbol_errors_total{host="h1",device="mlx5_0",port="1"}"#, "0x20 3x20"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                ],
            )
            .every("1m"),
            // Two errors; and many, long ago.
            silent(
                "40m",
                &[
                    (r#"fabric_link_symbol_errors_total{host="h1",device="mlx5_0",port="1"}"#, "0x30 2x20"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x50"),
                    (r#"fabric_link_symbol_errors_total{host="h2",device="mlx5_0",port="1"}"#, "0x5 900x50"),
                    (r#"fabric_port_rate_bytes_per_second{host="h2",device="mlx5_0",port="1"}"#, "50e9x50"),
                ],
            )
            .every("1m"),
        ],
    }
}

fn ber_rising() -> Alert {
    Alert {
        name: "FabricLinkBerRising",
        severity: Warning,
        hold: "0s",
        expr: beyond("125m", 7500, l::BER_125M),
        summary: "{{ $labels.host }} {{ $labels.device }}: bit error rate above 1e-15",
        says: "{{ $value }} errors of the wire in 125 minutes: this link becomes bad. Plan to clean, reseat or replace it.",
        cases: vec![
            fires(
                "170m",
                &[PORT],
                &[
                    (r#"fabric_link_symbol_errors_total{host="h1",device="mlx5_0",port="1"}"#, "0x60 1x30 2x30 4x60"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x180"),
                ],
            )
            .every("1m"),
            silent(
                "170m",
                &[
                    (r#"fabric_link_symbol_errors_total{host="h1",device="mlx5_0",port="1"}"#, "0x60 1x60 2x60"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x180"),
                ],
            )
            .every("1m"),
        ],
    }
}

fn flapping() -> Alert {
    let times = |window: &str| {
        format!(
            "max by ({BY}) ({} or {})",
            grown("fabric_link_downs_total", window),
            grown("fabric_link_carrier_transitions_total{state=\"down\"}", window)
        )
    };
    Alert {
        name: "FabricLinkFlapping",
        severity: Warning,
        hold: "0s",
        expr: format!(
            "{} >= {}\nor on ({BY})\n(\n  {} >= {}\n  and on ({BY})\n  {} >= 1\n)",
            times("10m"),
            l::FLAPS_10M.at,
            times("1d"),
            l::FLAPS_24H.at,
            times("10m"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} flaps: down {{ $value }} times",
        says: "Three times in ten minutes, or five in a day. Each time routes change and jobs wait. Reseat, then replace the cable; drain the host until it is quiet.",
        cases: vec![
            fires(
                "20m",
                &[PORT],
                &[(r#"fabric_link_downs_total{host="h1",device="mlx5_0",port="1"}"#, "4x12 5x1 6x1 7x10")],
            )
            .every("1m"),
            // Five in a day, the last just now.
            fires(
                "1d20m",
                &[PORT],
                &[(
                    r#"fabric_link_carrier_transitions_total{host="h1",device="mlx5_0",port="1",state="down"}"#,
                    "1x60 2x60 3x60 4x60 5x46 6x10",
                )],
            )
            .every("5m"),
            // Twice; and five in a day, none just now.
            silent("20m", &[(r#"fabric_link_downs_total{host="h1",device="mlx5_0",port="1"}"#, "4x12 5x1 6x10")])
                .every("1m"),
            silent(
                "1d20m",
                &[(r#"fabric_link_downs_total{host="h1",device="mlx5_0",port="1"}"#, "1x60 2x60 3x60 4x30 5x30 6x70")],
            )
            .every("5m"),
        ],
    }
}

fn degraded() -> Alert {
    let fell = |gauge: &str, share: f64| {
        format!("{} < on ({BY}) {share} * max by ({BY}) (max_over_time({gauge}[1d:5m]))", port(gauge))
    };
    Alert {
        name: "FabricLinkDegraded",
        severity: Warning,
        hold: "1m",
        expr: format!(
            "(\n  {}\n  or on ({BY})\n  {}\n)\nand on ({BY})\n{} == 1",
            fell("fabric_port_rate_bytes_per_second", l::RATE_FELL.at),
            fell("fabric_port_width", 1.0),
            port("fabric_port_up"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} trained to less than it had",
        says: "The link is up and runs slower, or with fewer lanes, than within the last day. All jobs on this host wait for it. Reseat; replace cable or module.",
        cases: vec![
            fires(
                "40m",
                &[PORT],
                &[
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x20 25e9x30"),
                    (r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x50"),
                ],
            )
            .every("1m"),
            fires(
                "40m",
                &[PORT],
                &[
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x50"),
                    (r#"fabric_port_width{host="h1",device="mlx5_0",port="1"}"#, "4x20 1x30"),
                    (r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x50"),
                ],
            )
            .every("1m"),
            // As ever; and a port that is down tells any rate.
            silent(
                "40m",
                &[
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x50"),
                    (r#"fabric_port_width{host="h1",device="mlx5_0",port="1"}"#, "4x50"),
                    (r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x50"),
                    (r#"fabric_port_rate_bytes_per_second{host="h2",device="mlx5_0",port="1"}"#, "50e9x20 1e9x30"),
                    (r#"fabric_port_up{host="h2",device="mlx5_0",port="1"}"#, "1x20 0x30"),
                ],
            )
            .every("1m"),
        ],
    }
}

fn pcie() -> Alert {
    let of = |gauge: &str| format!("max by (host, device) ({gauge})");
    Alert {
        name: "FabricPcieDegraded",
        severity: Warning,
        hold: "1m",
        expr: format!(
            "(\n  {rate} < {} * {}\n  and on (host, device)\n  {rate} < {}\n)\nor on (host, device)\n{} >= {}",
            l::PCIE_TRAINED.at,
            of("fabric_pcie_rate_max_bytes_per_second"),
            of("fabric_port_rate_bytes_per_second"),
            of("rate(fabric_pcie_stall_seconds_total[5m])"),
            l::PCIE_STALLED.at,
            rate = of("fabric_pcie_rate_bytes_per_second"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: PCIe is slower than the link",
        says: "The path to memory was trained to less than slot and adapter can, or requests stall: this NIC becomes a slow receiver and pauses the fabric. Reseat, look at riser and BIOS.",
        cases: vec![
            fires(
                "10m",
                &[r#"host="h1",device="mlx5_0""#],
                &[
                    (r#"fabric_pcie_rate_bytes_per_second{host="h1",device="mlx5_0"}"#, "31.5e9x40"),
                    (r#"fabric_pcie_rate_max_bytes_per_second{host="h1",device="mlx5_0"}"#, "63e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                ],
            ),
            fires(
                "10m",
                &[r#"host="h1",device="mlx5_0""#],
                &[(
                    r#"fabric_pcie_stall_seconds_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#,
                    "0+6x40",
                )],
            ),
            // As it should be; and a slow slot that is faster than its link.
            silent(
                "10m",
                &[
                    (r#"fabric_pcie_rate_bytes_per_second{host="h1",device="mlx5_0"}"#, "63e9x40"),
                    (r#"fabric_pcie_rate_max_bytes_per_second{host="h1",device="mlx5_0"}"#, "63e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                    (r#"fabric_pcie_rate_bytes_per_second{host="h1",device="mlx5_1"}"#, "15e9x40"),
                    (r#"fabric_pcie_rate_max_bytes_per_second{host="h1",device="mlx5_1"}"#, "31.5e9x40"),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_1",port="1"}"#, "12.5e9x40"),
                    (
                        r#"fabric_pcie_stall_seconds_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#,
                        "0+1x40",
                    ),
                ],
            ),
        ],
    }
}
