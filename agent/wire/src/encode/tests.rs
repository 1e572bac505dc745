//! Bounds of the encoder's cache.

use super::*;

fn metric(name: &str) -> &'static fabriclens_catalog::Metric {
    fabriclens_catalog::metrics::all().find(|m| m.name == name).unwrap()
}

/// A read of a switch port: its list differs from that of other ports in the labels of the info column.
pub(crate) fn section(port: u32, neighbor: &str) -> Section {
    let labels = |name: &str, value: &str| vec![(name.into(), value.into())];
    let columns = [
        Column { metric: metric("fabric.port.io"), labels: labels("direction", "transmit") },
        Column { metric: metric("fabric.port.io"), labels: labels("direction", "receive") },
        Column { metric: metric("fabric.port.info"), labels: labels("switch", neighbor) },
        Column { metric: metric("fabric.port.up"), labels: Vec::new() },
        Column { metric: metric("fabric.port.rate"), labels: Vec::new() },
    ];
    Section {
        resource: Arc::new(Resource { host: "leaf1".into(), device: None, port: Some(port) }),
        columns: columns.into(),
        begin_ns: 1,
        end_ns: 2,
        starts: [1; 5].into(),
        values: [u64::from(port), 2, 1, 1, 5].map(Value::Int).into(),
        urgent: false,
    }
}

#[test]
fn ports_that_differ_in_their_neighbors_share_a_shape() {
    let sections: Vec<Section> = (0..5000).map(|port| section(port, &format!("spine{port}"))).collect();
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    for _ in 0..2 {
        encoder.encode(&sections, &mut out);
        assert_eq!(out, request_bytes(&sections));
        assert_eq!((encoder.resources.len(), encoder.shapes.len()), (5000, 1));
    }
    assert!(encoder.bytes < 5000 * 500, "{} bytes", encoder.bytes);
    // Another label outside of the info column is another shape.
    let mut other = section(1, "spine1");
    let mut columns = other.columns.to_vec();
    columns[0].labels[0].1 = "both".into();
    other.columns = columns.into();
    encoder.encode(std::slice::from_ref(&other), &mut out);
    assert_eq!(out, request_bytes(&[other]));
    assert_eq!(encoder.shapes.len(), 2);
}

#[test]
fn a_full_cache_keeps_what_it_has() {
    // A label of a mebibyte each, so that the cache is full after some tens.
    let sections: Vec<Section> = (0..80).map(|port| section(port, &"x".repeat(1 << 20))).collect();
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    for _ in 0..2 {
        encoder.encode(&sections, &mut out);
        assert!((CACHE / 2..=CACHE).contains(&encoder.bytes), "{} bytes", encoder.bytes);
        assert!(encoder.resources.contains_key(&sections[0].resource));
        assert!(!encoder.resources.contains_key(&sections[79].resource));
    }
    assert_eq!(out.len(), request_bytes(&sections).len());
}

#[test]
fn lists_that_ended_and_idle_resources_are_forgotten() {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    let idle = section(1, "spine1");
    encoder.encode(std::slice::from_ref(&idle), &mut out);
    for n in 0..2 * UNUSED {
        // A new list each time; the one before has no other user.
        encoder.encode(&[section(2, &format!("spine{n}"))], &mut out);
    }
    let layouts: Vec<usize> = encoder.resources.values().map(|cached| cached.layouts.len()).collect();
    assert_eq!(layouts, [1], "the idle port is gone, and one list of the other is left");
    let bytes: usize = encoder.resources.values().map(Cached::bytes).sum();
    assert_eq!((encoder.bytes, encoder.shapes.len()), (bytes, 1));
}
