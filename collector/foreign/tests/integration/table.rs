//! Rows agree with the catalog.

use std::collections::HashSet;

use fabriclens_catalog::Scope;
use fabriclens_foreign::{LabelValue, PortFrom, SOURCES, Target, source_of};

#[test]
fn rows_have_the_labels_and_scope_of_their_metrics() {
    for source in SOURCES {
        for row in source.rows() {
            let Target::Series { metric, port, labels, .. } = &row.target else { continue };
            let mut names: Vec<&str> = labels.iter().map(|label| label.name).collect();
            assert!(names.iter().all(|name| metric.labels.contains(name)), "{}: {names:?}", row.name);
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: a label twice", row.name);
            let whole = matches!(port, PortFrom::Switch);
            assert_eq!(whole, metric.scope == Scope::Host, "{}: {}", row.name, metric.name);
            let number = labels.iter().any(|label| matches!(label.value, LabelValue::Number));
            assert!(!number || row.name.contains("{}"), "{} has no number", row.name);
        }
    }
}

#[test]
fn rows_are_reached() {
    for source in SOURCES {
        let (mut seen, mut unconditional) = (HashSet::new(), HashSet::new());
        for row in source.rows() {
            assert!(seen.insert((row.name, format!("{:?}", row.when))), "{} twice", row.name);
            assert!(!unconditional.contains(row.name), "{} after its row without conditions", row.name);
            if row.when.is_empty() {
                unconditional.insert(row.name);
            }
        }
        let ids: Vec<_> = source.rows().filter_map(|row| row.ids).collect();
        for (at, a) in ids.iter().enumerate() {
            let last = a.first + (a.count - 1) * a.step;
            let same = |b: &fabriclens_foreign::Ids| b.index(a.object, a.first).or(b.index(a.object, last)).is_some();
            assert!(!ids[at + 1..].iter().any(same), "{a:?} overlaps");
        }
    }
}

#[test]
fn sources_are_told_apart() {
    let none: &[(&str, &str)] = &[];
    let source = |name, attributes: &[(&str, &str)]| source_of(name, attributes).map(|source| source.name);
    assert_eq!(source("nvswitch_interface_tx_wait", none), Some("cumulus"));
    assert_eq!(source("sai_counter_type_1_stat_1_ratio", none), Some("sonic_hft"));
    assert_eq!(source("infiniband_switch_port_link_downed_total", none), Some("treydock"));
    assert_eq!(source("infiniband_linkdownedcounter_total", none), Some("guilbaults"));
    assert_eq!(source("ifHCInOctets", &[("ifIndex", "3")]), Some("snmp"));
    assert_eq!(source("ifHCInOctets", none), None, "only what snmp_exporter indexes");
    assert_eq!(source("PortXmitDataExtended", &[("node_guid", "0x1")]), Some("ufm"));
    for own in ["fabric_port_io_bytes_total", "node_network_receive_bytes_total", "infiniband", "up"] {
        assert_eq!(source(own, none), None, "{own}");
    }
}
