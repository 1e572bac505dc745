//! Ingest over gRPC, HTTP and remote write with valid, invalid and hostile requests. Each rejection names its remedy and affects
//! no other sample.

use crate::common;
use crate::common::{Collector, gzip, now_ms, now_ns, otlp, series};
use fabriclens_core::prompb::{Histogram, Sample};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message as _;
use tonic::Code;
use tonic::codec::CompressionEncoding;

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json");
const GZIP: (&str, &str) = ("content-encoding", "gzip");
const SECOND: u64 = 1_000_000_000;

#[tokio::test]
async fn otlp_over_grpc_plain_gzip_and_zstd() {
    let c = Collector::start().await;
    let now = now_ns();
    let ways = [None, Some(CompressionEncoding::Gzip), Some(CompressionEncoding::Zstd)];
    for (i, compression) in ways.into_iter().enumerate() {
        let mut client = c.grpc().await;
        if let Some(encoding) = compression {
            client = client.send_compressed(encoding);
        }
        let request = otlp(&format!("h{i}"), "fabric.test", &[(1, now - SECOND, 5), (1, now, 7 + i as i64)]);
        let answer = client.export(request).await.unwrap().into_inner();
        assert_eq!(answer.partial_success, None);
    }
    assert_eq!(c.value(r#"fabric_test_total{host="h2",device="mlx5_0",port="1"}"#).await, Some(9.0));
    assert_eq!(c.value("sum(fabric_test_total)").await, Some(24.0));
    let (_, metrics) = c.get("/metrics").await;
    assert!(metrics.contains("fabriclens_ingest_samples_total{source=\"otlp_grpc\"} 6"), "{metrics}");
}

#[tokio::test]
async fn otlp_over_http_in_both_encodings() {
    let c = Collector::start().await;
    let request = |host| otlp(host, "fabric.test", &[(1, now_ns(), 3)]);
    let plain = request("a").encode_to_vec();
    assert_eq!(c.otlp_http(&[PROTOBUF], plain).await, (200, String::new()));
    let json = serde_json::to_vec(&request("b")).unwrap();
    assert_eq!(c.otlp_http(&[JSON, GZIP], gzip(&json)).await, (200, "{}".to_owned()));
    assert_eq!(c.value("count(fabric_test_total)").await, Some(2.0));

    let (status, text) = c.otlp_http(&[("content-type", "text/plain")], vec![]).await;
    assert!(status == 415 && text.contains("application/x-protobuf"), "{status} {text}");
    let (status, text) = c.otlp_http(&[PROTOBUF, ("content-encoding", "br")], vec![]).await;
    assert!(status == 415 && text.contains("use gzip or none"), "{status} {text}");
    let (status, text) = c.otlp_http(&[JSON], b"{\"resourceMetrics\":7}".to_vec()).await;
    assert!(status == 400 && text.contains("malformed OTLP") && text.contains("\"code\":3"), "{status} {text}");
}

#[tokio::test]
async fn malformed_requests_keep_the_connection() {
    let c = Collector::start().await;
    let mut client = c.grpc().await;
    // A point whose list of attributes is longer than the message that holds it.
    let mut bytes = otlp("h", "fabric.test", &[(1, now_ns(), 3)]).encode_to_vec();
    bytes.truncate(bytes.len() - 4);
    let (status, text) = c.otlp_http(&[PROTOBUF], bytes.clone()).await;
    assert!(status == 400 && text.contains("malformed OTLP metrics request"), "{status} {text}");
    let (status, text) = c.raw_write(snap::raw::Encoder::new().compress_vec(&bytes).unwrap()).await;
    assert!(status == 400 && text.contains("malformed remote write request"), "{status} {text}");
    let (status, text) = c.raw_write(b"no snappy at all".to_vec()).await;
    assert!(status == 400 && text.contains("not valid snappy"), "{status} {text}");
    let (status, text) = c.otlp_http(&[PROTOBUF, GZIP], b"no gzip at all".to_vec()).await;
    assert!(status == 400 && text.contains("not valid gzip"), "{status} {text}");
    client.export(otlp("h", "fabric.test", &[(1, now_ns(), 3)])).await.unwrap();
    assert_eq!(c.value("fabric_test_total").await, Some(3.0));
}

/// A well-formed request of about `bytes` bytes that compresses to almost nothing.
fn huge(bytes: usize) -> ExportMetricsServiceRequest {
    let mut request = otlp("h", "fabric.test", &[(1, now_ns(), 3)]);
    request.resource_metrics[0].schema_url = "x".repeat(bytes);
    request
}

#[tokio::test]
async fn oversized_requests_and_bombs_are_rejected() {
    let c = Collector::start().await;
    let big = huge(100 << 20);
    let bytes = big.encode_to_vec();

    let mut client = c.grpc().await;
    let plain = client.export(big.clone()).await.unwrap_err();
    let mut client = c.grpc().await.send_compressed(CompressionEncoding::Gzip);
    let gzipped = client.export(big.clone()).await.unwrap_err();
    let mut client = c.grpc().await.send_compressed(CompressionEncoding::Zstd);
    let zstd = client.export(big).await.unwrap_err();
    for error in [plain, gzipped, zstd] {
        // Agents then send less at a time. Without a retry delay in the answer, exporters stop retrying.
        assert_eq!((error.code(), error.details()), (Code::ResourceExhausted, &[][..]), "{error}");
        assert!(
            error.message().contains("16777216 bytes") && error.message().contains("ingest.message_size"),
            "{error}"
        );
    }

    let (status, text) = c.otlp_http(&[PROTOBUF, GZIP], gzip(&bytes)).await;
    assert!(status == 413 && text.contains("ingest.message_size"), "{status} {text}");
    let (status, text) = c.raw_write(snap::raw::Encoder::new().compress_vec(&bytes).unwrap()).await;
    assert!(status == 413 && text.contains("send smaller requests"), "{status} {text}");

    client_still_works(&c).await;
    let (_, metrics) = c.get("/metrics").await;
    assert!(
        metrics.contains("fabriclens_ingest_requests_total{result=\"too_large\",source=\"otlp_grpc\"} 3"),
        "{metrics}"
    );
}

#[tokio::test]
async fn expanding_json_is_rejected() {
    let c = Collector::start().await;
    let json = |points: usize| {
        let points = vec!["{}"; points].join(",");
        let metric = format!(r#"{{"name":"fabric.test","gauge":{{"dataPoints":[{points}]}}}}"#);
        gzip(format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#).as_bytes())
    };
    let headers = [("content-type", "application/json"), GZIP];
    let (status, text) = c.otlp_http(&headers, json(1 << 18)).await;
    assert!(status == 413 && text.contains("262144 objects"), "{status} {text}");
    let (status, text) = c.otlp_http(&headers, json(1000)).await;
    assert_eq!(status, 200, "{text}");
    client_still_works(&c).await;
}

async fn client_still_works(c: &Collector) {
    c.grpc().await.export(otlp("after", "fabric.test", &[(1, now_ns(), 1)])).await.unwrap();
    assert_eq!(c.value(r#"fabric_test_total{host="after"}"#).await, Some(1.0));
}

#[tokio::test]
async fn wrong_protocol_names_the_right_address() {
    use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
    let c = Collector::start().await;
    let (status, text) = common::post(format!("http://{}/v1/metrics", c.running.otlp_grpc), &[PROTOBUF], vec![]).await;
    assert!(status == 404 && text.contains("4318"), "{status} {text}");
    // gRPC to the port of OTLP over HTTP.
    let mut client = MetricsServiceClient::connect(format!("http://{}", c.running.otlp_http)).await.unwrap();
    assert!(client.export(ExportMetricsServiceRequest::default()).await.is_err());
}

#[tokio::test]
async fn points_out_of_range_are_rejected_singly() {
    let c = Collector::start().await;
    let (now, day) = (now_ns(), 86_400 * SECOND);
    let mut client = c.grpc().await;
    let mut request = otlp("h", "fabric.future", &[(1, now + day, 1)]);
    request.resource_metrics.extend(otlp("h", "fabric.old", &[(1, now - 60 * day, 1)]).resource_metrics);
    request.resource_metrics.extend(otlp("h", "fabric.good", &[(1, now, 1)]).resource_metrics);
    let partial = client.export(request).await.unwrap().into_inner().partial_success.unwrap();
    assert_eq!(partial.rejected_data_points, 2);
    assert!(partial.error_message.contains("set the sender's clock"), "{}", partial.error_message);
    assert!(partial.error_message.contains("raise retention.age"), "{}", partial.error_message);
    assert_eq!(c.value("fabric_good_total").await, Some(1.0));

    let ms = now_ms();
    let (status, text) = c
        .remote_write(vec![
            series(&[("__name__", "future")], &[(ms + 86_400_000, 1.0)]),
            series(&[("__name__", "good")], &[(ms, 2.0)]),
        ])
        .await;
    assert!(status == 400 && text.contains("1 points rejected, all others are stored"), "{status} {text}");
    assert_eq!(c.value("good").await, Some(2.0));
    let (_, metrics) = c.get("/metrics").await;
    assert!(
        metrics.contains("fabriclens_ingest_rejected_total{reason=\"future\",source=\"remote_write\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn duplicates_conflicts_and_late_points() {
    let c = Collector::start().await;
    let ms = now_ms();
    let at = |t: i64, v: f64| vec![series(&[("__name__", "m"), ("host", "h")], &[(t, v)])];
    assert_eq!(c.remote_write(at(ms, 3.0)).await.0, 204);
    assert_eq!(c.remote_write(at(ms - 2000, 1.0)).await.0, 204, "out of order");
    assert_eq!(c.remote_write(at(ms - 1000, 2.0)).await.0, 204, "out of order again");
    assert_eq!(c.remote_write(at(ms, 3.0)).await.0, 204, "a repetition after a lost answer");
    let (status, text) = c.remote_write(at(ms, 9.0)).await;
    assert!(status == 400 && text.contains("another value at the same time, and the first is kept"), "{status} {text}");
    let (_, answer) = c.form("/api/v1/query", &[("query", "m[10s]")]).await;
    let values: Vec<&str> =
        answer["data"]["result"][0]["values"].as_array().unwrap().iter().map(|v| v[1].as_str().unwrap()).collect();
    assert_eq!(values, ["1", "2", "3"]);
}

#[tokio::test]
async fn otlp_duplicates_and_disorder_lose_nothing() {
    let c = Collector::start().await;
    let mut client = c.grpc().await;
    let (now, start) = (now_ns(), now_ns() - 60 * SECOND);
    let tick = |i: u64| otlp("h", "fabric.test", &[(start, now - (4 - i) * SECOND, i as i64)]);
    for i in [3, 0, 2, 2, 0, 1, 3] {
        let answer = client.export(tick(i)).await.unwrap().into_inner();
        assert_eq!(answer.partial_success, None, "tick {i}");
    }
    assert_eq!(c.value("count_over_time(fabric_test_total[1m])").await, Some(4.0), "each tick once");
    assert_eq!(c.value("increase(fabric_test_total[3s]) > 4").await, None, "in order: no reset is seen between them");
    assert_eq!(c.value("resets(fabric_test_total[1m])").await, Some(0.0));
}

#[tokio::test]
async fn stepped_sender_clock_recovers() {
    let c = Collector::start().await;
    let mut client = c.grpc().await;
    let (hour, now) = (3600 * SECOND, now_ns());
    let mut send = async |at: u64, value: i64| {
        let request = otlp("h", "fabric.test", &[(now - 2 * hour, at, value)]);
        client.export(request).await.unwrap().into_inner().partial_success
    };
    assert_eq!(send(now - 9 * SECOND, 1).await, None);
    let ahead = send(now + hour - 8 * SECOND, 2).await.unwrap();
    assert_eq!(ahead.rejected_data_points, 1);
    assert!(ahead.error_message.contains("set the sender's clock (NTP)"), "{}", ahead.error_message);
    assert_eq!(send(now - 7 * SECOND, 3).await, None, "the clock is right again");
    assert_eq!(send(now - hour - 6 * SECOND, 4).await, None, "an hour behind is old, and kept");
    assert_eq!(send(now - 5 * SECOND, 5).await, None, "right again");
    let at = |query: &'static str| c.value(query);
    assert_eq!(at("count_over_time(fabric_test_total[1m])").await, Some(3.0));
    assert_eq!(at("fabric_test_total").await, Some(5.0));
    assert_eq!(at("count_over_time(fabric_test_total[1m] offset 1h)").await, Some(1.0), "where its clock put it");
}

#[tokio::test]
async fn staleness_marker_ends_a_series() {
    let c = Collector::start().await;
    let ms = now_ms();
    let name = [("__name__", "gone")];
    assert_eq!(c.remote_write(vec![series(&name, &[(ms - 2000, 1.0)])]).await.0, 204);
    assert_eq!(c.value("gone").await, Some(1.0));
    assert_eq!(c.remote_write(vec![series(&name, &[(ms - 1000, fabriclens_model::stale())])]).await.0, 204);
    assert_eq!(c.value("gone").await, None);
}

/// `up{host="h1"} 7` at a time in remote write 2.0, with a sample and a histogram of the same time.
fn remote_write_2(ms: i64) -> Vec<u8> {
    fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
        out.extend([tag << 3 | 2, u8::try_from(bytes.len()).unwrap()]);
        out.extend_from_slice(bytes);
    }
    let (mut body, mut float, mut native) = (Vec::new(), Vec::new(), Vec::new());
    for symbol in ["", "__name__", "up2", "host", "h1", "latency2"] {
        field(&mut body, 4, symbol.as_bytes());
    }
    field(&mut float, 1, &[1, 2, 3, 4]);
    field(&mut float, 2, &Sample { value: 7.0, timestamp: ms }.encode_to_vec());
    field(&mut native, 1, &[1, 5]);
    let histogram =
        Histogram { count_int: Some(4), zero_count_int: Some(4), sum: 0.5, timestamp: ms, ..Histogram::default() };
    field(&mut native, 3, &histogram.encode_to_vec());
    [float, native].iter().for_each(|series| field(&mut body, 5, series));
    body
}

#[tokio::test]
async fn remote_write_2_is_stored_and_its_sender_learns_how_much() {
    let c = Collector::start().await;
    let url = format!("http://{}/api/v1/write", c.running.http);
    let send = async |message: &str, ms: i64| {
        let body = snap::raw::Encoder::new().compress_vec(&remote_write_2(ms)).unwrap();
        let (url, kind) = (url.clone(), format!("application/x-protobuf;proto={message}"));
        tokio::task::spawn_blocking(move || {
            let request =
                common::process::agent().post(&url).header("content-encoding", "snappy").header("content-type", &kind);
            let response = request.send(&body[..]).unwrap();
            let written = |what: &str| {
                let name = format!("x-prometheus-remote-write-{what}-written");
                response.headers().get(name).map(|count| count.to_str().unwrap().to_owned())
            };
            (response.status().as_u16(), ["samples", "histograms", "exemplars"].map(written))
        })
        .await
        .unwrap()
    };
    let counts = |counts: [&str; 3]| counts.map(|count| Some(count.to_owned()));
    let ms = now_ms();
    assert_eq!(send("io.prometheus.write.v2.Request", ms).await, (204, counts(["1", "1", "0"])));
    assert_eq!(c.value("up2{host=\"h1\"}").await, Some(7.0));
    assert_eq!(c.value("histogram_count(latency2)").await, Some(4.0));
    let future = send("io.prometheus.write.v2.Request", ms + 86_400_000).await;
    assert_eq!(future, (400, counts(["0", "0", "0"])));
    assert_eq!(send("of.the.future", ms).await, (415, [None, None, None]));
}

#[tokio::test]
async fn duplicate_host_names_are_reported() {
    let c = Collector::start().await;
    let (mut one, mut two) = (c.grpc().await, c.grpc().await);
    let begin = now_ns() - 10 * SECOND;
    let conflicts = r#"fabriclens_ingest_host_conflicts_total{host="twin"}"#;
    for tick in 0..3 {
        let t = begin + tick * SECOND;
        one.export(otlp("twin", "fabric.test", &[(begin - 50 * SECOND, t, tick as i64)])).await.unwrap();
        let (_, metrics) = c.get("/metrics").await;
        if tick == 0 {
            assert!(!metrics.contains(conflicts), "one agent alone is no conflict: {metrics}");
        }
        two.export(otlp("twin", "fabric.test", &[(begin - 20 * SECOND, t + SECOND / 2, 1000 + tick as i64)]))
            .await
            .unwrap();
        one.export(otlp("single", "fabric.test", &[(begin - 50 * SECOND, t, 1)])).await.unwrap();
    }
    let (_, metrics) = c.get("/metrics").await;
    assert!(metrics.contains(conflicts), "{metrics}");
    assert!(!metrics.contains("host_conflicts_total{host=\"single\"}"), "{metrics}");
    assert_eq!(c.value(r#"count_over_time(fabric_test_total{host="twin"}[1m])"#).await, Some(6.0));
}

#[tokio::test]
async fn concurrent_senders_lose_nothing() {
    let c = Collector::with(|config| config.ingest.in_flight = 2).await;
    let now = now_ns();
    let jobs: Vec<_> = (0..24)
        .map(|i| {
            let address = c.running.otlp_grpc;
            tokio::spawn(async move {
                use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
                let mut client = MetricsServiceClient::connect(format!("http://{address}")).await.unwrap();
                for tick in 0..5 {
                    let request = otlp(&format!("h{i}"), "fabric.test", &[(1, now - (5 - tick) * SECOND, tick as i64)]);
                    assert_eq!(client.export(request).await.unwrap().into_inner().partial_success, None);
                }
            })
        })
        .collect();
    for job in jobs {
        job.await.unwrap();
    }
    assert_eq!(c.value("sum(count_over_time(fabric_test_total[1m]))").await, Some(120.0));
}

#[tokio::test]
async fn slow_sender_delays_no_other() {
    use std::io::Write as _;
    let c = Collector::with(|config| config.ingest.in_flight = 1).await;
    // Announces a body and never sends it.
    let mut slow = std::net::TcpStream::connect(c.running.otlp_http).unwrap();
    slow.write_all(
        b"POST /v1/metrics HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\ncontent-length: 9\r\n\r\n",
    )
    .unwrap();
    // Nothing shows that the collector has read the head of the request.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    client_still_works(&c).await;
    let (_, metrics) = c.get("/metrics").await;
    assert!(!metrics.contains("fabriclens_ingest_shed_total{"), "{metrics}");
    drop(slow);
}

/// A collector that has nearly reached its memory limit.
#[tokio::test]
async fn memory_limit_sends_retry_after() {
    let c = Collector::with(|config| config.memory = Some(1)).await;
    let mut client = c.grpc().await;
    let error = client.export(otlp("h", "fabric.test", &[(1, now_ns(), 3)])).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("limits.memory") && error.message().contains("retry in"), "{error}");
    let info = b"type.googleapis.com/google.rpc.RetryInfo";
    assert!(error.details().windows(info.len()).any(|w| w == info), "{:?}", error.details());
    for (url, wanted) in [
        (format!("http://{}/v1/metrics", c.running.otlp_http), "http/1.1 429"),
        // Prometheus drops samples that are rejected with 429.
        (format!("http://{}/api/v1/write", c.running.http), "http/1.1 503"),
    ] {
        let text = tokio::task::spawn_blocking(move || raw_post(&url)).await.unwrap().to_lowercase();
        let after = text.split("retry-after: ").nth(1).and_then(|t| t.split("\r\n").next()?.parse::<u64>().ok());
        assert!(text.starts_with(wanted) && after.is_some_and(|s| (1..=70).contains(&s)), "{text}");
    }
    let (status, text) = c.get("/readyz").await;
    assert!(status == 200 && text.contains("memory"), "it is ready, and says what it sheds: {text}");
    let (_, metrics) = c.get("/metrics").await;
    assert!(
        metrics.contains(r#"fabriclens_ingest_shed_total{rank="unknown",reason="memory",source="otlp_grpc"} 1"#),
        "{metrics}"
    );
}

/// Raw answer to an empty POST.
fn raw_post(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut s = std::net::TcpStream::connect(address).unwrap();
    let kind = "content-type: application/x-protobuf\r\ncontent-length: 0";
    write!(s, "POST /{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{kind}\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    s.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
