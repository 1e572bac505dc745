//! Alerts on links and PCIe.

use super::Severity::{Critical, Warning};
use super::{Alert, BY, PORT, errors_grown, fires, grown, line, port, silent};
use crate::dashboards::thresholds as t;

/// Rules with windows of minutes to days.
pub fn rules() -> Vec<Alert> {
    vec![link_down(), ber_high(), ber_rising(), flapping(), degraded(), pcie()]
}

fn link_down() -> Alert {
    Alert {
        name: "FabricLinkDown",
        severity: Critical,
        hold: "30s",
        expr: format!(
            "max by ({BY}) (fabric_port_up{{port!=\"\"}}) == 0\nand on ({BY})\nmax by ({BY}) (max_over_time(fabric_port_up{{port!=\"\"}}[6h:5m]) == 1 or max_over_time(fabric_port_up{{port!=\"\"}}[2d:1h])) == 1"
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} is down",
        description: "This port was up within two days (six hours, if only for minutes) and is down now. Many at once: \
                    their switch or host. One: cable or module. The alert ends after that time, although the port may \
                    still be down.",
        cases: vec![
            fires("20m", &[PORT], &[(r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x60 0x40")]),
            // A day later, and after three days.
            fires("30h", &[PORT], &[(r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x60 0x360")])
                .every("5m"),
            silent("75h", &[(r#"fabric_port_up{host="h1",device="mlx5_0",port="1"}"#, "1x60 0x900")]).every("5m"),
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

/// Link errors in a window above a bit error rate at the link's rate, and more than a single one.
fn beyond(window: &str, seconds: u32, ber: t::Threshold) -> String {
    let errors = errors_grown("", window);
    format!(
        "{errors} >= {}\nand on ({BY})\n{errors} >= on ({BY}) {} * 8 * {seconds} * {:e}",
        t::ERRORS.at,
        line(),
        ber.at
    )
}

fn ber_high() -> Alert {
    Alert {
        name: "FabricLinkBerHigh",
        severity: Critical,
        hold: "0s",
        expr: beyond("12m", 720, t::BER_12M),
        summary: "{{ $labels.host }} {{ $labels.device }}: bit error rate above 1e-14",
        description: "{{ $value }} link errors in 12 minutes: more than any good link of this rate has. Take it out of \
                    use, clean and reseat, replace.",
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
            // An adapter that counts CRC errors only.
            fires(
                "30m",
                &[PORT],
                &[
                    (
                        r#"fabric_link_crc_errors_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#,
                        "0x20 3x20",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "50e9x40"),
                ],
            )
            .every("1m"),
            // At 100 Gb/s two errors are enough; one bad frame that is counted as symbol and CRC error is not two.
            silent(
                "30m",
                &[
                    (r#"fabric_link_symbol_errors_total{host="h1",device="mlx5_0",port="1"}"#, "0x20 1x20"),
                    (
                        r#"fabric_link_crc_errors_total{host="h1",device="mlx5_0",port="1",direction="receive"}"#,
                        "0x20 1x20",
                    ),
                    (r#"fabric_port_rate_bytes_per_second{host="h1",device="mlx5_0",port="1"}"#, "12.5e9x40"),
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
        expr: beyond("125m", 7500, t::BER_125M),
        summary: "{{ $labels.host }} {{ $labels.device }}: bit error rate above 1e-15",
        description: "{{ $value }} link errors in 125 minutes: this link degrades. Plan to clean, reseat or replace it.",
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
            t::FLAPS_10M.at,
            times("1d"),
            t::FLAPS_24H.at,
            times("10m"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }} flaps: down {{ $value }} times",
        description: "Three times in ten minutes, or five in a day. Each time routes change and jobs wait. Reseat, then \
                    replace the cable; drain the host until the link is stable.",
        cases: vec![
            fires(
                "20m",
                &[PORT],
                &[(r#"fabric_link_downs_total{host="h1",device="mlx5_0",port="1"}"#, "4x12 5x1 6x1 7x10")],
            )
            .every("1m"),
            // Five in a day, the last one recent.
            fires(
                "1d20m",
                &[PORT],
                &[(
                    r#"fabric_link_carrier_transitions_total{host="h1",device="mlx5_0",port="1",state="down"}"#,
                    "1x60 2x60 3x60 4x60 5x46 6x10",
                )],
            )
            .every("5m"),
            // Twice; and five in a day, none recent.
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
            fell("fabric_port_rate_bytes_per_second", t::RATE_FELL.at),
            fell("fabric_port_width", 1.0),
            port("fabric_port_up"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: link rate or width is lower than before",
        description: "The link is up with a lower rate or fewer lanes than within the last day. All jobs on this host wait \
                    for it. Reseat; replace cable or module. The alert ends after a day, although the link may still be \
                    slow.",
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
            // Unchanged; and a port that is down may report any rate.
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
            t::PCIE_TRAINED.at,
            of("fabric_pcie_rate_max_bytes_per_second"),
            of("fabric_port_rate_bytes_per_second"),
            of("rate(fabric_pcie_stall_seconds_total[5m])"),
            t::PCIE_STALLED.at,
            rate = of("fabric_pcie_rate_bytes_per_second"),
        ),
        summary: "{{ $labels.host }} {{ $labels.device }}: PCIe is slower than the link",
        description: "PCIe was trained to less than slot and adapter support, or requests stall: this NIC becomes a slow \
                    receiver and pauses the fabric. Reseat, check riser and BIOS.",
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
            // Full bandwidth; and a slow slot that is faster than its link.
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
