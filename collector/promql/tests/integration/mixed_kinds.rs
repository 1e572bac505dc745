//! Generated queries over series whose samples are floats, histograms or both: none panics, and a range query has the
//! answers of its steps.

use crate::common::generate::{self, Random};
use fabriclens_model::{
    Histogram, HistogramParts, HistogramSeries, Labels, Memory, MemoryWithHistograms, ResetHint, Series, Side, Span,
    is_stale,
};
use fabriclens_promql::{Engine, Outcome, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

const BASE: i64 = 1_700_000_000_000;
const QUERIES: usize = 1500;

/// A histogram that grows with a number.
fn histogram(r: &mut Random, value: f64) -> Histogram {
    let size = value.abs().min(1e6).floor();
    let counts: Vec<f64> = (0..r.below(5)).map(|i| size + i as f64).collect();
    let count = counts.iter().sum::<f64>();
    let side = Side { spans: vec![Span { offset: r.below(9) as i32 - 4, length: counts.len() as u32 }], counts };
    let custom = r.one_in(6);
    let parts = HistogramParts {
        schema: if custom { -53 } else { r.below(4) as i32 - 1 },
        zero_threshold: if custom { 0.0 } else { [0.0, 0.01, 1.5][r.below(3)] },
        zero_count: if custom { 0.0 } else { size },
        count: count + if custom { 0.0 } else { size },
        sum: value,
        positive: if custom {
            Side { spans: vec![Span { offset: 0, length: side.counts.len() as u32 }], ..side }
        } else {
            side
        },
        custom_bounds: if custom { vec![0.1, 1.0, 2.0 + r.below(2) as f64, 5.0, 9.0] } else { vec![] },
        hint: [ResetHint::Unknown, ResetHint::NotReset, ResetHint::Gauge, ResetHint::Reset][r.below(4)],
        ..HistogramParts::default()
    };
    Histogram::new(parts).unwrap()
}

/// Turns samples of a third of the series into histograms, and of another third some of them.
fn store(r: &mut Random) -> MemoryWithHistograms {
    let mut store = MemoryWithHistograms::default();
    for s in generate::series(r, BASE) {
        let share = r.below(3);
        let mut floats = Series { labels: s.labels.clone(), ..Series::default() };
        let mut histograms = HistogramSeries { labels: s.labels, ..HistogramSeries::default() };
        for (t, v) in s.times.into_iter().zip(s.values) {
            if share == 0 || share == 1 && r.one_in(2) {
                histograms.times.push(t);
                histograms.values.push(Arc::new(if is_stale(v) { Histogram::stale() } else { histogram(r, v) }));
            } else {
                floats.times.push(t);
                floats.values.push(v);
            }
        }
        store.floats.0.extend((!floats.times.is_empty()).then_some(floats));
        store.histograms.extend((!histograms.times.is_empty()).then_some(histograms));
    }
    store
}

/// The samples at a time, as text.
fn at(outcome: &Outcome, time: i64) -> BTreeMap<Labels, String> {
    let mut out = BTreeMap::new();
    let mut put = |labels: &Labels, sample: String| {
        assert!(out.insert(labels.clone(), sample).is_none(), "two samples of {labels} at {time}");
    };
    match &outcome.value {
        Value::Vector(samples) => samples.iter().for_each(|s| put(&s.labels, format!("{:?}", s.value))),
        Value::Matrix(series) => {
            for s in series {
                let found = s.times.iter().position(|t| *t == time);
                found.into_iter().for_each(|i| put(&s.labels, format!("{:?}", s.values[i])));
            }
        }
        Value::Scalar { value, .. } => put(&Labels::default(), format!("{value:?}")),
        Value::String { .. } => {}
    }
    for s in &outcome.histograms {
        let found = s.times.iter().position(|t| *t == time);
        found.into_iter().for_each(|i| put(&s.labels, format!("{:?}", s.values[i])));
    }
    out
}

#[test]
fn ranges_have_the_answers_of_their_steps() {
    let mut r = Random::new(11);
    let store = store(&mut r);
    let engine = Engine::default();
    let (mut compared, mut native) = (0, 0);
    for _ in 0..QUERIES {
        let depth = 1 + r.below(3);
        let query = generate::vector(&mut r, depth);
        // The last refers to the whole query; quantiles of unsorted buckets and the like are in map order.
        if ["start()", "end()"].iter().any(|w| query.contains(w)) {
            continue;
        }
        let start = BASE + (r.below(2_500) * 1000) as i64;
        let step = [15_000, 47_000][r.below(2)];
        let Ok(range) = engine.range(&store, &query, start, start + 3 * step, step) else { continue };
        for time in (0..4).map(|i| start + i * step) {
            let instant = engine.instant(&store, &query, time).unwrap_or_else(|e| panic!("{query} at {time}: {e}"));
            assert_eq!(at(&range, time), at(&instant, time), "{query} at {time}");
            compared += 1;
            native += usize::from(!instant.histograms.is_empty());
        }
    }
    assert!(compared > 4_000 && native > 800, "{compared} {native}");
}

#[test]
fn floats_are_as_in_a_store_without_histograms() {
    let mut r = Random::new(5);
    let floats = Memory(generate::series(&mut r, BASE));
    let mut both = MemoryWithHistograms { floats: floats.clone(), ..MemoryWithHistograms::default() };
    let (labels, times) = (Labels::new([("__name__", "unrelated")]), vec![BASE]);
    both.histograms.push(HistogramSeries { labels, times, values: vec![Arc::new(histogram(&mut r, 3.0))] });
    for _ in 0..300 {
        let query = generate::vector(&mut r, 2);
        let at = BASE + (r.below(2_500) * 1000) as i64;
        let [a, b] = [engine_answer(&floats, &query, at), engine_answer(&both, &query, at)];
        assert_eq!(a, b, "{query}");
    }
}

fn engine_answer(read: &dyn fabriclens_model::Read, query: &str, at: i64) -> String {
    let outcome = Engine::default().range(read, query, at, at + 60_000, 15_000);
    format!("{:?}", outcome.map(|o| (o.value, o.histograms, o.warnings, o.infos)))
}
