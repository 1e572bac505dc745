//! Senders other than the agent: every kind of metric, odd names, limits, and malformed requests.

use fabriclens_rows::{LayoutId, RowGroup, STALE_NAN};
use fabriclens_wire::decode::{CacheBudget, DecodeError, Decoder, Limits, Rows};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, metric::Data, number_data_point,
    summary_data_point::ValueAtQuantile,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;
use prost::Message as _;

const T: u64 = 1_700_000_000_000_000_000;

fn kv(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

fn s(text: &str) -> Value {
    Value::StringValue(text.into())
}

fn number(value: f64, attributes: Vec<KeyValue>) -> NumberDataPoint {
    let value = Some(number_data_point::Value::AsDouble(value));
    NumberDataPoint { attributes, time_unix_nano: T, value, ..Default::default() }
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric { name: name.into(), unit: unit.into(), data: Some(data), ..Default::default() }
}

fn gauge(name: &str, points: Vec<NumberDataPoint>) -> Metric {
    metric(name, "", Data::Gauge(Gauge { data_points: points }))
}

fn sum(name: &str, temporality: i32, is_monotonic: bool) -> Metric {
    let data_points = vec![number(7.0, vec![])];
    metric(name, "By", Data::Sum(Sum { data_points, aggregation_temporality: temporality, is_monotonic }))
}

fn request(attributes: Vec<KeyValue>, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let resource = Some(Resource { attributes, ..Default::default() });
    let scope_metrics = vec![ScopeMetrics { metrics, ..Default::default() }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..Default::default() }],
    }
}

/// `name{labels} value`, sorted.
fn lines(rows: &Rows) -> Vec<String> {
    let mut out = Vec::new();
    for g in &rows.groups {
        for (series, values) in g.series.iter().zip(g.values.chunks(g.times.len())) {
            let name = series.metric();
            let labels: Vec<String> =
                series.iter().filter(|(k, _)| *k != "__name__").map(|(k, v)| format!("{k}={v:?}")).collect();
            for v in values {
                let v = if v.to_bits() == STALE_NAN { "stale".into() } else { v.to_string() };
                out.push(format!("{name}{{{}}} {v}", labels.join(",")));
            }
        }
    }
    out.sort();
    out
}

fn decode(r: &ExportMetricsServiceRequest) -> Rows {
    Decoder::default().request(r).expect("well formed")
}

#[test]
fn resource_attributes_become_job_instance_and_target_info() {
    let resource = vec![
        kv("service.namespace", s("shop")),
        kv("service.name", s("cart")),
        kv("service.instance.id", s("i-1")),
        kv("k8s.pod.name", s("cart-0")),
    ];
    let rows = decode(&request(resource, vec![gauge("queue.depth", vec![number(3.0, vec![])])]));
    let want = [
        r#"queue_depth{instance="i-1",job="shop/cart"} 3"#,
        r#"target_info{instance="i-1",job="shop/cart",k8s_pod_name="cart-0"} 1"#,
    ];
    assert_eq!(lines(&rows), want);

    let nothing_to_join = decode(&request(vec![kv("x", s("y"))], vec![gauge("g", vec![number(1.0, vec![])])]));
    assert_eq!(lines(&nothing_to_join), ["g{} 1"]);
}

#[test]
fn known_sender_keeps_rows_and_layout() {
    let ticks = |ticks: &[u64]| {
        let at = |t: &u64| NumberDataPoint { time_unix_nano: T + t * 1_000_000_000, ..number(*t as f64, vec![]) };
        let points: Vec<_> = ticks.iter().map(at).collect();
        let resource = vec![kv("service.name", s("cart")), kv("k8s.pod.name", s("cart-0"))];
        request(resource, vec![gauge("a", points.clone()), gauge("b", points)]).encode_to_vec()
    };
    let bits = |rows: &Rows| -> Vec<_> {
        let values = |g: &RowGroup| g.values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        rows.groups.iter().map(|g| (g.series.to_vec(), g.times.clone(), values(g))).collect()
    };
    let mut known = Decoder::default();
    let mut ids: Vec<LayoutId> = Vec::new();
    for n in 0..5 {
        for bytes in [ticks(&[n]), ticks(&[n, n + 1]), ticks(&[n + 2, n])] {
            let rows = known.bytes(&bytes).unwrap();
            let fresh = Decoder::default().bytes(&bytes).unwrap();
            assert_eq!(bits(&rows), bits(&fresh), "tick {n}");
        }
        ids.extend(known.bytes(&ticks(&[n])).unwrap().groups.into_iter().map(|g| g.series.id()));
    }
    assert!(ids.iter().all(|id| *id == ids[4]), "{ids:?}");
}

#[test]
fn attribute_names_and_values_of_every_type() {
    let list = ArrayValue { values: vec![AnyValue { value: Some(s("a\"b")) }, AnyValue { value: None }] };
    let map = KeyValueList { values: vec![kv("k", Value::IntValue(-1)), kv("l", Value::BytesValue(vec![1, 255]))] };
    let point = number(
        1.0,
        vec![
            kv("b.ool", Value::BoolValue(true)),
            kv("dup.key", s("one")),
            kv("dup-key", s("two")),
            kv("list", Value::ArrayValue(list)),
            kv("map", Value::KvlistValue(map)),
            kv("__name__", s("evil")),
            kv("empty", s("")),
            kv("1st", Value::DoubleValue(2.5)),
        ],
    );
    let want =
        r#"g{b_ool="true",dup_key="two;one",key_1st="2.5",list="[\"a\\\"b\",]",map="{\"k\":-1,\"l\":\"01ff\"}"} 1"#;
    assert_eq!(lines(&decode(&request(vec![], vec![gauge("g", vec![point])]))), [want]);
}

#[test]
fn sums_by_temporality_and_monotony() {
    let rows = decode(&request(vec![], vec![sum("up", 2, true), sum("both", 2, false), sum("delta", 1, true)]));
    assert_eq!(lines(&rows), ["both_bytes{} 7", "up_bytes_total{} 7"]);
    assert_eq!(rows.rejected.len(), 1);
    assert_eq!((&*rows.rejected[0].metric, rows.rejected[0].points), ("delta", 1));
    assert!(rows.rejected[0].reason.contains("cumulative"), "{:?}", rows.rejected);
}

#[test]
fn histograms_and_summaries() {
    let histogram = |explicit_bounds: Vec<f64>, bucket_counts: Vec<u64>, flags| {
        let count = bucket_counts.iter().sum();
        let sum = Some(12.5);
        let point = HistogramDataPoint {
            time_unix_nano: T,
            count,
            sum,
            bucket_counts,
            explicit_bounds,
            flags,
            ..Default::default()
        };
        let data_points = vec![point];
        metric("lat", "s", Data::Histogram(Histogram { data_points, aggregation_temporality: 2 }))
    };
    let rows = decode(&request(vec![], vec![histogram(vec![0.005, 10.0], vec![1, 2, 4], 0)]));
    let want = [
        r#"lat_seconds_bucket{le="+Inf"} 7"#,
        r#"lat_seconds_bucket{le="0.005"} 1"#,
        r#"lat_seconds_bucket{le="10"} 3"#,
        "lat_seconds_count{} 7",
        "lat_seconds_sum{} 12.5",
    ];
    assert_eq!(lines(&rows), want);
    assert_eq!((&*rows.metadata[0].name, rows.metadata[0].kind), ("lat_seconds", "histogram"));

    let ended = decode(&request(vec![], vec![histogram(vec![], vec![], 1)]));
    assert!(lines(&ended).iter().all(|l| l.ends_with(" stale")), "{:?}", lines(&ended));
    for bad in [histogram(vec![1.0], vec![1], 0), histogram(vec![2.0, 1.0], vec![1, 1, 1], 0)] {
        let rows = decode(&request(vec![], vec![bad]));
        assert!(rows.groups.is_empty() && rows.rejected[0].points == 1);
    }

    let quantile_values = vec![ValueAtQuantile { quantile: 0.99, value: 1.5 }];
    let point = SummaryDataPoint { time_unix_nano: T, count: 2, sum: 3.0, quantile_values, ..Default::default() };
    let summary = metric("rpc", "ms", Data::Summary(Summary { data_points: vec![point] }));
    let want = ["rpc_milliseconds_count{} 2", "rpc_milliseconds_sum{} 3", r#"rpc_milliseconds{quantile="0.99"} 1.5"#];
    assert_eq!(lines(&decode(&request(vec![], vec![summary]))), want);

    let data_points = vec![ExponentialHistogramDataPoint { time_unix_nano: T, ..Default::default() }; 3];
    let exponential = ExponentialHistogram { data_points, aggregation_temporality: 1 };
    let rows = decode(&request(vec![], vec![metric("e", "", Data::ExponentialHistogram(exponential))]));
    assert_eq!(rows.rejected[0].points, 3, "not cumulative");
}

#[test]
fn exponential_histograms_are_decoded_whole() {
    let buckets = |offset, bucket_counts| Some(Buckets { offset, bucket_counts });
    let point = |count: usize| ExponentialHistogramDataPoint {
        attributes: vec![kv("a", s("b"))],
        time_unix_nano: T,
        count: 300,
        sum: Some(12.5),
        scale: -2,
        zero_count: 7,
        zero_threshold: 0.5,
        positive: buckets(-3, vec![300; count]),
        negative: buckets(4, vec![1]),
        ..Default::default()
    };
    let of = |data_points| Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality: 2 });
    let request = request(vec![], vec![metric("lat", "s", of(vec![point(2), point(1024), point(0)]))]);
    let mut decoder = Decoder::new(Limits::default());
    for _ in 0..2 {
        // The second time it must not be taken for a request that is known and has no floats.
        let rows = decoder.request(&request).unwrap();
        assert_eq!(rows.histograms.len(), 2);
        let got = &rows.histograms[0];
        assert_eq!(got.labels.to_string(), r#"lat_seconds{a="b"}"#);
        assert_eq!((got.time as u64, got.scale, got.count, got.sum), (T / 1_000_000, -2, 300, Some(12.5)));
        assert_eq!((got.zero_count, got.zero_threshold), (7, 0.5));
        assert_eq!((&got.positive, &got.negative), (&(-3, vec![300, 300]), &(4, vec![1])));
        assert!(rows.rejected[0].reason.contains("more than 1024 buckets"), "{:?}", rows.rejected);
        assert!(rows.groups.iter().all(|g| g.times.is_empty() || g.series.is_empty()));
    }
}

#[test]
fn odd_points_are_rejected_individually() {
    let untimed = NumberDataPoint { time_unix_nano: 0, ..number(1.0, vec![]) };
    let empty = NumberDataPoint { value: None, ..number(1.0, vec![kv("a", s("b"))]) };
    let nan = number(f64::NAN, vec![kv("a", s("nan"))]);
    let twice = vec![number(1.0, vec![]), number(2.0, vec![])];
    let rows = decode(&request(vec![], vec![gauge("g", vec![untimed, empty, nan]), gauge("twice", twice)]));
    assert_eq!(lines(&rows), [r#"g{a="nan"} NaN"#, "twice{} 2"]);
    assert_eq!(rows.rejected.iter().map(|r| r.points).sum::<usize>(), 2);
}

#[test]
fn limits_reject_only_what_exceeds_them() {
    let limits = Limits { points: 3, labels: 3, label_bytes: 10, cached_series: 2, ..Limits::default() };
    let wide = number(1.0, vec![kv("a", s("1")), kv("b", s("2")), kv("c", s("3"))]);
    let long = number(1.0, vec![kv("a", s("12345678901"))]);
    let fine = || number(1.0, vec![kv("a", s("1"))]);
    let mut decoder = Decoder::new(limits);
    let r = request(vec![], vec![gauge("g", vec![wide, long, fine(), fine(), fine()])]);
    for _ in 0..3 {
        let rows = decoder.request(&r).unwrap();
        assert_eq!(lines(&rows), [r#"g{a="1"} 1"#]);
        let reasons: Vec<&str> = rows.rejected.iter().map(|r| &*r.reason).collect();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(reasons[0].contains("3 labels") && reasons[1].contains("10 bytes") && reasons[2].contains("3 samples"));
    }
}

#[test]
fn nesting_and_text_are_checked() {
    let mut deep = AnyValue { value: Some(Value::IntValue(1)) };
    for _ in 0..50 {
        deep = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![deep] })) };
    }
    let attribute = KeyValue { key: "a".into(), value: Some(deep), ..Default::default() };
    let r = request(vec![], vec![gauge("g", vec![number(1.0, vec![attribute])])]);
    assert!(matches!(Decoder::default().request(&r), Err(DecodeError::Malformed(why)) if why.contains("nested")));

    let mut bytes = request(vec![], vec![gauge("name", vec![number(1.0, vec![])])]).encode_to_vec();
    let at = bytes.windows(4).position(|w| w == b"name").unwrap();
    bytes[at] = 0xff;
    assert!(matches!(Decoder::default().bytes(&bytes), Err(DecodeError::Malformed(why)) if why.contains("UTF-8")));
}

fn sample() -> Vec<u8> {
    let histogram = HistogramDataPoint {
        time_unix_nano: T,
        count: 2,
        bucket_counts: vec![1, 1],
        explicit_bounds: vec![1.0],
        ..Default::default()
    };
    let histogram = Histogram { data_points: vec![histogram], aggregation_temporality: 2 };
    let point = number(1.0, vec![kv("a", s("1"))]);
    let metrics = vec![gauge("g", vec![point]), metric("h", "s", Data::Histogram(histogram)), sum("s", 2, true)];
    request(vec![kv("service.name", s("x")), kv("host", s("h"))], metrics).encode_to_vec()
}

proptest! {
    #[test]
    fn any_bytes_are_rows_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        _ = Decoder::default().bytes(&bytes);
    }

    /// Damaging a real request reaches the inner messages.
    #[test]
    fn damaged_requests_are_rows_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>()
    ) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(rows) = Decoder::default().bytes(&bytes) {
            for g in rows.groups {
                prop_assert_eq!(g.values.len(), g.series.len() * g.times.len());
            }
        }
    }
}

#[test]
fn empty_resources_are_bounded() {
    let of = |resources: usize| Decoder::default().bytes(&[0x0a, 0].repeat(resources));
    assert_eq!(of(50_000).map(|rows| rows.samples()), Ok(0));
    assert!(matches!(of(50_001), Err(DecodeError::Malformed(why)) if why.contains("more than 50,000 resources")));
}

#[test]
fn malformed_requests_match_the_generated_types() {
    let bytes = sample();
    for cut in 0..bytes.len() {
        let ours = Decoder::default().bytes(&bytes[..cut]).is_ok();
        assert_eq!(ours, ExportMetricsServiceRequest::decode(&bytes[..cut]).is_ok(), "cut at {cut}");
    }
}

#[test]
fn accepted_requests_stay_accepted() {
    let part = |field: u8, body: &[u8]| [&[field << 3 | 2, body.len() as u8], body].concat();
    let good = Gauge { data_points: vec![number(1.0, vec![])] }.encode_to_vec();
    // If a metric has several data fields the last one counts, and the first is not inspected.
    let metric = [part(1, b"a"), part(5, &[0xff]), part(5, &good)].concat();
    let bytes = part(1, &part(2, &part(2, &metric)));
    let mut decoder = Decoder::default();
    for _ in 0..4 {
        assert_eq!(decoder.bytes(&bytes).map(|rows| rows.samples()), Ok(1));
    }
}

#[test]
fn no_recorded_value_flag_overrides_a_value() {
    let mut point = number(7.0, vec![kv("port", s("1"))]);
    point.flags = 1;
    let request = request(vec![], vec![gauge("g", vec![point, number(8.0, vec![kv("port", s("2"))])])]);
    let mut decoder = Decoder::default();
    let bits = |rows: Rows| -> Vec<u64> { rows.groups[0].values.iter().map(|v| v.to_bits()).collect() };
    for _ in 0..4 {
        assert_eq!(bits(decoder.request(&request).unwrap())[..2], [STALE_NAN, 8f64.to_bits()]);
    }
}

#[test]
fn series_and_times_are_not_multiplied() {
    let at = |t: u64| NumberDataPoint { time_unix_nano: T + t * 1_000_000_000, ..number(1.0, vec![]) };
    let wide = (0..500).map(|i| NumberDataPoint { attributes: vec![kv("i", s(&i.to_string()))], ..at(0) }).collect();
    let metrics = vec![gauge("wide", wide), gauge("long", (0..2000).map(at).collect())];
    let bytes = request(vec![], metrics).encode_to_vec();
    let mut decoder = Decoder::default();
    for _ in 0..4 {
        let rows = decoder.bytes(&bytes).unwrap();
        let values: usize = rows.groups.iter().map(|g| g.values.len()).sum();
        assert_eq!((rows.samples(), values), (2500, 2500));
    }
    let missed = vec![gauge("a", (0..5).map(at).collect()), gauge("b", (0..4).map(at).collect())];
    let rows = decode(&request(vec![], missed));
    assert_eq!((rows.groups.len(), rows.groups[0].values.len(), rows.samples()), (1, 10, 9), "a missed tick");
}

#[test]
fn attributes_are_counted_before_joining() {
    let repeated = |n| request(vec![], vec![gauge("g", vec![number(1.0, vec![kv("a", s("1")); n])])]);
    assert_eq!(lines(&decode(&repeated(3))), [r#"g{a="1;1;1"} 1"#]);
    let rows = decode(&repeated(65));
    assert!(rows.groups.is_empty() && rows.rejected[0].reason.contains("64 labels"), "{rows:?}");
}

#[test]
fn oversized_resources_and_names_are_rejected() {
    let points = || vec![number(1.0, vec![]), number(2.0, vec![kv("a", s("1"))])];
    let mut decoder = Decoder::default();
    let mut decoded = |r: &ExportMetricsServiceRequest| {
        let rows = decoder.request(r).unwrap();
        let of = |r: &fabriclens_wire::decode::Rejected| (r.points, r.reason.clone());
        (rows.samples(), rows.rejected.first().map(of), rows.metadata)
    };
    for _ in 0..3 {
        let large = request(vec![kv("x", s(&"x".repeat(70_000)))], vec![gauge("a", points()), gauge("b", points())]);
        let (samples, refused, metadata) = decoded(&large);
        let (refused, why) = refused.unwrap();
        assert!((samples, refused, metadata.len()) == (0, 2, 0) && why.contains("resource is larger"), "{why}");
        let (samples, refused, metadata) = decoded(&request(vec![], vec![gauge(&"n".repeat(5000), points())]));
        let (refused, why) = refused.unwrap();
        assert!((samples, refused, metadata.len()) == (0, 2, 0) && why.contains("name or unit"), "{why}");
    }
    let help = Metric { description: "ü".repeat(5000), ..gauge("helped", points()) };
    let (samples, refused, metadata) = decoded(&request(vec![], vec![help]));
    assert_eq!((samples, refused, metadata[0].help.len()), (2, None, 4096));
}

#[test]
fn attributes_are_not_multiplied_by_buckets() {
    let point = HistogramDataPoint {
        time_unix_nano: T,
        attributes: vec![kv("__reserved", s(&"x".repeat(2000)))],
        bucket_counts: vec![1; 101],
        explicit_bounds: (0..100).map(f64::from).collect(),
        ..Default::default()
    };
    let histogram = Histogram { data_points: vec![point], aggregation_temporality: 2 };
    let r = request(vec![], vec![metric("h", "", Data::Histogram(histogram)), gauge("g", vec![number(1.0, vec![])])]);
    assert_eq!(decode(&r).samples(), 103);
    let mut small = Decoder::new(Limits { cached_bytes: 100_000, ..Limits::default() });
    let rows = small.request(&r).unwrap();
    assert!(rows.rejected[0].reason.contains("send smaller requests"), "{rows:?}");
    assert!(rows.samples() < 50 && lines(&rows).contains(&"g{} 1".to_owned()), "{}", rows.samples());
}

/// A histogram whose points have this many bounds each, all different.
fn histogram_of(points: usize, bounds: usize) -> ExportMetricsServiceRequest {
    let point = |n: usize| HistogramDataPoint {
        time_unix_nano: T,
        bucket_counts: vec![1; bounds + 1],
        explicit_bounds: (0..bounds).map(|bound| (n * bounds + bound) as f64).collect(),
        ..Default::default()
    };
    let histogram = Histogram { data_points: (0..points).map(point).collect(), aggregation_temporality: 2 };
    request(vec![], vec![metric("h", "", Data::Histogram(histogram))])
}

#[test]
fn histograms_are_bounded() {
    assert_eq!(decode(&histogram_of(1, 1024)).samples(), 1026, "with +Inf and count, without sum");
    let rows = decode(&histogram_of(1, 1025));
    assert!(rows.samples() == 0 && rows.rejected[0].reason.contains("more than 1024 buckets"), "{rows:?}");
    // Many points with other bounds each are bounded by what a request may add, and refused ones are forgotten.
    let budget = CacheBudget::new(1 << 20, 2);
    let mut decoder = Decoder::sharing(Limits::default(), budget.clone());
    let rows = decoder.request(&histogram_of(100, 1000)).unwrap();
    assert!(rows.samples() < 3000 && rows.rejected[0].reason.contains("send smaller requests"), "{}", rows.samples());
    assert!((100_000..=(1 << 19)).contains(&budget.used()), "{}", budget.used());
    let new = decoder.take_new();
    decoder.forget(&new);
    assert!(budget.used() < 1000, "{}", budget.used());
    decoder.request(&histogram_of(1, 100)).unwrap();
    decoder.forget_new();
    assert!(budget.used() < 1000, "{}", budget.used());
    drop(decoder);
    assert_eq!(budget.used(), 0);
}

#[test]
fn metadata_of_rejected_requests_are_repeated() {
    let r = request(vec![], vec![gauge("g", vec![number(1.0, vec![])])]);
    let mut decoder = Decoder::default();
    let mut decoded = |forget: bool| {
        let rows = decoder.request(&r).unwrap();
        if forget {
            decoder.forget_new();
        }
        (rows.samples(), rows.metadata.len())
    };
    assert_eq!([decoded(true), decoded(false), decoded(true), decoded(false)], [(1, 1), (1, 1), (1, 0), (1, 0)]);
}
