//! The queue on disk: what survives a crash, a full disk, the limits and a restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use fabriclens_model::{Labels, Layout};
use fabriclens_store::io::faulty::{Faults, FaultyFiles};
use fabriclens_store::{Clock, Options, RowGroup, Store, log_record};

use super::queue::{Limits, Queue, QueueError};
use super::reader::{Reader, Window};
use super::{PendingWrite, SampleSender, Sink};
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

/// Reads everything from the cursor on as numbers, and moves the cursor to the end.
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
fn acknowledged_samples_survive_torn_writes() {
    let series = list(&["a", "b", "c"]);
    // A crash at any byte after the acknowledged records.
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
fn restart_repeats_the_window_in_flight() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    (0..3).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    let w = next(&mut Reader::new(queue.clone()), 100).unwrap();
    queue.intend(w.segment, w.until);
    (3..9).for_each(|n| queue.append(&[row(&series, n)]).unwrap());
    drop(queue);
    let (queue, _) = open(&files, dir.path(), LIMITS);
    let mut reader = Reader::new(queue.clone());
    assert_eq!(next(&mut reader, 100).unwrap().points.len(), 3, "exactly the window before the restart");
    queue.advance(w.segment, w.until, w.samples);
    assert_eq!(drain(&queue), numbers(3..9));
}

#[test]
fn failing_disks_acknowledge_and_lose_nothing() {
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
            // Refused samples may have been stored; they are sent again and arrive twice.
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
fn writes_committed_together_share_a_sync() {
    let (data, dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), FaultyFiles::default());
    let (queue, _) = open(&files, dir.path(), LIMITS);
    let series = list(&["a", "b"]);
    for keeps in [true, false] {
        let options = Options { retention: None, background: false, ..Options::default() };
        let store = keeps.then(|| Arc::new(Store::open(data.path(), options).unwrap()));
        let sink = Sink { store, future: 0, queues: vec![queue.clone()], sample_feed: SampleFeed::default() };
        let write = |range: std::ops::Range<usize>| -> Vec<PendingWrite> {
            range.map(|n| sink.write(vec![row(&series, n)], SampleSender::Bound).unwrap()).collect()
        };
        // Begins a segment.
        sink.append(vec![row(&series, 9)]).unwrap();
        // Three writes need one write and one sync.
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
fn full_queues_drop_the_oldest_or_refuse() {
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
    assert_eq!(drain(&queue), numbers(dropped..400_000), "the newest samples are kept without a gap");
    assert!(on_disk() < 256 << 10, "sent segments are removed");

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
fn old_samples_are_dropped_without_traffic() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), list(&["a"]));
    let (queue, _) = open(&files, dir.path(), LIMITS);
    queue.append(&[row(&series, 0)]).unwrap();
    drop(queue);
    std::thread::sleep(Duration::from_millis(20));
    let (queue, telemetry) = open(&files, dir.path(), Limits { age: Some(Duration::from_millis(10)), ..LIMITS });
    let w = next(&mut Reader::new(queue.clone()), 10).unwrap();
    assert!(!queue.holds(w.segment, w.from), "a retrying sender sees that the window was dropped");
    assert_eq!(gauge(&telemetry, "fabriclens_forward_dropped_total"), 1.0);
    let (queue, _) = open(&files, dir.path(), LIMITS);
    queue.append(&[row(&series, 7)]).unwrap();
    assert_eq!(drain(&queue), [7]);
}

#[test]
fn clock_leaps_drop_nothing() {
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
    assert!(!queue.holds(w.segment, w.from), "samples expire once the time really passed");
    drop(store);
    queue.append(&[row(&series, 2)]).unwrap();
    assert_eq!(drain(&queue), [2], "without a store samples do not expire");
}

#[test]
fn flipped_bit_costs_one_record() {
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

/// A store with its own clock (Unix ms), which is in doubt for an hour after a leap.
fn store_with_clock(dir: &Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(now_ms));
    let read = now.clone();
    let clock = Arc::new(move || read.load(Ordering::Relaxed));
    (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
}
