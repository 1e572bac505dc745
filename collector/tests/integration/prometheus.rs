//! The API against a real Prometheus: the same samples and requests give identical answers.
//!
//! Debian has 2.42, so ranges are those of version 2; requests that 2.53 answers differently are left out.

use crate::common;
use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, fetch, now_ms, series};
use fabriclens_core::prompb::TimeSeries;
use fabriclens_promql::Version;

/// Ten minutes of three counters, and numbers whose texts differ between formats.
fn samples(end: i64) -> Vec<TimeSeries> {
    let odd = [1_234_567.0, 123_456.0, 1e20, 1e21, 1e-5, 0.0001, -2e7, 0.1, f64::NEG_INFINITY, f64::NAN];
    let ago = |s: i64| end - s * 1000;
    let counter = |i: i64, job: &str| {
        let points: Vec<(i64, f64)> = (0..60).map(|k| (ago(600 - 10 * k), (k * i) as f64)).collect();
        series(&[("__name__", "m_total"), ("i", &i.to_string()), ("job", job)], &points)
    };
    let mut all = vec![counter(0, "x"), counter(1, "a\"b\\c\nd"), counter(2, "é")];
    all.extend(
        odd.iter().enumerate().map(|(i, v)| {
            series(&[("__name__", "odd"), ("i", &format!("{i:02}")), ("instance", "own")], &[(ago(5), *v)])
        }),
    );
    all.push(series(&[("__name__", "old")], &[(ago(400), 1.0)]));
    all.push(series(&[("__name__", "ended")], &[(ago(20), 1.0), (ago(10), f64::from_bits(0x7ff0_0000_0000_0002))]));
    all
}

/// Status, type, and body without times that no two servers share. Of an error only its type, because messages may differ.
pub(super) fn shown(answer: &(u16, String, String)) -> (u16, &str, String) {
    let mut body = answer.2.clone();
    if answer.0 != 200 {
        let kind = body.split('"').skip_while(|word| *word != "errorType").nth(2).unwrap_or_default();
        return (answer.0, "", kind.to_owned());
    }
    if let (Some(from), Some(to)) = (body.find("\"timings\":{"), body.find("},\"samples\"")) {
        let names: Vec<&str> = body[from..to].split('"').skip(3).step_by(2).collect();
        let names = names.join(" ");
        body.replace_range(from..to, &names);
    }
    if let Some(from) = body.find("\"peakSamples\":") {
        let to = from + body[from..].find('}').unwrap();
        body.replace_range(from..to, "\"peakSamples\"");
    }
    (answer.0, &answer.1, body)
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn answers_match_prometheus() {
    let prometheus = Engine::start(Kind::Prometheus).await;
    let ours = Collector::with(|config| config.query.promql = Version::V2).await;
    let end = now_ms() / 1000 * 1000;
    assert_eq!(ours.remote_write(samples(end)).await.0, 204);
    assert_eq!(common::remote_write(&format!("{}/api/v1/write", prometheus.base), samples(end)).await.0, 204);

    let (now, base) = (end / 1000, format!("http://{}", ours.running.http));
    let (ago, hour) = (now - 600, now - 3600);
    let mut wrong = Vec::new();
    let paths = [
        // Statistics of a query.
        format!("/api/v1/query?query=m_total&time={now}&stats=all"),
        format!("/api/v1/query?query=m_total&time={now}&stats="),
        format!("/api/v1/query?query=1&time={now}&stats=x"),
        format!("/api/v1/query?query=m_total[2m]&time={now}&stats=all"),
        format!("/api/v1/query?query=absent_over_time(m_total[5m])&time={now}&stats=all"),
        format!("/api/v1/query?query=sum_over_time(m_total[5m:30s])&time={now}&stats=all"),
        format!("/api/v1/query_range?query=rate(m_total[1m])&start={ago}&end={now}&step=60&stats=all"),
        format!("/api/v1/query_range?query=sum(m_total)%2Bodd&start={ago}&end={now}&step=7&stats=all"),
        // Federation.
        "/federate".to_owned(),
        "/federate?match[]=m_total".to_owned(),
        "/federate?match[]=odd".to_owned(),
        "/federate?match[]=odd&match[]={i=%220%22}&match[]=nothing".to_owned(),
        "/federate?match[]={__name__=~%22.%2B%22}".to_owned(),
        // Exemplars, of which there are none.
        "/api/v1/query_exemplars".to_owned(),
        "/api/v1/query_exemplars?query=m_total".to_owned(),
        "/api/v1/query_exemplars?query=1%2B".to_owned(),
        "/api/v1/query_exemplars?query=m_total&start=5&end=1".to_owned(),
        "/api/v1/query_exemplars?query=m_total&start=x".to_owned(),
        // Ranges that end before they start.
        format!("/api/v1/series?match[]=m_total&start={now}&end={ago}"),
        format!("/api/v1/labels?start={now}&end={ago}"),
        format!("/api/v1/label/i/values?start={now}&end={ago}"),
        format!("/api/v1/query_range?query=1&start={now}&end={ago}&step=1"),
        // And ones that do not.
        format!("/api/v1/series?match[]=m_total&start={hour}&end={now}"),
        format!("/api/v1/labels?match[]=odd&start={hour}&end={now}"),
        format!("/api/v1/label/job/values?start={hour}&end={now}"),
        // Malformed parameters.
        "/api/v1/series".to_owned(),
        "/api/v1/series?match[]={}".to_owned(),
        "/api/v1/series?match[]={a=~%22.*%22}".to_owned(),
        "/api/v1/labels?start=x".to_owned(),
        "/api/v1/label/i/values?end=x".to_owned(),
        "/api/v1/label/a-b/values".to_owned(),
        "/api/v1/query?query=1&time=x".to_owned(),
        "/api/v1/query?query=1&timeout=x".to_owned(),
        "/api/v1/query?query=".to_owned(),
        "/api/v1/query_range?query=1&start=x&end=2&step=1".to_owned(),
        "/api/v1/query_range?query=1&start=1&end=2&step=x".to_owned(),
        "/api/v1/format_query?query=1%2B".to_owned(),
        // Numbers at the ends of what a float holds.
        format!("/api/v1/query?query=1e400&time={now}"),
        format!("/api/v1/query?query=-1e400&time={now}"),
        format!("/api/v1/query?query=1e-400&time={now}"),
        format!("/api/v1/query?query=0x7FFFFFFFFFFFFFFF&time={now}"),
        format!("/api/v1/query?query=0xFFFFFFFFFFFFFFFF&time={now}"),
        format!("/api/v1/query?query=0x1p5&time={now}"),
        format!("/api/v1/query?query=089&time={now}"),
        format!("/api/v1/query?query=odd&time={now}"),
    ];
    for path in &paths {
        let path = path.replace('[', "%5B").replace(']', "%5D").replace('{', "%7B").replace('}', "%7D");
        let (got, want) = (fetch(&base, &path).await, fetch(&prometheus.base, &path).await);
        if shown(&got) != shown(&want) {
            wrong.push(format!("{path}\n   ours   {:?}\n   theirs {:?}", shown(&got), shown(&want)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), paths.len(), wrong.join("\n"));
}
