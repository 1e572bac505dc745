//! Compares rollups with their samples.

use fabriclens_model::{Hint, Labels, Matcher, Read, Rollup, Selected, Series, Unlimited, is_stale, stale};
use fabriclens_store::{Options, RowGroup, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const MINUTE: i64 = 60_000;
/// Time of the first sample.
const BEGIN: i64 = 1_000 * DAY;

/// A store that answers from rollups wherever allowed, and its clock.
fn open(dir: &Path, samples: Duration) -> (Store, Arc<AtomicI64>, Options) {
    let now = Arc::new(AtomicI64::new(BEGIN + 2 * DAY));
    let clock = now.clone();
    let options = Options {
        background: false,
        clock: Arc::new(move || clock.load(Ordering::Relaxed)),
        retention: Some(samples),
        exact_samples: 0,
        clock_jump_hold: Duration::ZERO,
        ..Options::default()
    };
    (Store::open(dir, options.clone()).unwrap(), now, options)
}

/// Kinds of series; each has one sample every ten seconds.
const KINDS: [&str; 5] = ["gauge", "counter", "steady", "odd", "brief"];

fn value(kind: &str, i: i64) -> f64 {
    let noise = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 40) as f64 / 1e3;
    match kind {
        "gauge" => noise,
        // Reset every 1,000 samples, in the middle of a minute.
        "counter" => ((i % 1000) * 7 + (noise.abs() % 5.0) as i64) as f64,
        "steady" => 0.1,
        "odd" if i % 50 == 7 => f64::NAN,
        "odd" => noise + 0.5,
        // Present intermittently, with staleness markers in between.
        _ if i / 40 % 3 == 1 => fabriclens_model::absent(),
        _ if i / 40 % 3 == 2 && i % 40 == 0 => stale(),
        _ => noise,
    }
}

fn group(from: i64, to: i64) -> RowGroup {
    let series = KINDS.iter().map(|kind| Labels::new([("__name__", "m"), ("kind", kind), ("A", "upper")])).collect();
    let rows: Vec<i64> = (from / 10_000..to / 10_000).collect();
    let values = KINDS.iter().flat_map(|kind| rows.iter().map(|i| value(kind, *i))).collect();
    RowGroup { series, times: rows.iter().map(|i| i * 10_000).collect(), values }
}

/// Two days in blocks of an hour, merged and rolled up where the window is over.
fn fill(store: &Store, from: i64, to: i64) {
    let mut at = from;
    while at < to {
        store.append(&[group(at, at + HOUR)]).unwrap();
        store.flush().unwrap();
        at += HOUR;
    }
    store.maintain().unwrap();
    store.maintain().unwrap();
}

fn ask(store: &Store, start: i64, end: i64, rollup: Option<Rollup>) -> Selected {
    let hint = Hint { step_ms: 5 * MINUTE, range_ms: 5 * MINUTE, rollup };
    store.select_for(&[Matcher::equal("__name__", "m")], start, end, hint, &Unlimited).unwrap()
}

fn series(got: &Selected) -> Vec<Series> {
    got.series.iter().cloned().map(Into::into).collect()
}

/// Bit-exact form, including NaN and staleness markers.
fn bits(series: &[Series]) -> Vec<(Labels, Vec<i64>, Vec<u64>)> {
    let values = |s: &Series| s.values.iter().map(|v| v.to_bits()).collect();
    series.iter().map(|s| (s.labels.clone(), s.times.clone(), values(s))).collect()
}

#[track_caller]
fn exact(got: &Selected, samples: &[Series]) {
    assert_eq!(got.resolution_ms, None);
    assert!(bits(&series(got)) == bits(samples), "not the samples");
}

#[track_caller]
fn same(got: &Selected, before: &Selected) {
    assert_eq!(got.resolution_ms, before.resolution_ms);
    assert!(bits(&series(got)) == bits(&series(before)), "not as before");
}

fn of(series: &[Series], kind: &str) -> Series {
    series.iter().find(|s| s.labels.get("kind") == kind).unwrap().clone()
}

/// Samples of the minute that ends at a stamp.
fn minute(series: &Series, stamp: i64) -> Vec<f64> {
    let inside = series.times.iter().zip(&series.values).filter(|(t, _)| **t >= stamp - MINUTE && **t < stamp);
    inside.map(|(_, v)| *v).collect()
}

#[test]
fn rollups_aggregate_each_minute() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ..) = open(dir.path(), Duration::from_secs(30 * 86_400));
    fill(&store, BEGIN, BEGIN + 2 * DAY);
    let end = BEGIN + DAY;
    let samples = store.select(&[Matcher::equal("__name__", "m")], BEGIN, end).unwrap();
    type Aggregate = fn(&[f64]) -> f64;
    let aggregates: [(Rollup, Aggregate); 4] = [
        (Rollup::Max, |v| v.iter().copied().fold(f64::NAN, f64::max)),
        (Rollup::Min, |v| v.iter().copied().fold(f64::NAN, f64::min)),
        (Rollup::Mean, |v| v.iter().sum::<f64>() / v.len() as f64),
        (Rollup::Last, |v| v[v.len() - 1]),
    ];
    for (rollup, expected) in aggregates {
        let got = ask(&store, BEGIN, end, Some(rollup));
        assert_eq!(got.resolution_ms, Some(MINUTE));
        for kind in KINDS {
            let (samples, got) = (of(&samples, kind), of(&series(&got), kind));
            assert_eq!(got.labels, samples.labels);
            assert!(got.times.len() > 400 && got.times.len() <= 1440, "{kind}: {}", got.times.len());
            for (stamp, value) in got.times.iter().zip(&got.values) {
                let all = minute(&samples, *stamp);
                let present: Vec<f64> = all.iter().copied().filter(|v| !is_stale(*v)).collect();
                let want = match rollup {
                    Rollup::Last => expected(&all),
                    _ if present.is_empty() => stale(),
                    _ => expected(&present),
                };
                let same = value.to_bits() == want.to_bits() || (value - want).abs() <= 1e-12 * want.abs();
                assert!(same || value.is_nan() && want.is_nan(), "{kind} {rollup:?} {stamp}: {value}, not {want}");
            }
            let minutes: std::collections::BTreeSet<i64> = samples.times.iter().map(|t| t / MINUTE).collect();
            let stamps: std::collections::BTreeSet<i64> = got.times.iter().map(|t| t / MINUTE - 1).collect();
            assert!(stamps.is_subset(&minutes) && minutes.len() - stamps.len() <= 1, "{kind} {rollup:?}");
        }
    }
}

#[test]
fn increase_includes_resets_within_a_minute() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ..) = open(dir.path(), Duration::from_secs(30 * 86_400));
    fill(&store, BEGIN, BEGIN + 2 * DAY);
    let samples = store.select(&[Matcher::equal("__name__", "m")], BEGIN, BEGIN + 2 * DAY).unwrap();
    let samples = of(&samples, "counter");
    let rises = |from: i64, to: i64| -> f64 {
        let all = samples.times.windows(2).zip(samples.values.windows(2)).filter(|(t, _)| t[1] > from && t[1] <= to);
        all.map(|(_, v)| if v[1] < v[0] { v[1] } else { v[1] - v[0] }).sum()
    };
    let got = ask(&store, BEGIN, BEGIN + 2 * DAY, Some(Rollup::Increase));
    let got = of(&series(&got), "counter");
    // The last hours are not over and answered from samples.
    let rolled = got.times.iter().take_while(|t| *t % MINUTE == 0).count().min(1300);
    let (first, last) = (got.times[0], got.times[rolled]);
    let increase: f64 = got.values[rolled] - got.values[0];
    // The last sample before a stamp is ten seconds before it.
    let want = rises(first - 10_000, last - 10_000);
    assert!((increase - want).abs() < 1e-6 * want, "{increase}, not {want}");
    let plain: f64 = ask(&store, BEGIN, BEGIN + 2 * DAY, Some(Rollup::Last)).series.iter().map(|s| s.values[0]).sum();
    assert!(plain.is_finite() && want > 10_000.0);
    // The counter continues into the samples without a step.
    let at_end = got.times.iter().position(|t| *t >= BEGIN + 2 * DAY - 3 * HOUR).unwrap();
    for pair in got.values[..at_end].windows(2) {
        assert!(pair[1] >= pair[0], "{pair:?} of a counter that is never reset");
    }
    assert!(got.values[at_end] < 8_000.0, "as the samples: {}", got.values[at_end]);
}

#[test]
fn small_and_fine_queries_read_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, options) = open(dir.path(), Duration::from_secs(30 * 86_400));
    fill(&store, BEGIN, BEGIN + DAY);
    let all = store.select(&[Matcher::equal("__name__", "m")], BEGIN, BEGIN + DAY).unwrap();
    exact(&ask(&store, BEGIN, BEGIN + DAY, None), &all);
    let fine = Hint { step_ms: MINUTE, range_ms: HOUR, rollup: Some(Rollup::Max) };
    let fine = store.select_for(&[Matcher::equal("__name__", "m")], BEGIN, BEGIN + DAY, fine, &Unlimited).unwrap();
    assert_eq!(fine.resolution_ms, None);
    drop(store);
    let store = Store::open(dir.path(), Options { exact_samples: 1_000_000, ..options }).unwrap();
    exact(&ask(&store, BEGIN, BEGIN + DAY, Some(Rollup::Max)), &all);
}

#[test]
fn late_samples_are_rolled_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let (store, now, options) = open(dir.path(), Duration::from_secs(30 * 86_400));
    fill(&store, BEGIN, BEGIN + DAY);
    let late = |from: i64, value: f64| RowGroup {
        series: [Labels::new([("__name__", "m"), ("kind", "late")])].into(),
        times: (0..360).map(|i| from + i * 10_000).collect(),
        values: vec![value; 360],
    };
    let highest = |store: &Store| {
        let got = ask(store, BEGIN, BEGIN + DAY, Some(Rollup::Max));
        let late = got.series.iter().find(|s| s.labels.get("kind") == "late");
        late.map(|s| (s.times.len(), s.values.iter().copied().fold(f64::NAN, f64::max)))
    };
    assert_eq!(highest(&store), None);
    store.append(&[late(BEGIN + 5 * HOUR, 3.0)]).unwrap();
    assert_eq!(highest(&store), Some((360, 3.0)), "before it is in a block");
    store.flush().unwrap();
    store.maintain().unwrap();
    store.maintain().unwrap();
    assert_eq!(highest(&store), Some((60, 3.0)));
    drop(store);
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let before = (store.stats().rollups, ask(&store, BEGIN, BEGIN + DAY, Some(Rollup::Max)));
    store.maintain().unwrap();
    assert_eq!(store.stats().rollups, before.0);
    same(&ask(&store, BEGIN, BEGIN + DAY, Some(Rollup::Max)), &before.1);
    // Half of the same hour again, so that the newer rollup of a minute must win; weeks later they are merged.
    store.append(&[late(BEGIN + 5 * HOUR + 1, 4.0)]).unwrap();
    for _ in 0..3 {
        store.flush().unwrap();
        store.maintain().unwrap();
        assert_eq!(highest(&store), Some((60, 4.0)));
        now.fetch_add(7 * DAY, Ordering::Relaxed);
    }
}

#[test]
fn rollups_outlive_samples_and_are_in_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let (store, now, options) = open(dir.path(), Duration::from_secs(3 * 86_400));
    fill(&store, BEGIN, BEGIN + DAY);
    let rolled = ask(&store, BEGIN, BEGIN + DAY, Some(Rollup::Mean));
    let copy = dir.path().with_extension("copy");
    store.snapshot(&copy).unwrap();
    now.fetch_add(20 * DAY, Ordering::Relaxed);
    store.append(&[group(BEGIN + 21 * DAY, BEGIN + 21 * DAY + HOUR)]).unwrap();
    store.maintain().unwrap();
    assert_eq!(store.stats().blocks, 0, "the samples are gone");
    for hint in [MINUTE, 5 * MINUTE] {
        let hint = Hint { step_ms: hint, range_ms: 5 * MINUTE, rollup: Some(Rollup::Mean) };
        let got = store.select_for(&[Matcher::equal("__name__", "m")], BEGIN, BEGIN + DAY, hint, &Unlimited).unwrap();
        same(&got, &rolled);
    }
    let names = store.series(&[Matcher::equal("kind", "gauge")], BEGIN, BEGIN + DAY, &Unlimited).unwrap();
    assert_eq!(names, [of(&series(&rolled), "gauge").labels.clone()], "as the samples were called");
    assert!(store.label_names(&[], BEGIN, BEGIN + DAY, &Unlimited).unwrap().iter().all(|n| !n.contains(' ')));
    assert!(ask(&store, BEGIN + 21 * DAY, BEGIN + 22 * DAY, Some(Rollup::Mean)).resolution_ms.is_none());
    now.fetch_add(400 * DAY, Ordering::Relaxed);
    store.maintain().unwrap();
    assert_eq!(store.stats().rollups, 0, "they go in the end");

    now.store(BEGIN + 2 * DAY, Ordering::Relaxed);
    let copied = Store::open(&copy, options).unwrap();
    let before = copied.stats().rollups;
    same(&ask(&copied, BEGIN, BEGIN + DAY, Some(Rollup::Mean)), &rolled);
    copied.maintain().unwrap();
    assert_eq!(copied.stats().rollups, before, "nothing is rolled up again");
    drop(copied);
    std::fs::remove_dir_all(copy).unwrap();
}

#[test]
fn damaged_rollups_fall_back_to_samples() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, options) = open(dir.path(), Duration::from_secs(30 * 86_400));
    fill(&store, BEGIN, BEGIN + DAY);
    let all = store.select(&[Matcher::equal("__name__", "m")], BEGIN, BEGIN + DAY).unwrap();
    drop(store);
    for file in std::fs::read_dir(dir.path().join("rollups")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let store = Store::open(dir.path(), options).unwrap();
    exact(&ask(&store, BEGIN, BEGIN + DAY, Some(Rollup::Max)), &all);
    assert!(!store.stats().damage.is_empty());
}
