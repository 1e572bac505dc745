//! What an agent encodes is what a collector stores; plus the pinned bytes of a batch.

use fabriclens_catalog::{Metric, MetricKind, MetricUnit, Scope};
use fabriclens_rows::{ABSENT_NAN, Labels, RowGroup, STALE_NAN};
use fabriclens_wire::decode::{DecodeError, Decoder, Limits, Rejected, Rows};
use fabriclens_wire::{Column, Histogram, Resource, Section, Value, encode};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

static BYTES: Metric = Metric {
    name: "test.port.io",
    unit: MetricUnit::Bytes,
    kind: MetricKind::Counter,
    scope: Scope::Port,
    labels: &["direction"],
    help: "Bytes of the port.",
};
static SHARE: Metric = Metric {
    name: "test.pause.share",
    unit: MetricUnit::Ratio,
    kind: MetricKind::Gauge,
    scope: Scope::Port,
    labels: &["direction", "priority"],
    help: "Share of time paused.",
};
static INFO: Metric = Metric {
    name: "test.port.info",
    unit: MetricUnit::None,
    kind: MetricKind::Info,
    scope: Scope::Device,
    labels: &["driver"],
    help: "Facts about a port.",
};

static RTT: Metric = Metric {
    name: "test.tcp.rtt",
    unit: MetricUnit::Seconds,
    kind: MetricKind::Histogram,
    scope: Scope::Host,
    labels: &["destination"],
    help: "Round trips.",
};

fn resource(host: &str, device: Option<&str>, port: Option<u32>) -> Arc<Resource> {
    Arc::new(Resource { host: host.into(), device: device.map(Into::into), port })
}

fn column(metric: &'static Metric, labels: &[(&str, &str)]) -> Column {
    Column { metric, labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect() }
}

fn columns() -> Arc<[Column]> {
    Arc::from([
        column(&BYTES, &[("direction", "receive")]),
        column(&SHARE, &[("direction", "receive"), ("priority", "3")]),
        column(&BYTES, &[("direction", "transmit")]),
        column(&INFO, &[("driver", "mlx5_core")]),
    ])
}

/// The same columns and a histogram.
fn all_columns() -> Arc<[Column]> {
    columns().iter().cloned().chain([column(&RTT, &[("destination", "rack")])]).collect()
}

/// Every sample as (label set, time) → bits.
type Samples = BTreeMap<(String, i64), u64>;

fn stored(rows: &Rows) -> Samples {
    let mut out = Samples::new();
    for g in &rows.groups {
        assert_eq!(g.values.len(), g.series.len() * g.times.len());
        assert!(g.times.is_sorted_by(|a, b| a < b));
        for (series, values) in g.series.iter().zip(g.values.chunks(g.times.len())) {
            assert!(series.iter().is_sorted_by(|a, b| a.0 < b.0), "{series:?}");
            let text: Vec<String> = series.iter().map(|(k, v)| format!("{k}={v}")).collect();
            for (t, v) in g.times.iter().zip(values).filter(|(_, v)| v.to_bits() != ABSENT_NAN) {
                assert_eq!(out.insert((text.join(","), *t), v.to_bits()), None, "stored twice");
            }
        }
    }
    out
}

fn expected(sections: &[Section]) -> Samples {
    let mut out = Samples::new();
    for s in sections {
        for (c, v) in s.columns.iter().zip(&s.values) {
            let mut labels: BTreeMap<String, String> =
                c.labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            labels.insert("__name__".into(), c.metric.prometheus_name());
            labels.insert("host".into(), s.resource.host.to_string());
            if let Some(d) = &s.resource.device {
                labels.insert("device".into(), d.to_string());
            }
            if let Some(p) = s.resource.port {
                labels.insert("port".into(), p.to_string());
            }
            let mut put = |suffix: &str, le: Option<f64>, bits| {
                let mut labels = labels.clone();
                labels.insert("__name__".into(), c.metric.prometheus_name() + suffix);
                if let Some(le) = le {
                    labels.insert("le".into(), if le.is_infinite() { "+Inf".into() } else { le.to_string() });
                }
                let text: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
                out.insert((text.join(","), (s.end_ns / 1_000_000) as i64), bits);
            };
            match v {
                Value::Absent => {}
                Value::Stale if c.metric.kind == MetricKind::Histogram => {
                    put("_bucket", Some(f64::INFINITY), STALE_NAN);
                    put("_sum", None, STALE_NAN);
                    put("_count", None, STALE_NAN);
                }
                Value::Stale => put("", None, STALE_NAN),
                Value::Int(v) => put("", None, (*v as f64).to_bits()),
                Value::Float(v) => put("", None, v.to_bits()),
                Value::Histogram(h) => {
                    h.cumulative().for_each(|(le, n)| put("_bucket", Some(le), (n as f64).to_bits()));
                    put("_bucket", Some(f64::INFINITY), (h.count() as f64).to_bits());
                    put("_sum", None, h.sum.to_bits());
                    put("_count", None, (h.count() as f64).to_bits());
                }
            }
        }
    }
    out
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Absent),
        Just(Value::Stale),
        any::<u64>().prop_map(Value::Int),
        Just(Value::Int(0)),
        any::<f64>().prop_map(Value::Float),
        Just(Value::Float(f64::INFINITY)),
    ]
}

fn distribution() -> impl Strategy<Value = Value> {
    let histogram = (prop::collection::vec(0u64..1 << 50, 4), any::<f64>()).prop_map(|(counts, sum)| {
        Value::Histogram(Arc::new(Histogram { bounds: Arc::from([0.25, 1.0, 64.0]), counts, sum }))
    });
    prop_oneof![Just(Value::Absent), Just(Value::Stale), histogram]
}

prop_compose! {
    fn sections()(
        ticks in prop::collection::vec((0u32..4, (prop::collection::vec(value(), 4), distribution())), 1..40)
    ) -> Vec<Section> {
        let list = all_columns();
        let resources = [
            resource("a", None, None),
            resource("a", Some("mlx5_0"), None),
            resource("a", Some("mlx5_0"), Some(1)),
            resource("b", Some("mlx5_0"), Some(1)),
        ];
        let starts: Arc<[u64]> = Arc::from([1u64; 5]);
        ticks.into_iter().enumerate().map(|(n, (r, (mut values, histogram)))| {
            values.push(histogram);
            let end_ns = (1_700_000_000_000 + n as u64 * 100) * 1_000_000 + 7;
            Section {
                resource: resources[r as usize].clone(), columns: list.clone(), begin_ns: end_ns - 5, end_ns,
                starts: starts.clone(), values, urgent: false,
            }
        }).collect()
    }
}

proptest! {
    #[test]
    fn encoded_samples_are_stored(sections in sections()) {
        let mut decoder = Decoder::new(Limits::default());
        let bytes = encode::request_bytes(&sections);
        let rows = decoder.bytes(&bytes).unwrap();
        prop_assert_eq!(stored(&rows), expected(&sections));
        prop_assert!(rows.rejected.is_empty());
        prop_assert_eq!(rows.samples(), sections.iter().map(encode::points).sum::<usize>());

        // Cached label sets yield the same rows, and generated types the same as bytes.
        let again = decoder.request(&encode::request(&sections)).unwrap();
        prop_assert_eq!(stored(&again), stored(&rows));
        prop_assert!(again.metadata.is_empty());
        for (a, b) in rows.groups.iter().flat_map(|g| g.series.iter()).zip(again.groups.iter().flat_map(|g| g.series.iter())) {
            prop_assert!(a == b && Arc::ptr_eq(a.parts().1, b.parts().1));
        }
    }
}

/// Sections as agents send them, occasionally with another list, which may reuse the address of a dropped one.
fn changing() -> impl Strategy<Value = Vec<Vec<Section>>> {
    let request = (sections(), 0usize..3).prop_map(|(mut sections, cut)| {
        for (n, section) in sections.iter_mut().enumerate().filter(|(n, _)| cut > 0 && n % 3 < cut) {
            section.columns = section.columns[..n % 5].into();
            section.values.truncate(n % 5);
        }
        sections
    });
    prop::collection::vec(request, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encoder_caches_change_no_byte(requests in changing()) {
        let mut encoder = encode::Encoder::default();
        let mut bytes = vec![7; 3];
        let lists = [all_columns(), columns()];
        for mut sections in requests {
            for (n, section) in sections.iter_mut().enumerate().filter(|(_, s)| s.columns.len() > 3) {
                let list = &lists[n % 2];
                section.values.truncate(list.len());
                section.columns = list.clone();
            }
            encoder.encode(&sections, &mut bytes);
            prop_assert_eq!(&bytes, &encode::request_bytes(&sections));
        }
    }
}

/// Two ticks of a port; one column is absent in the second.
fn batch() -> Vec<Section> {
    let (list, r) = (columns(), resource("node-1", Some("mlx5_0"), Some(1)));
    let tick = |n: u64, values| Section {
        resource: r.clone(),
        columns: list.clone(),
        begin_ns: 1_700_000_000_000_000_000 + n * 1_000_000_000,
        end_ns: 1_700_000_000_000_200_000 + n * 1_000_000_000,
        starts: Arc::from([1_600_000_000_000_000_000u64; 4]),
        values,
        urgent: false,
    };
    let one = vec![Value::Int(4096), Value::Float(0.25), Value::Int(u64::MAX), Value::Int(1)];
    let two = vec![Value::Int(8192), Value::Absent, Value::Stale, Value::Int(1)];
    vec![tick(0, one), tick(1, two)]
}

#[test]
fn several_ticks_are_one_group_with_gaps() {
    let rows = Decoder::default().bytes(&encode::request_bytes(&batch())).unwrap();
    let [g, info] = &rows.groups[..] else { panic!("{} groups", rows.groups.len()) };
    assert_eq!((&g.times, &info.times), (&vec![1_700_000_000_000, 1_700_000_001_000], &g.times));
    let names: Vec<&str> = g.series.iter().chain(info.series.iter()).map(|s| s.metric()).collect();
    let order = ["test_port_io_bytes_total", "test_port_io_bytes_total", "test_pause_share_ratio", "test_port_info"];
    assert_eq!(names, order, "info columns have a group of their own");
    let bits: Vec<u64> = g.values.iter().chain(&info.values).map(|v| v.to_bits()).collect();
    let f = f64::to_bits;
    assert_eq!(bits, [f(4096.0), f(8192.0), f(u64::MAX as f64), STALE_NAN, f(0.25), ABSENT_NAN, f(1.0), f(1.0)]);
    assert_eq!(rows.metadata[0].help, "Bytes of the port.");
    assert_eq!((rows.metadata[0].kind, &*rows.metadata[0].unit), ("counter", "By"));
}

#[test]
fn column_lists_of_one_resource_stay_separate() {
    let (mut encoder, mut decoder, mut bytes) = (encode::Encoder::default(), Decoder::default(), Vec::new());
    let lists = [&all_columns()[..2], &all_columns()[2..4]].map(Arc::<[Column]>::from);
    let mut groups = |later_ns: u64| {
        let mut sections = batch();
        sections.truncate(2);
        for (section, (list, after_ns)) in sections.iter_mut().zip(lists.iter().zip([0, later_ns])) {
            section.resource = resource("node-1", Some("mlx5_0"), Some(1));
            section.columns = list.clone();
            section.end_ns = 1_700_000_000_000_000_000 + after_ns;
            section.values = vec![Value::Int(1), Value::Int(2)];
        }
        encoder.encode(&sections, &mut bytes);
        decoder.bytes(&bytes).unwrap().groups
    };
    for later_ns in [0, 5_000_000, 0, 0, 7_000_000] {
        let series: Vec<usize> = groups(later_ns).iter().map(|group| group.series.len()).collect();
        assert_eq!(series, [2, 1, 1], "{later_ns} ns later; the last is an info column");
    }
}

/// Agents in the field and a newer collector must agree on the bytes.
#[test]
fn bytes_of_a_batch_are_pinned() {
    let bytes = encode::request_bytes(&batch());
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let text: String = hex.chunks(32).map(|l| l.join(" ") + "\n").collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/batch.hex");
    fabriclens_testing::golden(path, &text);
}

#[test]
fn idle_senders_are_forgotten_and_texts_shared() {
    let bytes = |node: &str| {
        let mut sections = batch();
        sections.iter_mut().for_each(|section| section.resource = resource(node, Some("mlx5_0"), Some(1)));
        encode::request_bytes(&sections)
    };
    let mut decoder = Decoder::default();
    let first = |decoder: &mut Decoder, node: &str| {
        let list = |decoder: &mut Decoder| decoder.bytes(&bytes(node)).unwrap().groups[0].series.clone();
        (0..3).for_each(|_| drop(list(decoder)));
        list(decoder)[0].clone()
    };
    let [gone, stays] = ["gone", "stays"].map(|node| first(&mut decoder, node));
    let text = |labels: &Labels, name: &str| labels.pairs().find(|(n, _)| ***n == *name).unwrap().1.clone();
    let same = |a: &Labels, b: &Labels| Arc::ptr_eq(a.parts().1, b.parts().1);
    assert!(Arc::ptr_eq(&text(&gone, "device"), &text(&stays, "device")));
    let host = Arc::downgrade(&text(&gone, "host"));
    drop(gone);
    decoder.forget_idle();
    assert!(host.strong_count() > 0, "used since the start");
    assert!(same(&first(&mut decoder, "stays"), &stays));
    decoder.forget_idle();
    assert_eq!(host.strong_count(), 0);
    assert!(same(&first(&mut decoder, "stays"), &stays), "an active sender stays known");
    assert_eq!(first(&mut decoder, "gone").len(), stays.len());
}

/// Comparable form of groups (NaN included), and the rejections.
type Comparable = (Vec<(Vec<Labels>, Vec<i64>, Vec<u64>)>, Vec<Rejected>);

/// Rows of a decoder that knows the sender and of a fresh one; only their metadata may differ.
fn both(known: &mut Decoder, bytes: &[u8]) -> [Result<Comparable, DecodeError>; 2] {
    let bits = |g: RowGroup| (g.series.to_vec(), g.times, g.values.iter().map(|v| v.to_bits()).collect());
    let of = |rows: Rows| (rows.groups.into_iter().map(bits).collect(), rows.rejected);
    [known.bytes(bytes).map(of), Decoder::default().bytes(bytes).map(of)]
}

#[test]
fn decoder_caches_change_no_row() {
    let list: Arc<[Column]> = columns().iter().take(3).cloned().collect();
    let request = |n: u64| {
        let mut sections = batch();
        for (port, section) in sections.iter_mut().enumerate() {
            section.resource = resource("node-1", Some("mlx5_0"), Some(port as u32));
            section.columns = list.clone();
            section.begin_ns += n * 7_000_000;
            section.end_ns += n * 7_000_000;
            section.values = vec![Value::Int(n * 1000 + port as u64), Value::Float(n as f64 / 8.0), Value::Int(n)];
        }
        encode::request_bytes(&sections)
    };
    let mut known = Decoder::default();
    for n in 0..5 {
        let [got, want] = both(&mut known, &request(n));
        assert_eq!(got, want, "request {n}");
        assert_eq!(got.unwrap().0.len(), 2);
    }
    let bytes = request(9);
    for at in 0..bytes.len() {
        if at % 50 == 0 {
            known.forget_idle();
        }
        for bit in [0, 3, 7] {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            let [got, want] = both(&mut known, &other);
            assert_eq!(got, want, "bit {bit} of byte {at} is flipped");
        }
        let [got, want] = both(&mut known, &bytes[..at]);
        assert_eq!(got, want, "cut at {at}");
    }
    // A word of zeros: a value, or a time, which no point may have.
    for at in 0..bytes.len() - 8 {
        let mut other = bytes.clone();
        other[at..at + 8].fill(0);
        let [got, want] = both(&mut known, &other);
        assert_eq!(got, want, "zeros at {at}");
    }
    let [got, want] = both(&mut known, &bytes);
    assert_eq!(got, want, "after all damage");
    // Series that end, repeatedly.
    for n in 0..5 {
        let mut sections = batch();
        sections.iter_mut().for_each(|s| s.values = vec![Value::Int(n), Value::Stale, Value::Stale, Value::Int(1)]);
        let [got, want] = both(&mut known, &encode::request_bytes(&sections));
        assert_eq!(got, want, "ended {n}");
    }
}
