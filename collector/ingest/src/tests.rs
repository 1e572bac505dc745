//! Isolation of senders from each other, independent of the protocol.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use fabriclens_store::{Options, SeriesLimits, Store};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use serde_json::{Value, json};

use super::*;
use fabriclens_config::Config;

pub(crate) struct Bench {
    ingest: Arc<Ingest>,
    _dir: tempfile::TempDir,
}

pub(crate) fn bench() -> Bench {
    bench_over(Options::default())
}

/// With these switches configured.
pub(crate) fn bench_with(switches: config::Switches) -> Bench {
    bench_of(Options::default(), switches)
}

fn bench_over(options: Options) -> Bench {
    bench_of(options, config::Switches::default())
}

fn bench_of(options: Options, switches: config::Switches) -> Bench {
    let (dir, telemetry) = (tempfile::tempdir().unwrap(), Telemetry::new().unwrap());
    let store = Arc::new(Store::open(&dir.path().join("data"), options).unwrap());
    let config = Config::default();
    let sink = Arc::new(Sink::start(store.clone(), &config, &telemetry).unwrap());
    let pressure = Arc::new(Pressure::fixed(0, 1 << 30));
    let probing = probing(&telemetry);
    let ingest = Ingest::new(store, sink, telemetry, config.ingest, switches, pressure, probing);
    Bench { ingest: Arc::new(ingest), _dir: dir }
}

fn probing(telemetry: &Telemetry) -> Arc<Probing> {
    Arc::new(Probing::new(config::Probes::default(), Default::default(), telemetry.probes.clone(), usize::MAX))
}

pub(crate) fn unbound() -> Caller {
    Caller::anonymous([10, 0, 0, 1].into())
}

pub(crate) fn bound(host: &str) -> Caller {
    Caller { hosts: Hosts::Only([host.to_owned()].into()), ..unbound() }
}

static NOW: LazyLock<i64> = LazyLock::new(now_ms);

/// A resource with a sum of one point, always at the same time.
fn resource(host: &str, metric: &str, temporality: i32, value: u64) -> Value {
    let text = |key, text| json!({"key": key, "value": {"stringValue": text}});
    let point = json!({"timeUnixNano": (*NOW * 1_000_000).to_string(), "asDouble": value as f64});
    let sum = json!({"dataPoints": [point], "aggregationTemporality": temporality, "isMonotonic": true});
    json!({
        "resource": {"attributes": [text("host", host)]},
        "scopeMetrics": [{"metrics": [{"name": metric, "description": "what it is", "sum": sum}]}],
    })
}

pub(crate) fn request(resources: &[Value]) -> Bytes {
    let request = json!({ "resourceMetrics": resources });
    serde_json::from_value::<ExportMetricsServiceRequest>(request).unwrap().encode_to_vec().into()
}

impl Bench {
    pub(crate) fn ingest(&self) -> &Arc<Ingest> {
        &self.ingest
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.ingest.store
    }

    async fn send(&self, caller: &Caller, resources: &[Value]) -> Report {
        self.ingest.otlp(Protocol::OtlpGrpc, caller.clone(), Compression::None, request(resources)).await.unwrap()
    }

    fn metadata(&self) -> Vec<String> {
        self.ingest.store.metadata().keys().cloned().collect()
    }

    /// Number of hosts with a detected conflict.
    fn conflicts(&self) -> usize {
        self.ingest.telemetry.samples().iter().filter(|s| s.0.contains("host_conflicts")).count()
    }
}

const CUMULATIVE: i32 = 2;
const DELTA: i32 = 1;

/// A remote-write request with a series of this host.
fn write_request(host: &str, metrics: usize) -> Bytes {
    use fabriclens_core::prompb::{Label, Sample, TimeSeries, WriteRequest};
    let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
    let series = |n: usize| TimeSeries {
        labels: vec![label("__name__", &format!("m{n}")), label("host", host)],
        samples: vec![Sample { value: 1.0, timestamp: *NOW }],
        histograms: vec![],
    };
    WriteRequest { timeseries: (0..metrics).map(series).collect(), metadata: vec![] }.encode_to_vec().into()
}

#[tokio::test]
async fn what_is_refused_is_forgotten_at_once() {
    let series = SeriesLimits { all: 10, ..SeriesLimits::default() };
    let bench = bench_over(Options { series, ..Options::default() });
    let write = async |caller: &Caller, body: Bytes| {
        bench.ingest.remote_write(Protocol::RemoteWrite, caller.clone(), false, body).await.unwrap()
    };
    // Series of other hosts.
    bench.send(&bound("own"), &[resource("other", "a", CUMULATIVE, 1)]).await;
    write(&bound("own"), write_request("other", 3)).await;
    assert_eq!(bench.ingest.cache_bytes(), 0);
    write(&bound("h"), write_request("h", 10)).await;
    let kept = bench.ingest.cache_bytes();
    assert!(kept > 0);
    let lists = bench.ingest.known_lists();
    // Series beyond the limit of the store.
    let refused = write(&unbound(), write_request("late", 5)).await;
    assert_eq!(refused.reasons().next(), Some(("series_limit", 5)));
    let refused = bench.send(&unbound(), &[resource("late", "a", CUMULATIVE, 1)]).await;
    assert_eq!(refused.reasons().next(), Some(("series_limit", 1)));
    assert_eq!((lists, bench.ingest.known_lists()), (1, 1), "of the series that are stored");
    assert!(bench.ingest.cache_bytes() <= kept + 2000, "{} {kept}", bench.ingest.cache_bytes());
}

#[tokio::test]
async fn a_host_with_too_many_series_is_told_and_others_continue() {
    let series = SeriesLimits { memory: 64 << 10, ..SeriesLimits::default() };
    let bench = bench_over(Options { series, ..Options::default() });
    let write = async |host: &str, metrics: usize| {
        let body = write_request(host, metrics);
        bench.ingest.remote_write(Protocol::RemoteWrite, bound(host), false, body).await.unwrap()
    };
    let refused = write("loud", 100).await;
    assert!(refused.reasons().any(|(reason, points)| reason == "series_limit" && points > 80), "{refused:?}");
    let told = refused.message();
    assert!(["host \"loud\"", "4096 bytes", "limits.memory"].iter().all(|part| told.contains(part)), "{told}");
    assert_eq!(write("quiet", 5).await.reasons().count(), 0);
}

/// A resource without the attribute `host`, as OpenTelemetry's own agents send it.
fn foreign_resource(instance: &str, metric: &str) -> Value {
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let attributes = [attribute("host.name", instance), attribute("service.instance.id", instance)];
    let point = json!({"timeUnixNano": (*NOW as u64 * 1_000_000).to_string(), "asInt": 1});
    let metrics = json!([{"name": metric, "gauge": {"dataPoints": [point]}}]);
    json!({"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]})
}

#[tokio::test]
async fn senders_without_the_label_host_leave_room_to_others() {
    let series = SeriesLimits { memory: 64 << 10, ..SeriesLimits::default() };
    let bench = bench_over(Options { series, ..Options::default() });
    let send = async |instance: &str| {
        let all: Vec<Value> = (0..100).map(|n| foreign_resource(instance, &format!("m{n}"))).collect();
        bench.send(&unbound(), &all).await.message()
    };
    let told = send("loud").await;
    assert!(told.contains("instance \"loud\" has reached the limit of memory for series (8192 bytes"), "{told}");
    for instance in ["b", "c", "d"] {
        send(instance).await;
    }
    let told = send("e").await;
    assert!(told.contains("all series without the label host together") && told.contains("32768 bytes"), "{told}");
    let body = write_request("quiet", 5);
    let quiet = bench.ingest.remote_write(Protocol::RemoteWrite, bound("quiet"), false, body).await.unwrap();
    assert_eq!(quiet.reasons().count(), 0);
}

#[tokio::test]
async fn a_token_without_host_leaves_series_to_hosts_and_to_other_senders() {
    let series = SeriesLimits { memory: 256 << 10, keep_for_bound: true, ..SeriesLimits::default() };
    let bench = bench_over(Options { series, ..Options::default() });
    let by =
        |name: &str, address: u8| Caller { name: Some(name.into()), ..Caller::anonymous([10, 0, 0, address].into()) };
    let write = async |caller: &Caller, host: &str| {
        let body = write_request(host, 10);
        bench.ingest.remote_write(Protocol::RemoteWrite, caller.clone(), false, body).await.unwrap()
    };
    for n in 0..200 {
        write(&by("evil", 1), &format!("invented-{n}")).await;
    }
    let told = write(&by("evil", 1), "one-more").await.message();
    assert!(told.contains("\"evil\" at 10.0.0.1, which is bound to no host, has reached its share"), "{told}");
    assert_eq!(write(&by("shared", 2), "agent").await.rejected(), 0, "others have room");
    for n in 3..100 {
        write(&by("evil", n), &format!("invented-by-{n}")).await;
    }
    for n in 0..11 {
        let host = format!("gpu-{n}");
        assert_eq!(write(&bound(&host), &host).await.rejected(), 0, "{host}");
    }
    assert_eq!(write(&by("shared", 2), "agent").await.rejected(), 0, "known series continue");
}

#[tokio::test]
async fn a_refusal_of_one_sender_does_not_bind_another() {
    let series = SeriesLimits { memory: 256 << 10, keep_for_bound: true, ..SeriesLimits::default() };
    let bench = bench_over(Options { series, ..Options::default() });
    let send = async |caller: &Caller, host: &str| {
        let all: Vec<Value> = (0..5).map(|n| resource(host, &format!("d{n}"), CUMULATIVE, 1)).collect();
        bench.send(caller, &all).await.rejected()
    };
    let evil = unbound();
    for n in 0..200 {
        send(&evil, &format!("invented-{n}")).await;
    }
    assert!(send(&evil, "gpu-01").await > 0);
    assert_eq!(send(&bound("gpu-01"), "gpu-01").await, 0);
}

#[tokio::test]
async fn requests_lost_to_a_panic_may_retry() {
    let bench = bench();
    let batcher = &bench.ingest.otlp[shard(unbound().address)];
    let (answer, _answered) = oneshot::channel();
    let caller = unbound();
    let work = batcher.push(otlp::Job {
        protocol: Protocol::OtlpGrpc,
        caller,
        compression: Compression::None,
        body: Bytes::new(),
        answer,
    });
    assert!(work, "no thread is at work");
    let waits = bench.ingest.otlp(Protocol::OtlpGrpc, unbound(), Compression::None, Bytes::new());
    let dies = async {
        tokio::task::yield_now().await;
        batcher.clear();
    };
    let (error, ()) = tokio::join!(waits, dies);
    let error = error.unwrap_err();
    assert!(error.after().is_some() && error.reason() == "unavailable", "{error}");
}

#[tokio::test]
async fn bound_callers_prove_nothing_about_others() {
    let bench = bench();
    let victim = |temporality, value| resource("victim", "m", temporality, value);
    bench.send(&unbound(), &[victim(CUMULATIVE, 1)]).await;
    let before = bench.ingest.admission.count();
    for _ in 0..2 {
        // No points, unusable points, and unusable next to valid points.
        for value in [7, 8, 9] {
            bench.send(&bound("own"), &[json!({"resource": victim(DELTA, 0)["resource"]})]).await;
            bench.send(&bound("own"), &[victim(DELTA, value)]).await;
            let own = resource("own", "m", CUMULATIVE, 1);
            bench.send(&bound("own"), &[own, victim(DELTA, value)]).await;
        }
    }
    assert_eq!(bench.conflicts(), 0);
    assert_eq!(bench.ingest.admission.count(), [before[0] + 1, 0], "counted by its address, not by a claimed host");
    bench.send(&unbound(), &[victim(CUMULATIVE, 2)]).await;
    assert_eq!(bench.conflicts(), 1, "a caller for any host counts as evidence");
}

#[tokio::test]
async fn metadata_need_samples() {
    let bench = bench();
    let refused = bench.send(&unbound(), &[resource("h", "delta", DELTA, 1)]).await;
    let foreign = bench.send(&bound("own"), &[resource("other", "foreign", CUMULATIVE, 1)]).await;
    assert_eq!((refused.rejected(), foreign.rejected(), bench.metadata().len()), (1, 1, 0));
    bench.send(&unbound(), &[resource("other", "foreign", CUMULATIVE, 1)]).await;
    assert_eq!(bench.metadata(), ["foreign_total"], "metadata is stored with accepted samples");
}

#[test]
fn forgetting_idle_senders_does_not_wait() {
    let bench = bench();
    let batcher = &bench.ingest.otlp[0];
    let busy = batcher.hold();
    bench.ingest.forget_idle();
    assert!(batcher.forgets());
    drop(busy);
    batcher.work(&bench.ingest);
    assert!(!batcher.forgets(), "the thread at work forgets idle senders");
}

#[tokio::test]
async fn json_requests_do_not_use_up_permits() {
    let bench = Arc::new(bench());
    let receive = |json| {
        let bench = bench.clone();
        async move {
            let (headers, body) = (HeaderMap::new(), axum::body::Body::from("{}"));
            bench.ingest.receive(Protocol::OtlpHttp, &unbound(), &headers, body, json, |_| None).await
        }
    };
    let first = receive(true).await.unwrap();
    let permits = bench.ingest.limits.in_flight;
    let waits: Vec<_> = (0..2 * permits).map(|_| tokio::spawn(receive(true))).collect();
    let all_wait = async {
        // Each waiting request holds it, too.
        while Arc::strong_count(&bench.ingest.json) < 2 + 2 * permits {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_wait).await.expect("requests wait for the JSON permit");
    assert_eq!((bench.ingest.gate.waiting(), receive(false).await.is_ok()), (0, true));
    drop(first);
    for one in waits {
        drop(one.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn waiting_requests_are_decompressed_once() {
    let (dir, telemetry) = (tempfile::tempdir().unwrap(), Telemetry::new().unwrap());
    let store = Arc::new(Store::open(&dir.path().join("data"), Options::default()).unwrap());
    let config = Config::default();
    let sink = Arc::new(Sink::start(store.clone(), &config, &telemetry).unwrap());
    let limits = config::Ingest { in_flight: 2, ..config.ingest };
    let (pressure, probing) = (Arc::new(Pressure::fixed(0, 1 << 30)), probing(&telemetry));
    let ingest = Ingest::new(store, sink, telemetry, limits, config.switches.clone(), pressure, probing);
    // Decompressed where it arrived, and on another thread.
    let [small, large] = [1, 4000].map(|count| request(&vec![resource("gpu-01", "m", CUMULATIVE, 1); count]));
    assert!(small.len() < SMALL_PLAIN && large.len() > SMALL_PLAIN);
    let pack = |plain: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, plain).unwrap();
        Bytes::from(packed.finish().unwrap())
    };
    let receive = async |packed: &Bytes| {
        let (headers, body) = (HeaderMap::new(), axum::body::Body::from(packed.clone()));
        let compression = |bytes: &Bytes| Some((Compression::Gzip, bytes.clone()));
        ingest.receive(Protocol::OtlpHttp, &unbound(), &headers, body, false, compression).await.unwrap().payload
    };
    for plain in [small, large] {
        let packed = pack(&plain);
        assert!(
            matches!(receive(&packed).await, Payload::Packed(bytes) if bytes == packed),
            "requests are not inspected while permits are plentiful"
        );
        let _permit = ingest.gate().permit(PriorityClass::Live).await.unwrap();
        let inspected = receive(&packed).await;
        assert!(matches!(inspected, Payload::Plain(bytes) if bytes == plain), "a waiting request is inspected");
    }
}

/// A remote-write request with a histogram of this host, and an OTLP resource with the same observations a second later.
fn histograms_of(host: &str) -> (Bytes, Value) {
    use fabriclens_core::prompb::{BucketSpan, Histogram, Label, TimeSeries, WriteRequest};
    let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
    let histogram = Histogram {
        count_int: Some(6),
        sum: 8.5,
        schema: 1,
        zero_count_int: Some(1),
        zero_threshold: 0.001,
        positive_spans: vec![BucketSpan { offset: 0, length: 2 }],
        positive_deltas: vec![2, 1],
        timestamp: *NOW,
        ..Histogram::default()
    };
    let series = TimeSeries {
        labels: vec![label("__name__", "latency_seconds"), label("host", host)],
        samples: vec![],
        histograms: vec![histogram],
    };
    let text = |key, text| json!({"key": key, "value": {"stringValue": text}});
    let point = json!({
        "timeUnixNano": ((*NOW + 1000) * 1_000_000).to_string(),
        "count": "6", "sum": 8.5, "scale": 1, "zeroCount": "1", "zeroThreshold": 0.001,
        "positive": {"offset": -1, "bucketCounts": ["2", "3"]},
    });
    let data = json!({"dataPoints": [point], "aggregationTemporality": CUMULATIVE});
    let resource = json!({
        "resource": {"attributes": [text("host", host)]},
        "scopeMetrics": [{"metrics": [{"name": "latency", "unit": "s", "exponentialHistogram": data}]}],
    });
    let write = WriteRequest { timeseries: vec![series], metadata: vec![] }.encode_to_vec();
    (write.into(), resource)
}

#[tokio::test]
async fn histograms_of_both_protocols_make_up_one_series() {
    use fabriclens_model::{Matcher, Read as _, Unlimited};
    let bench = bench();
    let (write, resource) = histograms_of("gpu-01");
    let other = bound("gpu-02");
    let refused = bench.ingest.remote_write(Protocol::RemoteWrite, other.clone(), false, write.clone()).await.unwrap();
    assert_eq!((refused.accepted, refused.rejected() > 0), (0, true), "of another host");
    assert_eq!(bench.send(&other, std::slice::from_ref(&resource)).await.accepted, 0);
    for caller in [unbound(), bound("gpu-01")] {
        let written = bench.ingest.remote_write(Protocol::RemoteWrite, caller.clone(), false, write.clone());
        assert_eq!(written.await.unwrap().accepted, 1);
        assert_eq!(bench.send(&caller, std::slice::from_ref(&resource)).await.accepted, 1);
    }
    let matcher = [Matcher::equal("__name__", "latency_seconds")];
    assert!(bench.store().select(&matcher, 0, i64::MAX).unwrap().is_empty());
    let found = bench.store().select_histograms(&matcher, 0, i64::MAX, &Unlimited).unwrap();
    let [series] = &found[..] else { panic!("{found:?}") };
    assert_eq!(series.labels.to_string(), r#"latency_seconds{host="gpu-01"}"#);
    assert_eq!(series.times, [*NOW, *NOW + 1000]);
    assert!(series.values[0].same_observations(&series.values[1]), "{found:?}");
}
