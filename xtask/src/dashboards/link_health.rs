//! Which cable, module or slot is failing?

use super::common::{OF_DEVICE, below_leaf, errors_grown, grown};
use super::limits;
use super::panel::{Dashboard, Link, Row, Unit, Var, lines, row, states, table};

pub fn dashboard() -> Dashboard {
    Dashboard {
        name: "links",
        title: "Fabriclens: Link health",
        says: "Which cable, module or slot is failing? A link that is named twice here (errors and light, or flaps and \
               temperature) is the one to replace. Errors at both ends: the cable; at one end: that end's module or port.",
        since: "now-6h",
        vars: vec![Var::Leaf, Var::Host, Var::Device],
        rows: vec![state(), errors(), fec(), optics(), pcie()],
    }
}

/// How often links went down.
fn flaps(window: &str) -> String {
    format!(
        "max by (host, device) ({} or {}) > 0",
        grown(&format!("fabric_link_downs_total{{{OF_DEVICE}}}"), window),
        grown(&format!("fabric_link_carrier_transitions_total{{state=\"down\",{OF_DEVICE}}}"), window)
    )
}

fn state() -> Row {
    row(
        "Up and down",
        vec![
            states("Ports that were down")
                .says("Ports that were down at some time, while others are up. All ports of one host: the host restarts. Hosts of one \
                       leaf: the leaf. One port: see whether it flaps.")
                .ask(
                    format!(
                        "{} and on (host, device, port) (min_over_time(fabric_port_up{{{OF_DEVICE}}}[$__range]) == 0)",
                        below_leaf(&format!("fabric_port_up{{{OF_DEVICE}}}"))
                    ),
                    "{{host}} {{device}}",
                )
                .words(&[("0", "down", "red"), ("1", "up", "green")])
                .step(0.0, "red")
                .step(1.0, "green")
                .link(Link::Port)
                .wide(12)
                .none("No port was down."),
            table("Flaps", Unit::Count)
                .says("How often the link went down. Three times in ten minutes, or five in a day: reseat, then replace the cable. The \
                       kernel's count serves where the device has none.")
                .ask(
                    flaps("10m"),
                    "in 10 minutes",
                )
                .ask(
                    flaps("1d"),
                    "in 24 hours",
                )
                .limit(limits::FLAPS_10M, "orange")
                .limit(limits::FLAPS_24H, "red")
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .none("No link went down."),
            table("Slower than they were", Unit::Share)
                .says("Rate now, of the highest of the last day. Below 90 % lanes were lost or the link trained down: reseat, clean, \
                       replace.")
                .ask(
                    format!(
                        "fabric_port_rate_bytes_per_second{{{OF_DEVICE}}} / max_over_time(fabric_port_rate_bytes_per_second{{{OF_DEVICE}}}[1d:5m]) \
                         < {} and on (host, device, port) fabric_port_up == 1",
                        limits::RATE_FELL.at
                    ),
                    "of its rate",
                )
                .link(Link::Host)
                .link(Link::Port)
                .none("All links run at their rate.")
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
    let mut errors = table("Bit error rate after correction", Unit::Count)
        .says("Symbol or CRC errors, whichever are more, over the bits that the link could carry, in the two windows by which links are \
               accepted: 1e-14 in 12 minutes is a bad link, 1e-15 in 125 minutes one that becomes bad; a single error is an accident. Only \
               links with errors are listed.");
    for (window, seconds, title) in windows {
        errors = errors.ask(ber(window, seconds), title);
    }
    row(
        "Errors of the wire",
        vec![
            lines("Symbol and CRC errors", Unit::PerSecond)
                .says("Errors that correction did not catch. Any that stays is a fault: clean and reseat first, then swap the cable \
                       end for end; if the errors follow it, replace it.")
                .ask(
                    format!("topk(10, rate(fabric_link_symbol_errors_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} symbol",
                )
                .ask(
                    format!(
                        "topk(10, rate(fabric_link_crc_errors_total{{direction=\"receive\",{OF_DEVICE}}}[$__rate_interval]) > 0)"
                    ),
                    "{{host}} {{device}} CRC",
                )
                .ask(
                    format!("topk(10, rate(fabric_link_receive_errors_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} receive",
                )
                .link(Link::Port)
                .none("No link has errors."),
            errors
                .limit(limits::BER_125M, "orange")
                .limit(limits::BER_12M, "red")
                .link(Link::Host)
                .link(Link::Port)
                .wide(12)
                .none("No link has errors."),
        ],
    )
}

fn fec() -> Row {
    let mended = |offset: &str| {
        format!(
            "(rate(fabric_fec_corrected_blocks_total{{{OF_DEVICE}}}[5m]{offset}) or \
             rate(fabric_fec_corrected_bits_total{{{OF_DEVICE}}}[5m]{offset}) \
             unless on (host, device, port) fabric_fec_corrected_blocks_total{offset})"
        )
    };
    row(
        "Forward error correction",
        vec![
            lines("Mended", Unit::PerSecond)
                .says("Code words (or bits) that correction mended. All links of 50 Gb/s lanes mend all the time; one that mends ten \
                       times what it did wears out. Plan its replacement.")
                .ask(format!("topk(12, {})", mended("")), "{{host}} {{device}}")
                .link(Link::Port),
            lines("Could not be mended", Unit::PerSecond)
                .says("Code words that were lost: frames went with them. Replace the cable or the module.")
                .ask(
                    format!("topk(12, rate(fabric_fec_uncorrectable_blocks_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}}",
                )
                .link(Link::Port)
                .none("Nothing is lost."),
            table("Mended, beside a day ago", Unit::Count)
                .says("Links that mend ten times what they did at this time yesterday (and 100 a second): they lose nothing yet.")
                .ask(
                    format!(
                        "{now} / {then} >= {times} and {now} >= {least}",
                        now = mended(""),
                        then = mended(" offset 1d"),
                        times = limits::MENDED.at,
                        least = limits::MENDED_LEAST.at
                    ),
                    "times",
                )
                .limit(limits::MENDED, "orange")
                .link(Link::Host)
                .link(Link::Port)
                .none("No link wears out.")
                .high(6),
        ],
    )
}

fn optics() -> Row {
    row(
        "Optics",
        vec![
            lines("Light received, weakest lane", Unit::Dbm)
                .says("Of the ports with least light. Below -11 dBm most receivers lose; 3 dB less than yesterday is half the light: clean \
                       the connector, then replace the module.")
                .ask(
                    format!(
                        "bottomk(12, 10 * log10(1000 * min by (host, device, port) (fabric_module_receive_power_watts{{{OF_DEVICE}}})))"
                    ),
                    "{{host}} {{device}}",
                )
                .limit(limits::LIGHT, "green")
                .link(Link::Port),
            lines("Temperature of modules", Unit::Celsius)
                .says("The hottest. Above 70 °C a module ages fast: look at fans, filters, blanking plates.")
                .ask(format!("topk(12, fabric_module_temperature_celsius{{{OF_DEVICE}}})"), "{{host}} {{device}}")
                .limit(limits::MODULE_HOT, "red")
                .link(Link::Port),
        ],
    )
}

fn pcie() -> Row {
    let of = r#"host=~"$host",device=~"$device""#;
    row(
        "PCIe",
        vec![
            table("Slower than slot and adapter can", Unit::Share)
                .says("Bandwidth of the path, of what its ends can. Below 90 % and below the link's rate the NIC becomes a slow receiver: \
                       reseat it, look at the riser, the BIOS setting of the slot, and the errors beside.")
                .ask(
                    format!(
                        "fabric_pcie_rate_bytes_per_second{{{of}}} / fabric_pcie_rate_max_bytes_per_second{{{of}}} < {}",
                        limits::PCIE_TRAINED.at
                    ),
                    "of its best",
                )
                .link(Link::Host)
                .link(Link::Port)
                .wide(8)
                .none("All paths are as they should be."),
            lines("Stalled requests to memory", Unit::Share)
                .says("Share of seconds in which the adapter waited for memory. A fifth is too much: NUMA placement, IOMMU, relaxed \
                       ordering, or a slow root port.")
                .ask(
                    format!("topk(8, rate(fabric_pcie_stall_seconds_total{{{OF_DEVICE}}}[$__rate_interval]) > 0)"),
                    "{{host}} {{device}} {{direction}}",
                )
                .limit(limits::PCIE_STALLED, "red")
                .max(1.0)
                .link(Link::Port)
                .wide(8)
                .none("Nothing stalls."),
            lines("PCIe errors", Unit::PerSecond)
                .says("AER. Correctable errors that keep coming: reseat; nonfatal or fatal: replace.")
                .ask(
                    format!("topk(8, sum by (host, device, severity) (rate(fabric_pcie_aer_errors_all_total{{{of}}}[$__rate_interval])) > 0)"),
                    "{{host}} {{device}} {{severity}}",
                )
                .link(Link::Port)
                .wide(8)
                .none("No errors."),
        ],
    )
}
