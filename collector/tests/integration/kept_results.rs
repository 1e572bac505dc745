//! Results of range queries that are kept for the next one: the same answers as without, and bounded memory.

use crate::common::{Collector, now_ms, series};
use serde_json::Value;

/// Seconds between two steps, and in a range.
const STEP: i64 = 15;
const RANGE: i64 = 600;

const QUERIES: [&str; 18] = [
    "sum by (rail) (rate(sent_total[1m]))",
    "sent_total",
    "topk(2, rate(sent_total[1m]))",
    "limitk(2, sent_total)",
    "count_values(\"v\", floor(rate(sent_total[1m]) / 100))",
    "quantile by (rail) (0.9, sent_total)",
    "max_over_time(rate(sent_total[1m])[5m:30s])",
    "sent_total - sent_total offset 1m",
    "rate(sent_total[1m]) * on (host) group_left (leaf) place",
    "absent(sent_total{host=\"h3\"})",
    "scalar(sum(sent_total)) + time()",
    "changes(sent_total[2m] anchored)",
    "delta(sent_total[5m:7s])",
    "sort_desc(sum by (host) (sent_total))",
    "sent_total @ end()",
    "sent_total offset -1m",
    "rate(sent_total[1m] smoothed)",
    "rate(sent_total[range()])",
];
/// Of these, the results at a step depend on the range or on later samples.
const NEVER_KEPT: usize = 4;

async fn ask(c: &Collector, query: &str, end: i64, more: &[(&str, &str)]) -> Value {
    let (start, end, step) = ((end - RANGE).to_string(), end.to_string(), STEP.to_string());
    let form = [("query", query), ("start", &start), ("end", &end), ("step", &step)];
    let (status, answer) = c.form("/api/v1/query_range", &[&form[..], more].concat()).await;
    assert_eq!(status, 200, "{query}: {answer}");
    answer
}

/// Steps of range queries by origin.
async fn steps(c: &Collector, origin: &str) -> u64 {
    let name = format!("fabriclens_query_steps_total{{origin=\"{origin}\"}}");
    let (_, text) = c.get("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse().ok());
    line.unwrap_or(0)
}

#[tokio::test]
async fn kept_results_are_those_of_an_evaluation() {
    const ROUNDS: i64 = 40;
    let c = Collector::start().await;
    let begin = now_ms() / 1000 / STEP * STEP - RANGE - ROUNDS * STEP;
    let mut random = 1_u64;
    let mut chance = move |of: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % of
    };
    let sample =
        |host: u64, second: i64| (second * 1000 + host as i64, (second - begin) as f64 * (host + 1) as f64 * 97.0);
    let named = |host: u64, samples: &[(i64, f64)]| {
        let (host, rail) = (format!("h{host}"), format!("r{}", host % 2));
        series(&[("__name__", "sent_total"), ("host", &host), ("rail", &rail)], samples)
    };
    let place = |second: i64| {
        let of = |host: u64| {
            let (host, leaf) = (format!("h{host}"), format!("leaf{}", host / 2));
            series(&[("__name__", "place"), ("host", &host), ("leaf", &leaf)], &[(second * 1000, 1.0)])
        };
        (0..6).map(of).collect::<Vec<_>>()
    };
    for round in 0..ROUNDS {
        let end = begin + RANGE + round * STEP;
        let from = if round == 0 { begin } else { end - STEP };
        // One host began later, and one has gaps, of which some are filled a while later.
        for host in 0..6 {
            let seconds = (from + 1..=end).step_by(5).filter(|s| host != 4 || *s > begin + RANGE);
            let kept: Vec<_> = seconds.filter(|s| host != 5 || s % 60 < 30).map(|s| sample(host, s)).collect();
            assert_eq!(c.remote_write(vec![named(host, &kept)]).await.0, 204);
            if host == 5 && chance(4) == 0 {
                let late = end - 5 - chance(120) as i64;
                assert_eq!(c.remote_write(vec![named(host, &[sample(host, late)])]).await.0, 204);
            }
        }
        assert_eq!(c.remote_write((from..=end).step_by(60).flat_map(place).collect()).await.0, 204);
        for query in QUERIES {
            let kept = ask(&c, query, end, &[]).await;
            let anew = ask(&c, query, end, &[("nocache", "1")]).await;
            assert_eq!(kept, anew, "{query} in round {round}");
        }
    }
    let all = (RANGE / STEP + 1) * ROUNDS * (QUERIES.len() - NEVER_KEPT) as i64;
    let (kept, evaluated) = (steps(&c, "kept").await, steps(&c, "evaluated").await);
    assert_eq!((kept + evaluated) as i64, all, "those that are never kept are not counted");
    assert!(evaluated * 4 < kept, "{kept} kept, {evaluated} evaluated");
}

#[tokio::test]
async fn kept_results_are_bounded() {
    const MEMORY: usize = 16 << 20;
    let c = Collector::with(|config| config.query.memory = MEMORY).await;
    let end = now_ms() / 1000;
    let samples: Vec<_> = (0..RANGE).map(|s| ((end - RANGE + s) * 1000, s as f64)).collect();
    let all: Vec<_> = (0..300).map(|i| series(&[("__name__", "m"), ("i", &i.to_string())], &samples)).collect();
    for some in all.chunks(50) {
        assert_eq!(c.remote_write(some.to_vec()).await.0, 204);
    }
    let bytes = async || {
        let (_, text) = c.get("/metrics").await;
        let line =
            text.lines().find_map(|line| line.strip_prefix("fabriclens_query_results_bytes ")).unwrap().to_owned();
        line.parse::<usize>().unwrap()
    };
    let mut most = 0;
    for offset in 1..30 {
        ask(&c, &format!("m offset {offset}s"), end, &[]).await;
        most = most.max(bytes().await);
    }
    assert!((MEMORY / 16..=MEMORY / 8).contains(&most), "{most}");
    let before = steps(&c, "kept").await;
    ask(&c, "m offset 29s", end, &[]).await;
    assert_eq!(steps(&c, "kept").await - before, (RANGE / STEP + 1) as u64, "the newest is kept");
    ask(&c, "m offset 1s", end, &[]).await;
    assert_eq!(steps(&c, "kept").await - before, (RANGE / STEP + 1) as u64, "the oldest went");
}
