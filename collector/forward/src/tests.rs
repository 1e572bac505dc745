//! The queue on disk: what survives a crash, what a full disk and the bounds do, what is sent again after a restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fabriclens_model::{Labels, Layout};
use fabriclens_store::io::faulty::{Faults, FaultyFiles};
use fabriclens_store::{Clock, Options, RowGroup, Store, log_record};

use super::queue::{Limits, Queue, QueueError};
use super::reader::{Reader, Window};
use super::{Sink, Written};
use fabriclens_core::sample_feed::SampleFeed;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;

const LIMITS: Limits = Limits { bytes: 64 << 20, age: None, refuses: false };

fn open(files: &FaultyFiles, dir: &Path, limits: Limits) -> (Arc<Queue>, Telemetry) {
    open_by(files, dir, limits, Arc::new(now_ms))
}

fn open_by(files: &FaultyFiles, dir: &Path, limits: Limits, clock: Clock) -> (Arc<Queue>, Telemetry) {
    let telemetry = Telemetry::new().unwrap();
    let queue = Queue::open(Arc::new(files.clone()), dir, vec![], limits, clock, telemetry.forward("q")).unwrap();
    (Arc::new(queue), telemetry)
}

fn list(names: &[&str]) -> Layout {
    names.iter().map(|n| Labels::new([("__name__", *n)])).collect()
}

/// One row of consecutive numbers.
fn row(series: &Layout, number: usize) -> RowGroup {
    let values = (0..series.len()).map(|i| (number * series.len() + i) as f64).collect();
    RowGroup { series: series.clone(), times: vec![number as i64], values }
}

fn next(reader: &mut Reader, samples: usize) -> Option<Window> {
    reader.window(samples, Duration::ZERO).unwrap()
}

/// Everything from the cursor on, as numbers, with the cursor moved behind it.
fn drain(queue: &Arc<Queue>) -> Vec<usize> {
    let (mut reader, mut all) = (Reader::new(queue.clone()), Vec::new());
    while let Some(w) = next(&mut reader, 100) {
        all.extend(w.points.iter().map(|p| p.value as usize));
        queue.advance(w.segment, w.until, w.samples);
    }
    all.sort_unstable();
    all
}

fn gauge(telemetry: &Telemetry, name: &str) -> f64 {
    telemetry.samples().into_iter().filter(|s| s.0 == name).map(|s| s.2).sum()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<usize> {
    range.collect()
}

#[test]
fn whatever_the_cut_what_was_acknowledged_comes_back_once_and_in_order() {
    let series = list(&["a", "b", "c"]);
    // A crash at any byte of the newest segment, after what was acknowledged.
    for torn in [0, 1, 5, 11, 12, 13, 40] {
        let dir = tempfile::tempdir().unwrap();
        let files = FaultyFiles::default();
        let (queue, _) = open(&files, dir.path(), LIMITS);
        (0..20).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
        let mut reader = Reader::new(queue.clone());
        let first = next(&mut reader, 15).unwrap();
        assert_eq!(first.points.len(), 15);
        queue.advance(first.segment, first.until, first.samples);
        drop((queue, reader));
        let newest = dir.path().join(super::segment::name(1));
        let mut bytes = std::fs::read(&newest).unwrap();
        let record = bytes[bytes.len() - 45..].to_vec();
        bytes.extend_from_slice(&record[..torn]);
        std::fs::write(&newest, &bytes).unwrap();

        let (queue, telemetry) = open(&files, dir.path(), LIMITS);
        assert_eq!(gauge(&telemetry, "fabriclens_forward_pending_samples"), 45.0, "{torn}");
        queue.append(&[row(&series, 20)]).unwrap();
        assert_eq!(drain(&queue), numbers(15..63), "{torn}");
        assert_eq!(gauge(&telemetry, "fabriclens_forward_pending_samples"), 0.0);
    }
}

#[test]
fn after_a_restart_the_first_window_is_the_one_that_was_under_way() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    (0..3).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    let w = next(&mut Reader::new(queue.clone()), 100).unwrap();
    queue.intend(w.segment, w.until);
    (3..9).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    drop(queue);
    let (queue, _) = open(&files, dir.path(), LIMITS);
    let mut reader = Reader::new(queue.clone());
    assert_eq!(next(&mut reader, 100).unwrap().points.len(), 3, "not what came later, and not less");
    queue.advance(w.segment, w.until, w.samples);
    assert_eq!(drain(&queue), numbers(3..9));
}

#[test]
fn a_full_or_failing_disk_acknowledges_nothing_and_loses_nothing() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a", "b"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    let mut kept = Vec::new();
    let fault = |n: usize| match n % 12 {
        3 => Faults { space: Some(20), ..Faults::default() },
        4 => Faults { space: Some(0), ..Faults::default() },
        8 => Faults { sync_fails: true, ..Faults::default() },
        _ => Faults::default(),
    };
    for n in 0..60 {
        files.set(fault(n));
        let done = queue.append(&[row(&series, n)]);
        assert_eq!(done.is_ok(), matches!(n % 12, 0..=2 | 5..=7 | 9..), "{n}: {done:?}");
        assert_eq!(queue.failure().is_some(), done.is_err());
        if done.is_ok() {
            kept.extend([2 * n, 2 * n + 1]);
        }
        if n % 25 == 24 {
            files.set(Faults::default());
            let got = drain(&queue);
            // What was refused may have been kept: it is sent again and arrives twice.
            assert!(kept.iter().all(|k| got.contains(k)), "{got:?} lacks some of {kept:?}");
            kept.clear();
        }
    }
    drop(queue);
    let (queue, _) = open(&FaultyFiles::default(), dir.path(), LIMITS);
    let got = drain(&queue);
    assert!(!kept.is_empty() && kept.iter().all(|k| got.contains(k)), "{got:?} lacks some of {kept:?}");
}

#[test]
fn what_is_committed_together_is_acknowledged_together() {
    let (data, dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), FaultyFiles::default());
    let (queue, _) = open(&files, dir.path(), LIMITS);
    let series = list(&["a", "b"]);
    for keeps in [true, false] {
        let options = Options { retention: None, background: false, ..Options::default() };
        let store = keeps.then(|| Arc::new(Store::open(data.path(), options).unwrap()));
        let sink = Sink { store, future: 0, queues: vec![queue.clone()], tap: SampleFeed::default() };
        let write = |range: std::ops::Range<usize>| -> Vec<Written> {
            range.map(|n| sink.write(vec![row(&series, n)]).unwrap()).collect()
        };
        // Begins a segment.
        sink.append(vec![row(&series, 9)]).unwrap();
        // A write and a sync are all that three need.
        files.set(Faults { dies_after: Some(2), ..Faults::default() });
        let done = sink.commit(write(0..3));
        assert!(done.len() == 3 && done.iter().all(|d| d.as_ref().unwrap().accepted == 2), "{done:?}");
        let done = sink.commit(write(3..5));
        assert!(done.len() == 2 && done.iter().all(Result::is_err), "{done:?}");
        files.set(Faults::default());
        sink.append(vec![row(&series, 5)]).unwrap();
        let got = drain(&queue);
        assert!([numbers(0..6), numbers(10..12)].concat().iter().all(|n| got.contains(n)), "{got:?}");
    }
}

#[test]
fn beyond_its_size_the_oldest_go_and_are_counted_or_new_ones_are_refused() {
    let names: Vec<String> = (0..1000).map(|i| format!("m{i}")).collect();
    let series = list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (dir, files) = (tempfile::tempdir().unwrap(), FaultyFiles::default());
    let limits = Limits { bytes: 1 << 20, ..LIMITS };
    let (queue, telemetry) = open(&files, dir.path(), limits);
    (0..400).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    let on_disk =
        || -> u64 { std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum() };
    assert!(on_disk() < (1 << 20) + (128 << 10), "{}", on_disk());
    let dropped = gauge(&telemetry, "fabriclens_forward_dropped_total") as usize;
    assert!(dropped > 200_000);
    assert_eq!(drain(&queue), numbers(dropped..400_000), "what is left is the newest, without a hole");
    assert!(on_disk() < 256 << 10, "what was sent is removed");

    let limits = Limits { refuses: true, ..limits };
    let (dir, files) = (tempfile::tempdir().unwrap(), FaultyFiles::default());
    let (queue, _) = open(&files, dir.path(), limits);
    let taken = (0..400).take_while(|n| queue.append(&[row(&series, *n)]).is_ok()).count();
    assert!((80..200).contains(&taken), "{taken}");
    assert!(matches!(queue.append(&[row(&series, 0)]), Err(QueueError::Full { .. })));
    assert_eq!(drain(&queue), numbers(0..taken * 1000));
    queue.append(&[row(&series, 0)]).unwrap();
}

#[test]
fn what_waits_too_long_is_dropped_even_when_nothing_comes() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    queue.append(&[row(&series, 0)]).unwrap();
    drop(queue);
    std::thread::sleep(Duration::from_millis(20));
    let (queue, telemetry) = open(&files, dir.path(), Limits { age: Some(Duration::from_millis(10)), ..LIMITS });
    let w = next(&mut Reader::new(queue.clone()), 10).unwrap();
    assert!(!queue.holds(w.segment, w.from), "a sender that tries again learns that it is gone");
    assert_eq!(gauge(&telemetry, "fabriclens_forward_dropped_total"), 1.0);
    let (queue, _) = open(&files, dir.path(), LIMITS);
    queue.append(&[row(&series, 7)]).unwrap();
    assert_eq!(drain(&queue), [7]);
}

#[test]
fn a_clock_that_leaps_ahead_drops_nothing_that_waits() {
    let (data, dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), FaultyFiles::default());
    let (store, now) = store_with_clock(data.path(), now_ms());
    let limits = Limits { age: Some(Duration::from_secs(3600)), ..LIMITS };
    let (queue, telemetry) = open_by(&files, dir.path(), limits, store.retention_clock());
    let series = list(&["a"]);
    queue.append(&[row(&series, 0)]).unwrap();
    now.fetch_add(365 * 86_400_000, Ordering::Relaxed);
    queue.append(&[row(&series, 1)]).unwrap();
    let w = next(&mut Reader::new(queue.clone()), 10).unwrap();
    assert!(queue.holds(w.segment, w.from));
    assert_eq!(gauge(&telemetry, "fabriclens_forward_dropped_total"), 0.0);
    now.fetch_sub(365 * 86_400_000, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(queue.holds(w.segment, w.from));
        now.fetch_add(1_800_000, Ordering::Relaxed);
    }
    assert!(!queue.holds(w.segment, w.from), "in its own time it goes");
    drop(store);
    queue.append(&[row(&series, 2)]).unwrap();
    assert_eq!(drain(&queue), [2], "without a store nothing is old");
}

#[test]
fn a_flipped_bit_costs_one_record() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a", "b"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    (0..10).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    drop(queue);
    let path = dir.path().join(super::segment::name(1));
    let mut bytes = std::fs::read(&path).unwrap();
    let marks: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&log_record::MARK)).collect();
    let [from, to] = [marks[6], marks[7]];
    bytes[from + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (queue, telemetry) = open(&files, dir.path(), LIMITS);
    let w = next(&mut Reader::new(queue.clone()), 1000).unwrap();
    assert_eq!((w.points.len(), w.damaged), (18, (to - from) as u64));
    queue.append(&[row(&series, 10)]).unwrap();
    queue.advance(w.segment, w.until, w.samples);
    assert_eq!(drain(&queue), [20, 21]);
    assert_eq!(gauge(&telemetry, "fabriclens_forward_pending_samples"), 0.0);
}

/// A store with a clock (Unix ms) that is in doubt after a leap for an hour, as usual.
fn store_with_clock(dir: &Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(now_ms));
    let read = now.clone();
    let clock = Arc::new(move || read.load(Ordering::Relaxed));
    (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
}
