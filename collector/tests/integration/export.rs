//! Export and import: exact both ways, within bounded memory, and together with VictoriaMetrics.

use crate::common;
use std::collections::BTreeMap;

use crate::common::engine::{Engine, Kind, exported};
use crate::common::{Collector, gzip, now_ms, post, series};
use fabriclens_config::Config;
use fabriclens_core::prompb::TimeSeries;

const ALL: &str = "match%5B%5D=%7B__name__%3D~%22.%2B%22%7D";

/// Values that texts and packers get wrong, among them three kinds of NaN.
fn odd() -> Vec<f64> {
    let bits =
        [0x7ff0_0000_0000_0002, 0x7ff8_0000_0000_0001, 0x7ff8_0000_0000_0000, 0xfff8_0000_0000_1234, 1, 0x10_0000];
    let mut all: Vec<f64> = bits.map(f64::from_bits).to_vec();
    all.extend([0.0, 0.1 + 0.2, 1e21, -1e-7, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY]);
    all.extend([9_007_199_254_740_993.0, 1.0 / 3.0, 123_456_789.123_456_79, 5e-324]);
    all
}

fn samples(end: i64, divisor: f64) -> Vec<TimeSeries> {
    let at = |n: usize| end - 1_000_000 + 10_000 * n as i64;
    let odd: Vec<(i64, f64)> = odd().into_iter().enumerate().map(|(n, v)| (at(n), v)).collect();
    let mut all = vec![series(&[("__name__", "odd"), ("text", "a\"b\\c\nd é {}[],:")], &odd)];
    for m in 0..3 {
        for i in 0..100 {
            let points: Vec<(i64, f64)> = (0..90).map(|n| (at(n), (n * i * (m + 1)) as f64 / divisor)).collect();
            all.push(series(&[("__name__", &format!("m{m}")), ("i", &i.to_string())], &points));
        }
    }
    all
}

/// Time and bits by the text of the label set.
fn by_series(lines: &str) -> BTreeMap<String, Vec<(i64, String)>> {
    let mut all: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let times = line["timestamps"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap());
        let values = line["values"].as_array().unwrap().iter().map(ToString::to_string);
        all.entry(line["metric"].to_string()).or_default().extend(times.zip(values));
    }
    all
}

async fn import(c: &Collector, headers: &[(&'static str, &'static str)], body: Vec<u8>) -> (u16, String) {
    post(format!("http://{}/api/v1/import", c.running.http), headers, body).await
}

/// Little memory, so that an export of [`samples`] takes many chunks.
fn small(config: &mut Config) {
    config.query.memory = 1 << 20;
}

#[tokio::test]
async fn export_and_import_are_exact() {
    let (a, b) = (Collector::with(small).await, Collector::start().await);
    let end = now_ms();
    assert_eq!(a.remote_write(samples(end, 7.0)).await.0, 204);
    // Protobuf omits the sign of zero, JSON has it.
    let zero = format!(r#"{{"metric":{{"__name__":"zero"}},"values":[-0],"timestamps":[{end}]}}"#);
    assert_eq!(import(&a, &[], zero.clone().into_bytes()).await.0, 204);
    let (status, text) = a.get(&format!("/api/v1/export?{ALL}")).await;
    assert_eq!(status, 200);
    assert!(text.contains(&zero), "{text}");
    let found = by_series(&text);
    assert_eq!((found.len(), found.values().map(Vec::len).sum::<usize>()), (302, 27_001 + odd().len()));
    assert!(text.lines().count() > 600, "in pieces: {}", text.lines().count());
    assert!(found.values().all(|points| points.is_sorted_by(|a, b| a.0 < b.0)), "each sample once, in order");
    let first = text.lines().find(|l| l.contains("odd")).unwrap();
    let values = r#""values":[null,"NaN","NaN(7ff8000000000000)","NaN(fff8000000001234)",5e-324,5.180654e-318,0,0."#;
    assert!(first.contains(values), "{first}");

    // Into another one, and into the same again, where each bit must fit or it would be a conflict.
    assert_eq!(import(&b, &[("content-encoding", "gzip")], gzip(text.as_bytes())).await, (204, String::new()));
    assert_eq!(import(&a, &[], text.into_bytes()).await, (204, String::new()));
    assert_eq!(by_series(&b.get(&format!("/api/v1/export?{ALL}")).await.1), found);

    // Two selectors that fit the same series, and a range with both ends in it.
    let (from, to) = (end - 1_000_000 + 20_000, end - 1_000_000 + 50_000);
    let range = format!("start={}.{:03}&end={}.{:03}", from / 1000, from % 1000, to / 1000, to % 1000);
    let (_, text) = a.get(&format!("/api/v1/export?match[]=m1&match[]=%7Bi=%225%22%7D&{range}")).await;
    let part = by_series(&text);
    assert_eq!((part.len(), part.values().map(Vec::len).collect::<Vec<_>>()), (102, vec![4; 102]));
    // Chunks that end on a sample.
    let after = end - 1_000_000 + 1;
    let (_, text) = a.get(&format!("/api/v1/export?match[]=m0&start={}.{:03}", after / 1000, after % 1000)).await;
    let part = by_series(&text);
    assert!(part.len() == 100 && part.iter().all(|(key, points)| *points == found[key][1..]), "{text}");
    assert_eq!(a.get("/api/v1/export").await.0, 400);
    assert_eq!(a.get("/api/v1/export?match[]=nothing").await, (200, String::new()));
}

#[tokio::test]
async fn bad_import_lines_are_named() {
    let c = Collector::with(|c| c.ingest.message_size = 2 << 20).await;
    let now = now_ms();
    let good = format!("{{\"metric\":{{\"__name__\":\"m\"}},\"values\":[1],\"timestamps\":[{now}]}}\n");
    let (status, text) = import(&c, &[], format!("{good}\n{{\"metric\":[]}}\n").into_bytes()).await;
    assert!(status == 400 && text.starts_with("line 3: invalid type: sequence, expected a map"), "{text}");
    assert!(text.contains("a line must be {\"metric\":"), "{text}");
    let old = good.replace(&now.to_string(), "1000");
    let (status, text) = import(&c, &[], format!("{good}{old}").into_bytes()).await;
    assert!(status == 400 && text.starts_with("1 points rejected, all others are stored: older than"), "{text}");
    assert_eq!(c.value("m").await, Some(1.0));
    // A line without end, and a small body that becomes one.
    let long = vec![b' '; 4 << 20];
    let (status, text) = import(&c, &[], long.clone()).await;
    assert!(status == 413 && text.contains("request line exceeds 2097152 bytes"), "{text}");
    assert_eq!(import(&c, &[("content-encoding", "gzip")], gzip(&long)).await.0, 413);
    assert_eq!(import(&c, &[("content-encoding", "br")], vec![]).await.0, 415);
    assert_eq!(import(&c, &[("content-encoding", "gzip")], gzip(good.as_bytes())[..30].to_vec()).await.0, 400);
    // Its last line needs no end; no line at all is fine too.
    assert_eq!(import(&c, &[], good.trim().replace("\"m\"", "\"n\"").into_bytes()).await.0, 204);
    assert_eq!(import(&c, &[], vec![]).await.0, 204);
    assert_eq!(c.value("n").await, Some(1.0));
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn export_is_compatible_with_victoria_metrics() {
    let victoria = Engine::start(Kind::Victoria).await;
    let (a, b) = (Collector::start().await, Collector::start().await);
    let end = now_ms();
    // Integers, because VictoriaMetrics rounds to decimals. It also skips lines with a NaN or a staleness marker.
    assert_eq!(a.remote_write(samples(end, 1.0)).await.0, 204);
    let (_, text) = a.get("/api/v1/export?match%5B%5D=%7B__name__%3D~%22m.%2B%22%7D").await;
    let imported = post(format!("{}/api/v1/import", victoria.base), &[], text.clone().into_bytes()).await;
    assert_eq!(imported.0, 204);
    let ours = exported(&text);
    let theirs = async || victoria.samples("{__name__!=\"\"}", end - 2_000_000, end).await;
    common::until("VictoriaMetrics shows every sample", async || {
        theirs().await.values().map(Vec::len).eq(ours.values().map(Vec::len))
    })
    .await;
    assert_eq!(theirs().await, ours);

    // Back: markers as null, infinities bare.
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    let ended =
        series(&[("__name__", "ended")], &[(end - 9000, f64::INFINITY), (end - 8000, 2.0), (end - 7000, stale)]);
    assert_eq!(common::remote_write(&format!("{}/api/v1/write", victoria.base), vec![ended]).await.0, 204);
    let url = format!("/api/v1/export?match[]=ended&start={}", end / 1000 - 60);
    let mut text = String::new();
    common::until("VictoriaMetrics exports the series", async || {
        common::fetch(&victoria.base, "/internal/force_flush").await;
        text = common::fetch(&victoria.base, &url).await.2;
        !text.is_empty()
    })
    .await;
    assert_eq!(import(&b, &[], text.into_bytes()).await, (204, String::new()));
    let (_, text) = b.get("/api/v1/export?match[]=ended").await;
    assert!(text.contains(r#""values":["Infinity",2,null]"#), "{text}");
}
