//! Links of the fabric in a report, by the counters of switch ports.

use crate::common::{Fabric, job};
use fabriclens_report::{Link, LinkEnd, html, markdown};

/// A cable between two ports; nodes named `h…` are hosts.
fn link(a: (&str, &str), b: (&str, &str)) -> Link {
    let end = |(node, port): (&str, &str)| LinkEnd {
        node: node.to_owned(),
        port: Some(port.to_owned()).filter(|port| !port.starts_with('?')),
        is_switch: !node.starts_with('h'),
    };
    Link { ends: [end(a), end(b)] }
}

/// A counter of a switch port that grows by `rate` a second, sampled every ten seconds.
fn counter(fabric: &Fabric, name: &str, (switch, port): (&str, &str), more: &[(&str, &str)], rate: f64) {
    let identity = [("__name__", name), ("host", switch), ("port", port)];
    fabric.put(&[&identity, more].concat(), (-60..=660).step_by(10), |s| 1e6 + rate * s as f64);
}

#[test]
fn damaged_dropping_and_waiting_links_are_named_in_this_order() {
    let fabric = Fabric::new();
    let pause = "fabric_pfc_pause_seconds_total";
    let received = ("direction", "receive");
    // The leaf is paused by its first spine in two priorities at once, for a fifth of the time.
    for priority in ["3", "4"] {
        counter(&fabric, pause, ("leaf", "swp1"), &[received, ("priority", priority)], 0.2);
    }
    counter(&fabric, "fabric_port_io_bytes_total", ("leaf", "swp1"), &[("direction", "transmit")], 4e9);
    counter(&fabric, "fabric_port_rate_bytes_per_second", ("leaf", "swp1"), &[], 0.0);
    // Frames of the second spine arrive damaged at the leaf, and of the leaf at the spine.
    counter(&fabric, "fabric_link_crc_errors_total", ("leaf", "swp2"), &[received], 1.0);
    counter(&fabric, "fabric_link_crc_errors_total", ("spine2", "Ethernet0"), &[received], 2.0);
    // The leaf drops packets for the host, for two reasons.
    for reason in ["buffer", "other"] {
        let more = [("direction", "transmit"), ("reason", reason)];
        counter(&fabric, "fabric_port_discards_total", ("leaf", "swp9"), &more, 0.5);
    }
    // A link without harm, one without counters, and a port of the same name at a switch that the job does not use.
    counter(&fabric, "fabric_port_io_bytes_total", ("leaf", "swp3"), &[("direction", "transmit")], 1e9);
    counter(&fabric, "fabric_link_crc_errors_total", ("other", "swp3"), &[received], 9.0);
    let links = || {
        vec![
            link(("leaf", "swp1"), ("spine1", "Ethernet0")),
            link(("leaf", "swp2"), ("spine2", "Ethernet0")),
            link(("leaf", "swp3"), ("spine3", "?leaf")),
            link(("leaf", "swp4"), ("spine4", "Ethernet0")),
            link(("h1", "mlx5_0/1"), ("leaf", "swp9")),
        ]
    };
    let of = job("1", "", (0, Some(600)), &[("h1", &[])]);
    let report = fabric.report_on(links(), &of, 700);
    let worst: Vec<_> = report.links.worst.iter().map(|l| (l.link.as_str(), l.errors, l.drops, l.held)).collect();
    let expected = [
        ("leaf swp2 - spine2 Ethernet0", Some(1800.0), None, None),
        ("h1 mlx5_0/1 - leaf swp9", None, Some(600.0), None),
        ("leaf swp1 - spine1 Ethernet0", None, None, Some(0.2)),
    ];
    assert_eq!(worst.len(), expected.len(), "{worst:?}");
    for ((link, errors, drops, held), wanted) in worst.iter().zip(expected) {
        let near = |a: Option<f64>, b: Option<f64>| a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-6 * b);
        assert_eq!(*link, wanted.0);
        assert!(near(*errors, wanted.1) && near(*drops, wanted.2) && near(*held, wanted.3), "{worst:?}");
    }
    assert_eq!((report.links.known, report.links.measured), (5, 4));
    let markdown = markdown(&report);
    assert!(markdown.contains("## Links of the fabric") && html(&report).contains("leaf swp2 - spine2 Ethernet0"));
    assert!(markdown.contains("4 of 5 links on the way of this job were read at a switch."), "{markdown}");

    let blind = Fabric::new().report_on(links(), &of, 700);
    assert_eq!((blind.links.known, blind.links.measured, blind.links.worst.len()), (5, 0, 0));
    assert!(html(&blind).contains("No switch port on the way of this job was read"));
}
