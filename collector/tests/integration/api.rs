//! The Prometheus HTTP API as Grafana calls it, and its errors.

use crate::common;
use crate::common::{Collector, now_ms, series};
use serde_json::{Value, json};

/// Ten samples, one each second, of two ports and a gauge; returns the time of the last, in whole seconds.
async fn filled() -> (Collector, i64) {
    let c = Collector::start().await;
    let end = now_ms() / 1000 - 5;
    let samples = |f: fn(i64) -> f64| -> Vec<(i64, f64)> { (0..10).map(|i| ((end - 9 + i) * 1000, f(i))).collect() };
    let port = |p| [("__name__", "fabric_test_total"), ("host", "h1"), ("port", p)];
    let all = vec![
        series(&port("1"), &samples(|i| (i * 100) as f64)),
        series(&port("2"), &samples(|i| (i * 300) as f64)),
        series(&[("__name__", "temp"), ("host", "h2")], &samples(|_| f64::INFINITY)),
    ];
    assert_eq!(c.remote_write(all).await.0, 204);
    (c, end)
}

fn data(answer: (u16, Value)) -> Value {
    assert_eq!((answer.0, &answer.1["status"]), (200, &json!("success")), "{}", answer.1);
    answer.1["data"].clone()
}

#[tokio::test]
async fn grafana_requests_are_answered() {
    let (c, end) = filled().await;
    let build = data(c.json("/api/v1/status/buildinfo").await);
    let version: Vec<u32> = build["version"].as_str().unwrap().split('.').map(|n| n.parse().unwrap()).collect();
    assert!(version >= vec![2, 53, 0] && build.get("features").is_none(), "{build}");
    assert_eq!(data(c.json("/api/v1/query?query=1%2B1&time=4").await), json!({"resultType":"scalar","result":[4,"2"]}));

    // Variables and the metric browser.
    let (from, to) = ((end - 60).to_string(), (end + 1).to_string());
    let range = [("start", from.as_str()), ("end", to.as_str())];
    assert_eq!(data(c.form("/api/v1/labels", &range).await), json!(["__name__", "host", "port"]));
    let path = format!("/api/v1/label/__name__/values?start={from}&end={to}");
    assert_eq!(data(c.json(&path).await), json!(["fabric_test_total", "temp"]));
    let path = "/api/v1/label/port/values?match%5B%5D=fabric_test_total%7Bhost%3D%22h1%22%7D";
    assert_eq!(data(c.json(path).await), json!(["1", "2"]));
    let form = [range[0], range[1], ("match[]", "temp"), ("match[]", r#"{port="2"}"#)];
    assert_eq!(
        data(c.form("/api/v1/series", &form).await),
        json!([{"__name__":"fabric_test_total","host":"h1","port":"2"}, {"__name__":"temp","host":"h2"}])
    );
    assert!(data(c.json("/api/v1/metadata?limit=5").await).is_object());

    // A panel, an instant panel, and a table.
    let at = end.to_string();
    let form = [("query", "sum by (host) (rate(fabric_test_total[5s]))"), ("start", &at), ("end", &at), ("step", "15")];
    let panel = json!({"resultType":"matrix","result":[{"metric":{"host":"h1"},"values":[[end,"400"]]}]});
    assert_eq!(data(c.form("/api/v1/query_range", &form).await), panel);
    let path = format!("/api/v1/query_range?query=temp&start={}&end={end}&step=500ms", end - 1);
    let points = json!([[end - 1, "+Inf"], [(end as f64) - 0.5, "+Inf"], [end, "+Inf"]]);
    assert_eq!(data(c.json(&path).await)["result"][0]["values"], points);
    let path = format!("/api/v1/query?query=temp&time={end}.250");
    let (_, body) = c.get(&path).await;
    assert!(body.contains(&format!("\"value\":[{end}.250,\"+Inf\"]")), "{body}");

    // Missing features give empty results, not errors.
    assert_eq!(data(c.json("/api/v1/rules").await), json!({"groups":[]}));
    assert_eq!(data(c.json("/api/v1/alerts").await), json!({"alerts":[]}));
    assert_eq!(data(c.form("/api/v1/query_exemplars", &[("query", "temp")]).await), json!([]));
    assert_eq!(data(c.json("/api/v1/targets?state=active").await)["activeTargets"], json!([]));
    assert_eq!(data(c.json("/api/v1/format_query?query=sum(temp)by(host)").await), json!("sum by (host) (temp)"));
}

#[tokio::test]
async fn bad_queries_fail_like_prometheus() {
    let (c, _) = filled().await;
    for (path, status, kind, text) in [
        ("query?query=sum(", 400, "bad_data", "invalid parameter \"query\": "),
        (
            "query?query=up&time=yesterday",
            400,
            "bad_data",
            "invalid parameter \"time\": Invalid time value for 'time': cannot parse \"yesterday\" to a valid timestamp",
        ),
        (
            "query?query=up&timeout=soon",
            400,
            "bad_data",
            "invalid parameter \"timeout\": cannot parse \"soon\" to a valid duration",
        ),
        ("query?query=up&limit=-1", 400, "bad_data", "invalid parameter \"limit\": limit must be non-negative"),
        (
            "query_range?query=up&end=2&step=1",
            400,
            "bad_data",
            "invalid parameter \"start\": cannot parse \"\" to a valid timestamp",
        ),
        (
            "query_range?query=up&start=2&end=1&step=1",
            400,
            "bad_data",
            "invalid parameter \"end\": end timestamp must not be before start time",
        ),
        (
            "query_range?query=up&start=1&end=2&step=0",
            400,
            "bad_data",
            "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer",
        ),
        ("query_range?query=up&start=1&end=2&step=-1", 400, "bad_data", "invalid parameter \"step\": zero or negative"),
        (
            "query_range?query=up&start=0&end=11001&step=1",
            400,
            "bad_data",
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ),
        ("query_range?query=up[5m]&start=0&end=1&step=1", 400, "bad_data", "invalid expression type"),
        ("query?query=label_replace(temp,%22x%22,%22%22,%22host%22,%22(%22)", 422, "execution", ""),
        ("series", 400, "bad_data", "no match[] parameter provided"),
        ("series?match[]=sum(up)", 400, "bad_data", "invalid parameter \"match[]\": 1:1: parse error: "),
        ("labels?match[]={", 400, "bad_data", "invalid parameter \"match[]\": "),
        ("label/a-b/values", 400, "bad_data", "invalid label name: \"a-b\""),
        ("nothing/here", 404, "not_found", "unknown path /api/v1/nothing/here"),
    ] {
        let path =
            format!("/api/v1/{}", path.replace('[', "%5B").replace(']', "%5D").replace('{', "%7B").replace('(', "%28"));
        let (code, answer) = c.json(&path).await;
        assert_eq!(
            (code, &answer["status"], &answer["errorType"]),
            (status, &json!("error"), &json!(kind)),
            "{path}: {answer}"
        );
        assert!(answer["error"].as_str().unwrap().starts_with(text), "{path}: {answer}");
    }
    // The limit itself is fine: 11,000 steps. And a time that ends before it starts holds nothing, as in Prometheus.
    let (code, answer) = c.json("/api/v1/labels?start=2&end=1").await;
    assert_eq!((code, &answer["data"]), (200, &json!([])));
    assert_eq!(c.json("/api/v1/query_range?query=up&start=0&end=11000&step=1").await.0, 200);
}

#[tokio::test]
async fn truncated_results_carry_a_warning() {
    let (c, end) = filled().await;
    let at = end.to_string();
    let (_, answer) = c.form("/api/v1/query", &[("query", "fabric_test_total"), ("time", &at), ("limit", "1")]).await;
    assert_eq!(answer["data"]["result"].as_array().unwrap().len(), 1);
    assert_eq!(answer["warnings"], json!(["results truncated due to limit"]));
    let (_, answer) = c.json("/api/v1/label/port/values?limit=1").await;
    assert_eq!((&answer["data"], &answer["warnings"]), (&json!(["1"]), &json!(["results truncated due to limit"])));
    let (_, answer) = c.json("/api/v1/label/port/values?limit=2").await;
    assert_eq!(answer.get("warnings"), None);

    let c = Collector::with(|config| config.query.max_samples = 5).await;
    let samples: Vec<(i64, f64)> = (0..10).map(|i| (now_ms() - i * 1000, 1.0)).collect();
    c.remote_write(vec![series(&[("__name__", "m")], &samples)]).await;
    let (status, answer) = c.form("/api/v1/query", &[("query", "sum(rate(m[1m]))")]).await;
    assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{answer}");
}

#[tokio::test]
async fn slow_query_ends_at_its_timeout() {
    let c = Collector::start().await;
    let samples: Vec<(i64, f64)> = (0..2000).map(|i| (now_ms() - i * 1000, i as f64)).collect();
    let many: Vec<_> = (0..40).map(|i| series(&[("__name__", "m"), ("i", &i.to_string())], &samples)).collect();
    assert_eq!(c.remote_write(many).await.0, 204);
    let end = now_ms() / 1000;
    let (start, end) = ((end - 10_000).to_string(), end.to_string());
    let form = [
        ("query", "sum(quantile_over_time(0.5, m[1d:1s]))"),
        ("start", start.as_str()),
        ("end", end.as_str()),
        ("step", "1"),
        ("timeout", "50ms"),
    ];
    let began = std::time::Instant::now();
    let (status, answer) = c.form("/api/v1/query_range", &form).await;
    assert!(began.elapsed().as_secs() < 20, "took {:?}", began.elapsed());
    // Too many samples may be noticed before the time is over; either way it ends, with a reason.
    let kinds = [(503, json!("timeout")), (422, json!("execution"))];
    assert!(kinds.contains(&(status, answer["errorType"].clone())), "{status} {answer}");
}

#[tokio::test]
async fn status_pages_match_the_state() {
    let (c, _) = filled().await;
    let tsdb = data(c.json("/api/v1/status/tsdb").await);
    assert_eq!(tsdb["headStats"]["numSeries"], json!(3));
    assert_eq!(tsdb["seriesCountByMetricName"][0], json!({"name":"fabric_test_total","value":2}));
    assert_eq!(data(c.json("/api/v1/status/flags").await)["retention.age"], json!("30d"));
    assert!(
        data(c.json("/api/v1/status/config").await)["yaml"].as_str().unwrap().contains("listen.http: \"127.0.0.1:")
    );
    assert_eq!(data(c.json("/api/v1/status/runtimeinfo").await)["storageRetention"], json!("30d"));
    for path in ["/healthz", "/readyz", "/-/healthy", "/-/ready"] {
        assert_eq!(c.get(path).await.0, 200, "{path}");
    }
    let (_, page) = c.get("/").await;
    assert!(page.contains("<title>Fabriclens</title>") && !page.contains("{{"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page loads nothing from elsewhere");
}

#[tokio::test]
async fn own_metrics_are_stored() {
    let c = Collector::with(|config| config.self_metrics_interval = std::time::Duration::from_millis(100)).await;
    c.remote_write(vec![series(&[("__name__", "m")], &[(now_ms(), 1.0)])]).await;
    let query = r#"fabriclens_ingest_samples_total{job="fabriclens",source="remote_write"} > 0"#;
    common::until("own metrics are stored", async || c.value(query).await == Some(1.0)).await;
    let meta = data(c.json("/api/v1/metadata?metric=fabriclens_ingest_samples_total").await);
    assert_eq!(meta["fabriclens_ingest_samples_total"][0]["type"], json!("counter"));
}

#[tokio::test]
async fn snapshot_answers_like_the_original() {
    let (c, end) = filled().await;
    let url = format!("http://{}/api/v1/admin/tsdb/snapshot", c.running.http);
    let (status, body) = common::post(url.clone(), &[], vec![]).await;
    assert_eq!(status, 200, "{body}");
    let name = serde_json::from_str::<Value>(&body).unwrap()["data"]["name"].as_str().unwrap().to_owned();
    // Later samples are not in the snapshot.
    assert_eq!(c.remote_write(vec![series(&[("__name__", "later")], &[(now_ms(), 1.0)])]).await.0, 204);
    let copy = c.dir.path().join("data").join("snapshots").join(&name);
    let restored = Collector::with(|config| config.data = copy).await;
    let ask = format!("/api/v1/query?query=%7B__name__!=%22%22%7D&time={end}");
    let of = |answer: (u16, Value)| data(answer)["result"].clone();
    assert_eq!(of(restored.json(&ask).await), of(c.json(&ask).await));
    assert_eq!(of(restored.json("/api/v1/query?query=later").await), json!([]));
    for _ in 1..8 {
        assert_eq!(common::post(url.clone(), &[], vec![]).await.0, 200);
    }
    let (status, body) = common::post(url, &[], vec![]).await;
    assert!(status == 503 && body.contains("remove those"), "{status} {body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_during_shutdown_get_503() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Collector { running, dir: _dir } = Collector::start().await;
    let address = running.http;
    let mut asks = tokio::net::TcpStream::connect(address).await.unwrap();
    asks.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    // By the time a later request is answered, the first part of this one is read: of a connection without any, nothing is in progress.
    assert_eq!(common::fetch(&format!("http://{address}"), "/readyz").await.0, 200);
    let stop = tokio::spawn(running.stop());
    common::until("it takes no more", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    asks.write_all(b"\r\n").await.unwrap();
    let mut answer = String::new();
    asks.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("stopping: requests in progress"), "{answer}");
    stop.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_engine_is_reported_with_peers() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let write = common::forward(&format!("http://{nobody}/api/v1/write"));
    let read = fabriclens_config::Endpoint { url: format!("http://{nobody}"), ..write.endpoint.clone() };
    let remote = fabriclens_config::Remote { read, write };
    let peer = Collector::start().await;
    let beside = common::forward(&format!("http://{}", peer.running.http)).endpoint;
    for peers in [vec![], vec![beside]] {
        let c = Collector::with(|config| {
            config.store = Some(remote.clone());
            config.peers = peers;
        })
        .await;
        let (status, answer) = c.json("/api/v1/query?query=up").await;
        assert!(status >= 500, "{answer}");
        let (status, text) = c.get("/readyz").await;
        assert!(status == 200 && text.contains(&format!("remote engine http://{nobody}: ")), "{text}");
        c.running.stop().await;
    }
}
