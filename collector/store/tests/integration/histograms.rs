//! Native histograms: whole samples survive flushes, restarts and rollups, and no reader sees their components.

use fabriclens_base::Sender;
use fabriclens_model::names::COMPONENT;
use fabriclens_model::{
    Histogram, HistogramColumns, HistogramParts, Labels, Matcher, Read, ResetHint, Side, Span, Unlimited,
};
use fabriclens_store::{Appended, Options, RowGroup, SeriesLimits, Store};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const HOUR: i64 = 3_600_000;
const BEGIN: i64 = 24_000 * HOUR;

fn open(dir: &Path, now: &Arc<AtomicI64>, change: impl FnOnce(&mut Options)) -> Store {
    let clock = now.clone();
    let mut options = Options {
        background: false,
        clock: Arc::new(move || clock.load(Ordering::Relaxed)),
        clock_jump_hold: Duration::ZERO,
        ..Options::default()
    };
    change(&mut options);
    Store::open(dir, options).unwrap()
}

fn labels(host: &str) -> Labels {
    Labels::new([("__name__", "latency"), ("host", host)])
}

/// Observations in buckets from `first` on.
fn histogram(first: i32, counts: &[f64]) -> Histogram {
    let positive = Side { spans: vec![Span { offset: first, length: counts.len() as u32 }], counts: counts.to_vec() };
    let (count, sum) = (counts.iter().sum(), counts.len() as f64);
    Histogram::new(HistogramParts { schema: 2, count, sum, positive, ..HistogramParts::default() }).unwrap()
}

fn row(columns: &mut HistogramColumns, host: &str, time: i64, histogram: &Histogram) -> RowGroup {
    columns.row(&labels(host), time, histogram).unwrap()
}

fn append(store: &Store, host: &str, time: i64, histogram: &Histogram) -> Appended {
    store.append(&[row(&mut HistogramColumns::default(), host, time, histogram)]).unwrap()
}

fn read(store: &Store) -> Vec<(i64, Histogram)> {
    let found = store.select_histograms(&[Matcher::equal("__name__", "latency")], 0, i64::MAX, &Unlimited).unwrap();
    assert!(found.iter().all(|s| s.labels.get(COMPONENT).is_empty()));
    found.into_iter().flat_map(|s| s.times.into_iter().zip(s.values.into_iter().map(|h| (*h).clone()))).collect()
}

/// Samples whose buckets change from one to the next; the last one ends the series.
fn samples() -> Vec<(i64, Histogram)> {
    let mut all: Vec<_> = (0..200)
        .map(|i| {
            let counts = [1.0 + i as f64, 2.0, 3.0];
            (BEGIN + i * 10_000, histogram((i as i32 * 7) % 90, &counts[..1 + i as usize % 3]))
        })
        .collect();
    all.push((BEGIN + 2_000_000, Histogram::stale()));
    all
}

#[test]
fn samples_survive_flushes_and_restarts() {
    let (dir, now) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(BEGIN + HOUR)));
    let store = open(dir.path(), &now, |_| {});
    let (mut columns, all) = (HistogramColumns::default(), samples());
    for (n, (time, h)) in all.iter().enumerate() {
        let appended = store.append(&[row(&mut columns, "a", *time, h)]).unwrap();
        assert_eq!((appended.accepted, appended.total()), (1, 1), "a sample counts once");
        if n == 60 || n == 120 {
            store.flush().unwrap();
        }
    }
    assert_eq!(read(&store), all);
    drop(store);
    let store = open(dir.path(), &now, |_| {});
    assert_eq!(read(&store), all, "from blocks and the log");
    store.flush().unwrap();
    now.fetch_add(48 * HOUR, Ordering::Relaxed);
    store.maintain().unwrap();
    assert_eq!(read(&store), all, "merged");
}

#[test]
fn a_sample_is_stored_as_a_whole_or_not_at_all() {
    let (dir, now) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(BEGIN + HOUR)));
    let store = open(dir.path(), &now, |_| {});
    let (first, other) = (histogram(0, &[1.0, 2.0]), histogram(40, &[5.0]));
    assert_eq!(append(&store, "a", BEGIN + 1, &first).accepted, 1);
    assert_eq!(append(&store, "a", BEGIN + 1, &first).duplicates, 1);
    assert_eq!(append(&store, "a", BEGIN + 1, &other).conflicts, 1, "it has other buckets");
    assert_eq!(append(&store, "a", BEGIN, &other).accepted, 1, "late");
    assert_eq!(append(&store, "a", BEGIN + 2 * HOUR, &other).too_far_in_future, 1);
    let want = [(BEGIN, other.clone()), (BEGIN + 1, first.clone())];
    assert_eq!(read(&store), want);
    drop(store);
    let store = open(dir.path(), &now, |_| {});
    assert_eq!(read(&store), want, "the conflict is not in the log");
    // Once the first one is in a block, the second one is stored and does not change it.
    store.flush().unwrap();
    append(&store, "a", BEGIN + 1, &first.clone().with_hint(ResetHint::Gauge));
    assert_eq!(read(&store), want);
}

#[test]
fn no_reader_sees_components() {
    let (dir, now) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(BEGIN + HOUR)));
    let store = open(dir.path(), &now, |_| {});
    append(&store, "a", BEGIN, &histogram(0, &[1.0, 2.0]));
    let float = RowGroup { series: [labels("b")].into(), times: vec![BEGIN], values: vec![1.0] };
    store.append(&[float]).unwrap();
    let check = |store: &Store| {
        let all = (0, i64::MAX);
        let component = Matcher::equal(COMPONENT, "count");
        let one = |m: &Matcher| std::slice::from_ref(m).to_vec();
        let latency = one(&Matcher::equal("__name__", "latency"));
        assert_eq!(
            store.select(&latency, all.0, all.1).unwrap().iter().map(|s| &s.labels).collect::<Vec<_>>(),
            [&labels("b")]
        );
        assert!(store.select(&one(&component), all.0, all.1).unwrap().is_empty());
        let none = one(&Matcher::equal(COMPONENT, ""));
        assert_eq!(store.select(&none, all.0, all.1).unwrap().len(), 1, "no series has the label");
        assert_eq!(store.select_histograms(&none, all.0, all.1, &Unlimited).unwrap().len(), 1);
        assert_eq!(store.series(&latency, all.0, all.1, &Unlimited).unwrap(), [labels("a"), labels("b")]);
        assert_eq!(store.label_names(&[], all.0, all.1, &Unlimited).unwrap(), ["__name__", "host"]);
        assert_eq!(store.label_values("host", &[], all.0, all.1, &Unlimited).unwrap(), ["a", "b"]);
        assert!(store.label_values(COMPONENT, &[], all.0, all.1, &Unlimited).unwrap().is_empty());
        assert!(store.series(&one(&component), all.0, all.1, &Unlimited).unwrap().is_empty());
    };
    check(&store);
    let cardinality = store.cardinality(10, &Unlimited).unwrap();
    assert_eq!((cardinality.series, cardinality.by_metric), (2, vec![("latency".to_owned(), 2)]));
    assert_eq!(store.stats().head_series, 2);
    store.flush().unwrap();
    check(&store);
}

#[test]
fn a_histogram_is_one_series_of_the_limits() {
    let (dir, now) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(BEGIN + HOUR)));
    let limits = SeriesLimits { all: 100, of_metric: 2, ..SeriesLimits::default() };
    let store = open(dir.path(), &now, |options| options.series = limits);
    let send = |host: &str, sender| {
        let row = row(&mut HistogramColumns::default(), host, BEGIN, &histogram(0, &[1.0; 200]));
        store.commit(store.write(&[row], sender).unwrap()).unwrap()
    };
    assert_eq!(send("a", Sender::Bound).accepted, 1);
    assert_eq!(send("b", Sender::Unbound("agent")).over_series_limit, 1, "its share is less");
    assert_eq!(send("b", Sender::Bound).accepted, 1);
    assert_eq!(send("c", Sender::Bound).over_series_limit, 1);
    assert_eq!(read(&store).len(), 2);
    assert!(store.refusal().unwrap().contains("ingest.series_per_metric"), "{:?}", store.refusal());
}

#[test]
fn rollups_keep_the_last_histogram_of_a_minute() {
    let (dir, now) = (tempfile::tempdir().unwrap(), Arc::new(AtomicI64::new(BEGIN + 2 * HOUR)));
    let store = open(dir.path(), &now, |options| options.retention = Some(Duration::from_secs(86_400)));
    let (mut columns, all) = (HistogramColumns::default(), samples());
    let rows: Vec<_> = all.iter().map(|(time, h)| row(&mut columns, "a", *time, h)).collect();
    assert_eq!(store.append(&rows).unwrap().accepted, all.len() as u64);
    store.flush().unwrap();
    now.fetch_add(12 * HOUR, Ordering::Relaxed);
    store.maintain().unwrap();
    now.fetch_add(48 * HOUR, Ordering::Relaxed);
    store.maintain().unwrap();
    assert_eq!(store.stats().blocks, 0, "samples are expired");
    let end = |time: i64| (time.div_euclid(60_000) + 1) * 60_000;
    let mut want: Vec<(i64, Histogram)> = Vec::new();
    for (time, h) in all {
        match want.last_mut().filter(|(last, _)| *last == end(time)) {
            Some(last) => last.1 = h,
            None => want.push((end(time), h)),
        }
    }
    assert_eq!(read(&store), want);
    assert_eq!(store.series(&[], 0, i64::MAX, &Unlimited).unwrap(), [labels("a")]);
}
