//! Compares the store with a reference model: a map from series and time to the first value sent.

use fabriclens_model::{Hint, Labels, Layout, MatchOp, Matcher, Read, Rollup, Unlimited, absent, is_absent, stale};
use fabriclens_store::{Appended, Options, RowGroup, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Model = BTreeMap<Labels, BTreeMap<i64, u64>>;

#[derive(Debug, Clone)]
enum Step {
    /// Layout, times and seed of the values.
    Append(Vec<(usize, Vec<i64>, u64)>),
    Reopen,
    Flush,
    Maintain,
}

fn series(i: usize) -> Labels {
    Labels::new([("__name__".to_owned(), format!("m{}_total", i % 5)), ("host".to_owned(), format!("h{}", i / 5))])
}

/// Layouts overlap: series 3 to 7 are in several, one layout is a permutation, one names a series twice.
fn layouts() -> Vec<Layout> {
    let of = |ids: &[usize]| -> Layout { ids.iter().map(|i| series(*i)).collect() };
    vec![
        of(&[0, 1, 2]),
        of(&[3, 4, 5, 6, 7]),
        of(&[7, 6, 5]),
        of(&[4]),
        of(&[8, 9, 8]),
        of(&(0..12).collect::<Vec<_>>()),
    ]
}

fn value(seed: u64) -> f64 {
    match seed % 11 {
        0 => absent(),
        1 => stale(),
        2 => f64::NAN,
        3 => -0.0,
        4 => (seed % 1000) as f64 / 8.0,
        5 => f64::from_bits(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        _ => (seed / 7 % 3) as f64,
    }
}

fn group(layouts: &[Layout], (layout, times, seed): &(usize, Vec<i64>, u64)) -> RowGroup {
    let series = layouts[*layout].clone();
    let mut x = *seed;
    let values = (0..series.len() * times.len())
        .map(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            value(x >> 33)
        })
        .collect();
    RowGroup { series, times: times.clone(), values }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = prop_oneof![6 => 0i64..60, 1 => 0i64..40_000, 1 => -1_000_000i64..1_000_000_000_000];
    let part = (0usize..6, prop::collection::vec(time, 1..6), any::<u64>());
    let step = prop_oneof![
        8 => prop::collection::vec(part, 1..4).prop_map(Step::Append),
        1 => Just(Step::Reopen),
        1 => Just(Step::Flush),
        1 => Just(Step::Maintain),
    ];
    prop::collection::vec(step, 1..25)
}

fn open(dir: &Path) -> Store {
    let options = Options {
        retention: None,
        chunk_rows: 7,
        block_span: Duration::from_secs(10),
        background: false,
        clock: Arc::new(|| 1_000_000_000_000),
        ..Options::default()
    };
    Store::open(dir, options).unwrap()
}

fn check(store: &Store, model: &Model) {
    for (start, end) in [(i64::MIN, i64::MAX), (5, 40), (-10, 9_999)] {
        for pattern in ["m.*", "m1_total|m2.*"] {
            let m = Matcher::new("__name__", MatchOp::Regex, pattern).unwrap();
            let got = store.select(std::slice::from_ref(&m), start, end).unwrap();
            let got: Vec<(Labels, Vec<(i64, u64)>)> = got
                .into_iter()
                .map(|s| {
                    let bits = s.values.iter().map(|v| v.to_bits());
                    (s.labels, s.times.iter().copied().zip(bits).collect())
                })
                .collect();
            let want: Vec<(Labels, Vec<(i64, u64)>)> = model
                .iter()
                .filter(|(l, _)| m.matches(l))
                .map(|(l, s)| (l.clone(), s.range(start..=end).map(|(t, v)| (*t, *v)).collect::<Vec<_>>()))
                .filter(|(_, s)| !s.is_empty())
                .collect();
            assert_eq!(got, want, "{pattern} in {start}..={end}");
            // A read of a single instant needs only the newest sample.
            let hint = Hint { rollup: Some(Rollup::Last), ..Hint::default() };
            let newest = store.select_for(std::slice::from_ref(&m), start, end, hint, &Unlimited).unwrap().series;
            let newest: Vec<_> = newest
                .into_iter()
                .map(|s| (s.labels, s.times.to_vec(), s.values[0].to_bits(), s.values.len()))
                .collect();
            let last = |(l, s): (Labels, Vec<(i64, u64)>)| s.last().map(|(t, v)| (l, vec![*t], *v, 1));
            assert_eq!(newest, want.into_iter().filter_map(last).collect::<Vec<_>>(), "{pattern} up to {end}");
        }
    }
}

fn run(steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let layouts = layouts();
    let mut model = Model::new();
    let mut store = open(dir.path());
    for step in steps {
        match step {
            Step::Append(parts) => {
                let groups: Vec<RowGroup> = parts.iter().map(|p| group(&layouts, p)).collect();
                let got: Appended = store.append(&groups).unwrap();
                let mut sent = 0;
                for g in &groups {
                    let n = g.times.len();
                    for (c, labels) in g.series.iter().enumerate() {
                        for (r, t) in g.times.iter().enumerate() {
                            let v = g.values[c * n + r];
                            if !is_absent(v) {
                                sent += 1;
                                model.entry(labels.clone()).or_default().entry(*t).or_insert(v.to_bits());
                            }
                        }
                    }
                }
                assert_eq!(got.total(), sent, "every sample is counted once");
            }
            Step::Reopen => {
                drop(store);
                store = open(dir.path());
            }
            Step::Flush => store.flush().unwrap(),
            Step::Maintain => store.maintain().unwrap(),
        }
        check(&store, &model);
    }
    assert!(store.stats().damage.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_map(steps in steps()) {
        run(&steps);
    }
}
