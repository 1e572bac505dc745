//! Dashboard "Link health": which cable, module or slot is failing?

use super::common::{OF_DEVICE, below_leaf, errors_grown, grown};
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, states, table};
use super::thresholds;

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "links",
        title: "Fabriclens: Link health",
        description: "Which cable, module or slot is failing? A link that shows up twice here (errors and light, or flaps \
                    and temperature) is the one to replace. Errors at both ends: the cable; at one end: the module or \
                    port of that end.",
        since: "now-6h",
        vars: vec![Var::Leaf, Var::Host, Var::Device],
        rows: vec![state(), errors(), fec(), optics(), pcie()],
    }
}

/// Number of link downs in a window.
fn flaps(window: &str) -> String {
    format!(
        "max by (host, device) ({} or {}) > 0",
        grown(&format!("fabric_link_downs_total{{{OF_DEVICE}}}"), window),
        grown(&format!("fabric_link_carrier_transitions_total{{state=\"down\",{OF_DEVICE}}}"), window)
    )
}

fn state() -> Row {
    row(
        "Link state",
        vec![
            states("Ports that were down")
                .description("Ports that were down in the selected time range. All ports of one host: the host restarted. Hosts of \
                    one leaf: the leaf. One port: check whether it flaps.")
                .query(
                    format!(
                        "{} and on (host, device, port) (min_over_time(fabric_port_up{{{OF_DEVICE}}}[$__range]) == 0)",
                        below_leaf(&format!("fabric_port_up{{{OF_DEVICE}}}"))
                    ),
                    "{{host}} {{device}}",
                )
                .mappings(&[("0", "down", "red"), ("1", "up", "green")])
                .threshold(0.0, "red")
                .threshold(1.0, "green")
                .link(Link::Port)
                .wide(12)
                .no_data("No port was down."),
            table("Flaps", Unit::Count)
                .description("Number of link downs. Three in ten minutes or five in a day: reseat, then replace the cable. The \
                    kernel's count is used if the device has none.")
                .query(
                    flaps("10m"),
                    "in 10 minutes",
                )
                .query(
                    flaps("1d"),
                    "in 24 hours",
                )
                .detector_threshold(thresholds::FLAPS_10M, "orange")
                .detector_threshold(thresholds::FLAPS_24H, "red")
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .no_data("No link went down."),
            table("Below previous rate", Unit::Share)
                .description("Current rate as a share of the highest of the last day. Below 90 % lanes were lost or the link \
                    trained down: reseat, clean, replace.")
                .query(
                    format!(
                        "fabric_port_rate_bytes_per_second{{{OF_DEVICE}}} / max_over_time(fabric_port_rate_bytes_per_second{{{OF_DEVICE}}}[1d:5m]) \
                         < {} and on (host, device, port) fabric_port_up == 1",
                        thresholds::RATE_FELL.at
                    ),
                    "of its rate",
                )
                .link(Link::Host)
                .link(Link::Port)
                .no_data("All links run at their rate.")
                .high(6),
        ],
    )
}

fn errors() -> Row {
    let windows = [("12m", 720, "over 12 minutes"), ("125m", 7500, "over 125 minutes")];
    let ber = |window: &str, seconds: u32| {
        format!(
            "{} / on (host, device, port) (fabric_port_rate_bytes_per_second{{{OF_DEVICE}}} * {}) > 0",
            errors_grown(OF_DEVICE, window),
            8 * seconds
        )
    };
    let mut errors = table("Bit error rate after correction", Unit::Count).description(
        "The larger of symbol and CRC errors, divided by the bits at line rate, in the two windows used for \
                    link acceptance: 1e-14 in 12 minutes is a bad link, 1e-15 in 125 minutes a degrading one; a single \
                    error is an accident. Lists only links with errors.",
    );
    for (window, seconds, title) in windows {
        errors = errors.query(ber(window, seconds), title);
    }
    row(
        "Link errors",
        vec![
            lines("Symbol and CRC errors", Unit::PerSecond)
                .description("Errors after forward error correction. Any sustained rate is a fault: clean and reseat first, then \
                    swap the cable ends; if the errors follow the cable, replace it.")
                .query(
                    format!("topk(10, rate(fabric_link_symbol_errors_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} symbol",
                )
                .query(
                    format!(
                        "topk(10, rate(fabric_link_crc_errors_total{{direction=\"receive\",{OF_DEVICE}}}[$__rate_interval]) > 0)"
                    ),
                    "{{host}} {{device}} CRC",
                )
                .query(
                    format!("topk(10, rate(fabric_link_receive_errors_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} receive",
                )
                .link(Link::Port)
                .no_data("No link has errors."),
            errors
                .detector_threshold(thresholds::BER_125M, "orange")
                .detector_threshold(thresholds::BER_12M, "red")
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .no_data("No link has errors."),
        ],
    )
}

fn fec() -> Row {
    let corrected = |offset: &str| {
        format!(
            "(rate(fabric_fec_corrected_blocks_total{{{OF_DEVICE}}}[5m]{offset}) or \
             rate(fabric_fec_corrected_bits_total{{{OF_DEVICE}}}[5m]{offset}) \
             unless on (host, device, port) fabric_fec_corrected_blocks_total{offset})"
        )
    };
    row(
        "Forward error correction",
        vec![
            lines("Corrected", Unit::PerSecond)
                .description("Code words (or bits) corrected by FEC. Links with 50 Gb/s lanes correct all the time; one that \
                    corrects ten times more than before wears out. Plan its replacement.")
                .query(format!("topk(12, {})", corrected("")), "{{host}} {{device}}")
                .link(Link::Port),
            lines("Uncorrectable", Unit::PerSecond)
                .description("Code words that FEC could not correct: frames were lost with them. Replace the cable or the module.")
                .query(
                    format!("topk(12, rate(fabric_fec_uncorrectable_blocks_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .no_data("No code word was lost."),
            table("Corrected, compared with a day ago", Unit::Count)
                .description("Links that correct ten times more than at this time yesterday (and at least 100 a second). They lose \
                    nothing yet.")
                .query(
                    format!(
                        "{now} / {then} >= {times} and {now} >= {least}",
                        now = corrected(""),
                        then = corrected(" offset 1d"),
                        times = thresholds::MENDED.at,
                        least = thresholds::MENDED_LEAST.at
                    ),
                    "times",
                )
                .detector_threshold(thresholds::MENDED, "orange")
                .link(Link::Host)
                .link(Link::Port)
                .no_data("No link wears out.")
                .high(6),
        ],
    )
}

fn optics() -> Row {
    row(
        "Optics",
        vec![
            lines("Light received, weakest lane", Unit::Dbm)
                .description("Ports with the lowest received power. Below -11 dBm most receivers lose data; 3 dB less than \
                    yesterday is half the light: clean the connector, then replace the module.")
                .query(
                    format!(
                        "bottomk(12, 10 * log10(1000 * min by (host, device, port) (fabric_module_receive_power_watts{{{OF_DEVICE}}})))"
                    ),
                    "{{host}} {{device}}",
                )
                .detector_threshold(thresholds::LIGHT, "green")
                .link(Link::Port),
            lines("Temperature of modules", Unit::Celsius)
                .description("The hottest modules. Above 70 °C a module ages fast: check fans, filters and blanking plates.")
                .query(format!("topk(12, fabric_module_temperature_celsius{{{OF_DEVICE}}})"), "{{host}} {{device}}")
                .detector_threshold(thresholds::MODULE_HOT, "red")
                .link(Link::Port),
        ],
    )
}

fn pcie() -> Row {
    let of = r#"host=~"$host",device=~"$device""#;
    row(
        "PCIe",
        vec![
            table("PCIe below capability", Unit::Share)
                .description("PCIe bandwidth as a share of what slot and adapter support. Below 90 % and below the link rate the \
                    NIC becomes a slow receiver: reseat it, check the riser, the BIOS setting of the slot, and PCIe \
                    errors.")
                .query(
                    format!(
                        "fabric_pcie_rate_bytes_per_second{{{of}}} / fabric_pcie_rate_max_bytes_per_second{{{of}}} < {}",
                        thresholds::PCIE_TRAINED.at
                    ),
                    "of capability",
                )
                .link(Link::Host)
                .link(Link::Port)
                .wide(8)
                .no_data("All paths run at full bandwidth."),
            lines("Stalled memory requests", Unit::Share)
                .description("Share of time in which the adapter waited for memory. A fifth is too much: check NUMA placement, \
                    IOMMU, relaxed ordering, or a slow root port.")
                .query(
                    format!("topk(8, rate(fabric_pcie_stall_seconds_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} {{direction}}",
                )
                .detector_threshold(thresholds::PCIE_STALLED, "red")
                .max(1.0)
                .link(Link::Port)
                .wide(8)
                .no_data("No stalls."),
            lines("PCIe errors", Unit::PerSecond)
                .description("AER errors. Correctable errors that keep coming: reseat; nonfatal or fatal: replace.")
                .query(
                    format!("topk(8, sum by (host, device, severity) (rate(fabric_pcie_aer_errors_all_total{{{of}}}[$__rate_interval])) > 0)"),
                    "{{host}} {{device}} {{severity}}",
                )
                .link(Link::Port)
                .wide(8)
                .no_data("No errors."),
        ],
    )
}
