//! Compares the engine with a real Prometheus: the same series, the same generated expressions, instant and range
//! queries, to 1e-12.
//!
//! `FABRICLENS_PROMQL_SEED` and `FABRICLENS_PROMQL_COUNT` select other expressions and more of
//! them. Debian packages 2.42 and the engine follows 2.53; known differences are listed in [`accepted`].

use crate::common::generate::{self, Random};
use crate::common::prometheus::{Answer, Prometheus};
use crate::common::{Memory, close};
use fabriclens_promql::{Engine, Limits, Outcome, QueryError, Value, Version};
use std::collections::BTreeMap;

const BASE: i64 = 1_700_000_000_000;
const TOLERANCE: f64 = 1e-12;

/// Why 2.42 may answer this query differently, if it may. Each reason is a change in Prometheus before 2.53.
fn accepted(query: &str, range: bool) -> Option<&'static str> {
    let rules = [
        // 3.x: the deviation of a single infinity is NaN.
        (query.contains("stddev") || query.contains("stdvar"), "the deviation of one infinity"),
        // Pull request 13725: 2.42 extrapolates to a counter's zero point even from where it has already decided that
        // the series starts half an interval before its first sample.
        (query.contains("rate(") || query.contains("increase("), "13725: extrapolation to the zero point"),
        // Pull request 12595: 2.42 keeps the metric name.
        (query.contains(" atan2 "), "12595: atan2 drops the metric name"),
        // Pull request 13559: in 2.42 the pinned window of a time-dependent function moves with the step.
        // In all versions: timestamp() of a selector with both @ and offset ignores the offset, except while reading.
        (
            query.contains("timestamp(") && query.contains('@') && query.contains("offset"),
            "timestamp of a pinned and shifted selector",
        ),
        (
            (range || query.contains(':')) && query.contains("predict_linear(") && query.contains('@'),
            "13559: predict_linear of a pinned range",
        ),
    ];
    rules.into_iter().find(|(applies, _)| *applies).map(|(_, why)| why)
}

/// Ranges as in Prometheus 2.
fn engine() -> Engine {
    Engine::new(Limits { version: Version::V2, ..Limits::default() })
}

fn ours(outcome: Result<Outcome, QueryError>) -> Answer {
    let outcome = outcome.map_err(|e| format!("{}: {e}", e.kind()))?;
    let mut out = BTreeMap::new();
    match outcome.value {
        Value::Scalar { time_ms, value } => drop(out.insert(Default::default(), vec![(time_ms, value)])),
        Value::String { .. } => {}
        Value::Vector(v) => {
            for s in v {
                assert!(out.insert(s.labels, vec![(s.time_ms, s.value)]).is_none(), "twins");
            }
        }
        Value::Matrix(m) => {
            for s in m {
                assert!(out.insert(s.labels, s.times.into_iter().zip(s.values).collect()).is_none(), "twins");
            }
        }
    }
    Ok(out)
}

/// The first difference, or `None`.
fn difference(query: &str, ours: &Answer, theirs: &Answer) -> Option<String> {
    // Prometheus sums the series of a range query in random map order, and variances cancel badly.
    let unordered = query.contains("stddev") || query.contains("stdvar");
    // A remainder amplifies the last digit of a transcendental function.
    let remainder = query.contains(" % ");
    let tolerance = if unordered || remainder { 1e-6 } else { TOLERANCE };
    let (ours, theirs) = match (ours, theirs) {
        (Err(_), Err(_)) => return None,
        (Ok(o), Ok(t)) => (o, t),
        (o, t) => return Some(format!("ours {}, theirs {}", brief(o), brief(t))),
    };
    for labels in ours.keys().chain(theirs.keys()) {
        match (ours.get(labels), theirs.get(labels)) {
            (Some(o), Some(t)) => {
                let times = |s: &[(i64, f64)]| s.iter().map(|(t, _)| *t).collect::<Vec<_>>();
                if times(o) != times(t) {
                    return Some(format!("{labels}: at {:?}, theirs at {:?}", times(o), times(t)));
                }
                if let Some((o, t)) = o.iter().zip(t).find(|(o, t)| !close(o.1, t.1, tolerance)) {
                    return Some(format!("{labels} at {}: {:?}, theirs {:?}", o.0, o.1, t.1));
                }
            }
            (Some(o), None) => return Some(format!("{labels} {o:?}: only ours")),
            (None, Some(t)) => return Some(format!("{labels} {t:?}: only theirs")),
            (None, None) => {}
        }
    }
    None
}

fn brief(a: &Answer) -> String {
    match a {
        Ok(m) => format!("{} series", m.len()),
        Err(e) => e.clone(),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v:?} is no number")))
}

#[derive(Default)]
struct Tally {
    agreed: usize,
    empty: usize,
    both_failed: usize,
    same_words: usize,
    accepted: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, query: &str, how: &str, ours: &Answer, theirs: &Answer) {
        match (difference(query, ours, theirs), accepted(query, how.starts_with("over"))) {
            (None, _) => {
                self.agreed += 1;
                self.empty += usize::from(matches!(ours, Ok(m) if m.is_empty()));
                if let (Err(o), Err(t)) = (ours, theirs) {
                    self.both_failed += 1;
                    self.same_words += usize::from(o == t);
                    if o != t && std::env::var_os("FABRICLENS_PROMQL_WORDS").is_some() {
                        println!("{query}\n   ours   {o}\n   theirs {t}");
                    }
                }
            }
            (Some(_), Some(reason)) => *self.accepted.entry(reason).or_default() += 1,
            (Some(d), None) => self.wrong.push(format!("{how} {query}\n    {d}")),
        }
    }
}

#[test]
#[ignore = "needs: prometheus"]
fn agrees_with_a_real_prometheus() {
    let prometheus = Prometheus::start();
    let mut r = Random::new(setting("FABRICLENS_PROMQL_SEED", 1));
    let count = setting("FABRICLENS_PROMQL_COUNT", 1500);
    let store = Memory(generate::series(&mut r, BASE));
    prometheus.write(&store.0);

    let engine = engine();
    let mut tally = Tally::default();
    for _ in 0..count {
        let depth = 1 + r.below(3);
        let query = if r.one_in(10) { generate::scalar(&mut r, depth) } else { generate::vector(&mut r, depth) };
        let query = if r.one_in(6) { generate::mutated(&mut r, &query) } else { query };
        let at = BASE + (r.below(2_500) * 1000 + r.below(3) * 500) as i64;
        let instant = (ours(engine.instant(&store, &query, at)), prometheus.instant(&query, at));
        tally.add(&query, &format!("at {at}:"), &instant.0, &instant.1);

        let step = [15_000, 60_000, 47_000][r.below(3)];
        let end = at + step * r.below(12) as i64;
        let range = (ours(engine.range(&store, &query, at, end, step)), prometheus.range(&query, at, end, step));
        tally.add(&query, &format!("over {at}..{end} by {step}:"), &range.0, &range.1);
    }
    println!(
        "{} answers compared: {} agreed ({} empty, {} errors on both sides, {} of them in the same words), {:?} accepted, {} wrong",
        2 * count,
        tally.agreed,
        tally.empty,
        tally.both_failed,
        tally.same_words,
        tally.accepted,
        tally.wrong.len()
    );
    let excused: usize = tally.accepted.values().sum();
    assert!(excused * 100 <= 2 * 2 * count as usize, "more than 2 % excused: something else is wrong too");
    assert!(tally.agreed - tally.empty - tally.both_failed > count as usize, "too few answers hold anything");
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.iter().take(40).cloned().collect::<Vec<_>>().join("\n"));
}

/// `FABRICLENS_PROMQL_ASK='query' cargo test … ask -- --ignored --nocapture` prints both answers to one query, at an
/// instant or over `FABRICLENS_PROMQL_OVER='start end step'` in milliseconds.
#[test]
#[ignore = "tool: prints both answers to one query"]
fn ask() {
    let query = std::env::var("FABRICLENS_PROMQL_ASK").expect("FABRICLENS_PROMQL_ASK is set");
    let prometheus = Prometheus::start();
    let store = Memory(generate::series(&mut Random::new(setting("FABRICLENS_PROMQL_SEED", 1)), BASE));
    prometheus.write(&store.0);
    let over = std::env::var("FABRICLENS_PROMQL_OVER").unwrap_or_default();
    let over: Vec<i64> = over.split_whitespace().map(|w| w.parse().unwrap()).collect();
    let engine = engine();
    let (ours, theirs) = match over[..] {
        [start, end, step] => {
            (ours(engine.range(&store, &query, start, end, step)), prometheus.range(&query, start, end, step))
        }
        [at] => (ours(engine.instant(&store, &query, at)), prometheus.instant(&query, at)),
        _ => panic!("FABRICLENS_PROMQL_OVER: expected an instant or start, end, step"),
    };
    println!("ours   {ours:#?}\ntheirs {theirs:#?}");
}
