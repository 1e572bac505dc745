//! Disk failures under the store: full, fsync errors, everything at once. Acknowledged samples stay; others are
//! refused with a helpful message; when the disk works again so does the store.

use fabriclens_base::Sender;
use fabriclens_model::{Hint, Labels, Layout, Matcher, Read, Rollup, Unlimited};
use fabriclens_store::io::faulty::{Faults, FaultyFiles};
use fabriclens_store::{AppendError, OpenError, Options, RowGroup, SeriesLimits, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn options() -> Options {
    Options {
        retention: None,
        background: false,
        head_bytes: 4_000,
        chunk_rows: 5,
        exact_samples: 0,
        clock: Arc::new(|| 10_000_000),
        ..Options::default()
    }
}

fn open(dir: &Path, files: &FaultyFiles) -> Store {
    Store::open_with(dir, options(), Arc::new(files.clone())).unwrap()
}

fn columns() -> Layout {
    (0..4).map(|c| Labels::new([("__name__", "m"), ("c", &c.to_string())])).collect()
}

fn row(series: &Layout, t: i64) -> RowGroup {
    RowGroup { series: series.clone(), times: vec![t], values: (0..4).map(|c| (t * 10 + c) as f64).collect() }
}

fn times(store: &Store) -> Vec<i64> {
    let all = store.select(&[Matcher::equal("__name__", "m")], i64::MIN, i64::MAX).unwrap();
    assert!(all.iter().all(|s| s.times == all[0].times));
    for (c, s) in all.iter().enumerate() {
        assert!(s.times.iter().zip(&s.values).all(|(t, v)| *v == (t * 10 + c as i64) as f64));
    }
    all.first().map_or_else(Vec::new, |s| s.times.clone())
}

#[test]
fn full_disk_refuses_appends_and_recovers() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), columns());
    let store = open(dir.path(), &files);
    store.append(&[row(&series, 1)]).unwrap();
    files.set(Faults { space: Some(20), ..Faults::default() });
    for t in 2..5 {
        let e = store.append(&[row(&series, t)]).unwrap_err();
        assert!(e.to_string().contains("No space left") && e.to_string().contains("nothing is acknowledged"), "{e}");
        assert!(times(&store).contains(&1), "reads go on");
    }
    assert!(store.stats().log_failure.is_some());
    files.set(Faults::default());
    // Samples sent before and kept in memory count as duplicates; they are acknowledged only now that they are
    // durable.
    let again = store.append(&[row(&series, 2), row(&series, 3)]).unwrap();
    assert_eq!(again.accepted + again.duplicates, 8);
    assert!(store.stats().log_failure.is_none());
    drop(store);
    let store = open(dir.path(), &files);
    assert_eq!(times(&store), [1, 2, 3]);
    assert_eq!(store.stats().damage, []);
}

#[test]
fn one_sync_covers_all_prior_writes() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), columns());
    let store = open(dir.path(), &files);
    store.append(&[row(&series, 1)]).unwrap();
    // One write and one sync, then the disk fails.
    files.set(Faults { dies_after: Some(2), ..Faults::default() });
    let written: Vec<_> = (2..5).map(|t| store.write(&[row(&series, t)], Sender::Bound).unwrap()).collect();
    assert_eq!(times(&store), [1, 2, 3, 4], "can be read already");
    for w in written {
        assert_eq!(store.commit(w).unwrap().accepted, 4);
    }
    let lost = store.write(&[row(&series, 5)], Sender::Bound).unwrap();
    store.commit(lost).unwrap_err();
    assert_eq!(store.stats().appended.accepted, 16, "samples that are not durable do not count");
    drop(store);
    files.set(Faults::default());
    assert_eq!(times(&open(dir.path(), &files)), [1, 2, 3, 4]);
}

#[test]
fn failed_fsync_needs_a_new_write() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), columns());
    let store = open(dir.path(), &files);
    store.append(&[row(&series, 1)]).unwrap();
    files.set(Faults { sync_fails: true, ..Faults::default() });
    let e = store.append(&[row(&series, 2)]).unwrap_err();
    assert!(matches!(e, AppendError::Log { .. }), "{e}");
    files.set(Faults::default());
    let again = store.append(&[row(&series, 2)]).unwrap();
    assert_eq!((again.accepted, again.duplicates), (0, 4));
    store.append(&[row(&series, 3)]).unwrap();
    // Neither acknowledged nor sent again, but visible to reads: it goes into the next segment too.
    files.set(Faults { sync_fails: true, ..Faults::default() });
    store.append(&[row(&series, 4)]).unwrap_err();
    files.set(Faults::default());
    assert_eq!(times(&store), [1, 2, 3, 4]);
    store.append(&[row(&series, 5)]).unwrap();
    // No clean shutdown: only the files count.
    std::mem::forget(store);
    let copy = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), copy.path());
    assert_eq!(times(&open(copy.path(), &files)), [1, 2, 3, 4, 5]);
}

#[test]
fn full_disk_during_flush_bounds_memory() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), columns());
    let store = open(dir.path(), &files);
    let mut acked = Vec::new();
    for t in 0..40 {
        store.append(&[row(&series, t)]).unwrap();
        acked.push(t);
    }
    files.set(Faults { space: Some(60), ..Faults::default() });
    let e = store.flush().unwrap_err();
    assert!(e.to_string().contains("No space left"), "{e}");
    assert!(store.maintain().is_err());
    assert!(store.stats().maintenance_failure.is_some());
    assert_eq!(times(&store), acked);
    files.set(Faults::default());
    store.maintain().unwrap();
    store.append(&[row(&series, 40)]).unwrap();
    store.flush().unwrap();
    acked.push(40);
    assert_eq!(times(&store), acked);
    assert!(store.stats().blocks > 0 && store.stats().head_samples == 0);
    drop(store);
    assert_eq!(times(&open(dir.path(), &files)), acked);
}

/// The disk fails after any number of operations: everything acknowledged before is there afterwards.
#[test]
fn disk_loss_at_any_operation_keeps_acknowledged() {
    let series = columns();
    let mut reached_end = false;
    for n in 0.. {
        let (dir, files) = (tempfile::tempdir().unwrap(), FaultyFiles::default());
        files.set(Faults { dies_after: Some(n), ..Faults::default() });
        let mut acked = Vec::new();
        let opened = Store::open_with(dir.path(), options(), Arc::new(files.clone()));
        if let Ok(store) = opened {
            let mut well = true;
            for t in 0..12 {
                match store.append(&[row(&series, t)]) {
                    Ok(_) => acked.push(t),
                    Err(_) => well = false,
                }
                if t % 4 == 3 {
                    well &= store.flush().is_ok() && store.maintain().is_ok();
                }
                assert!(acked.iter().all(|t| times(&store).contains(t)));
            }
            reached_end = well;
        }
        files.set(Faults::default());
        let store = open(dir.path(), &files);
        let found = times(&store);
        assert!(acked.iter().all(|t| found.contains(t)), "after {n}: {found:?} of {acked:?}");
        assert!(found.iter().all(|t| (0..12).contains(t)));
        // Wherever it failed, the rollups finally equal the samples.
        store.flush().unwrap();
        store.maintain().unwrap();
        let hint = Hint { step_ms: 300_000, range_ms: 0, rollup: Some(Rollup::Last) };
        let rolled = store.select_for(&[Matcher::equal("c", "0")], 0, 60_000, hint, &Unlimited).unwrap();
        let last: Vec<f64> = rolled.series.iter().flat_map(|s| s.values.clone()).collect();
        let want: Vec<f64> = found.last().map(|t| (t * 10) as f64).into_iter().collect();
        assert_eq!(last, want, "after {n}: {found:?}");
        if reached_end {
            assert!(n > 50, "the test must reach flushes and merges: {n}");
            return;
        }
    }
}

#[test]
fn read_error_fails_the_read() {
    let (dir, files, series) = (tempfile::tempdir().unwrap(), FaultyFiles::default(), columns());
    let store = open(dir.path(), &files);
    store.append(&[row(&series, 1)]).unwrap();
    store.flush().unwrap();
    files.set(Faults { read_fails: true, ..Faults::default() });
    let e = store.select(&[Matcher::equal("__name__", "m")], 0, 10).unwrap_err();
    assert!(e.to_string().contains("cannot read"), "{e}");
    files.set(Faults::default());
    assert_eq!(times(&store), [1]);
}

#[test]
fn open_errors_name_cause_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let said = |e: Result<Store, OpenError>| e.err().unwrap().to_string();

    let store = Store::open(dir.path(), options()).unwrap();
    let e = said(Store::open(dir.path(), options()));
    assert!(e.contains(&format!("process {}", std::process::id())) && e.contains("stop that process"), "{e}");
    drop(store);
    drop(Store::open(dir.path(), options()).unwrap());

    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.tex"), "years of work").unwrap();
    let e = said(Store::open(foreign.path(), options()));
    assert!(e.contains("holds no store") && e.contains("choose"), "{e}");
    assert_eq!(std::fs::read_dir(foreign.path()).unwrap().count(), 1, "nothing was added");

    let file = foreign.path().join("thesis.tex");
    assert!(Store::open(&file, options()).is_err());

    std::fs::write(dir.path().join("FABRICLENS"), "fabriclens store\nversion 99\n").unwrap();
    let e = said(Store::open(dir.path(), options()));
    assert!(e.contains("version 99") && e.contains("newer release"), "{e}");

    let (fixed, files) = (tempfile::tempdir().unwrap(), FaultyFiles::default());
    drop(Store::open(fixed.path(), options()).unwrap());
    files.set(Faults { read_only: true, ..Faults::default() });
    let e = said(Store::open_with(fixed.path(), options(), Arc::new(files)));
    assert!(e.contains("cannot be written") && e.contains("mount it read-write"), "{e}");

    let (full, files) = (tempfile::tempdir().unwrap(), FaultyFiles::default());
    files.set(Faults { space: Some(0), ..Faults::default() });
    let e = said(Store::open_with(full.path(), options(), Arc::new(files)));
    assert!(e.contains("no space left") && e.contains("free some"), "{e}");
}

#[test]
fn samples_out_of_bounds_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let series = columns();
    let options = Options {
        retention: Some(Duration::from_secs(1_000)),
        out_of_order: Some(Duration::from_secs(100)),
        series: SeriesLimits { all: 4, ..SeriesLimits::default() },
        ..options()
    };
    let store = Store::open(dir.path(), options).unwrap();
    let now = 10_000_000;
    let mut g = row(&series, now - 1_000_001);
    g.times = vec![now - 1_000_001, now - 1_000, now + 600_001, now - 1_000, now + 600_000];
    g.values = (0..20).map(f64::from).collect();
    let got = store.append(&[g]).unwrap();
    assert_eq!((got.too_old, got.too_far_in_future, got.accepted, got.conflicts), (4, 4, 8, 4));
    let mut again = row(&series, now + 600_000);
    again.values = vec![4.0, 9.0, 14.0, 99.0];
    let got = store.append(&[again, row(&series, now + 400_000)]).unwrap();
    assert_eq!((got.duplicates, got.conflicts, got.too_old), (3, 1, 4), "the window counts from the newest sample");
    let other: Layout = Layout::new([Labels::new([("__name__", "new")])]);
    let got = store.append(&[RowGroup { series: other, times: vec![now + 600_000], values: vec![1.0] }]).unwrap();
    assert_eq!(got.over_series_limit, 1);
    assert_eq!(store.stats().appended.total(), 20 + 8 + 1);
    let bad = RowGroup { series, times: vec![1], values: vec![] };
    assert!(matches!(store.append(&[bad]), Err(AppendError::Shape { group: 0, values: 0, columns: 4, rows: 1 })));
}

#[test]
fn series_limit_refuses_only_new_series() {
    let dir = tempfile::tempdir().unwrap();
    let series =
        SeriesLimits { all: 9, of_metric: 3, tenant_label: "tenant".into(), of_tenant: 5, ..SeriesLimits::default() };
    let store = Store::open(dir.path(), Options { series, ..options() }).unwrap();
    let labels = |metric: &str, pod: usize, tenant: &str| {
        Labels::new([("__name__", metric), ("pod", &pod.to_string()), ("tenant", tenant)])
    };
    let append = |columns: Vec<Labels>, time: i64| {
        let values = vec![time as f64; columns.len()];
        store.append(&[RowGroup { series: columns.into(), times: vec![time], values }]).unwrap()
    };
    let of = |metric: &str, tenant: &str, pods: std::ops::Range<usize>| -> Vec<Labels> {
        pods.map(|pod| labels(metric, pod, tenant)).collect()
    };
    let first = [of("up", "a", 0..1), of("churn", "a", 0..5), of("down", "a", 0..1)].concat();
    for time in [1, 2] {
        let got = append(first.clone(), time);
        assert_eq!((got.accepted, got.over_series_limit), (5, 2), "three of churn, and both of the others");
    }
    let message = store.refusal().unwrap();
    assert_eq!(message, "metric \"churn\" has reached its series limit (ingest.series_per_metric = 3)");
    assert_eq!(append(of("new", "a", 0..1), 3).over_series_limit, 1);
    let message = store.refusal().unwrap();
    assert_eq!(message, "tenant tenant=\"a\" has reached its series limit (ingest.series_per_tenant = 5)");
    assert_eq!(append([of("up", "b", 0..2), of("down", "b", 0..2)].concat(), 4).accepted, 4);
    assert_eq!(append(of("last", "c", 0..1), 5).over_series_limit, 1);
    assert_eq!(store.refusal().unwrap(), "the store has reached its series limit (ingest.series = 9)");
    // Known series continue, and a head that starts empty has room again.
    assert_eq!(append(of("churn", "a", 0..3), 6).accepted, 3);
    store.flush().unwrap();
    assert_eq!(append(of("churn", "a", 3..5), 7).accepted, 2);
    assert_eq!((store.refusal(), store.stats().head_series), (None, 2));
}

#[test]
fn samples_in_random_order_are_refused_before_each_costs_a_search_of_many_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::open(dir.path(), Options { chunk_rows: 16, retention: None, ..Options::default() }).unwrap();
    let store = open();
    let series: Layout = Layout::new([Labels::new([("__name__", "m")])]);
    let append = |times: Vec<i64>| {
        let values = vec![1.0; times.len()];
        store.append(&[RowGroup { series: series.clone(), times, values }]).unwrap()
    };
    const ROWS: i64 = 5000;
    append(vec![20 * ROWS]);
    assert_eq!(append((10 * ROWS..11 * ROWS).collect()).accepted, ROWS as u64, "late, but in order");
    let shuffled = append((1..=ROWS).map(|n| n * 4001 % ROWS + 1).collect());
    assert_eq!(shuffled.total(), ROWS as u64);
    assert!(shuffled.accepted >= 8 * 16 && shuffled.out_of_order > ROWS as u64 / 2, "{shuffled:?}");
    assert_eq!(append((12 * ROWS..13 * ROWS).collect()).accepted, ROWS as u64, "other times are free");
    drop(store);
    let kept = Read::select(&open(), &[], 0, ROWS + 1).unwrap();
    assert_eq!(kept.iter().map(|s| s.times.len() as u64).sum::<u64>(), shuffled.accepted, "as before the restart");
}

#[test]
fn memory_of_series_is_bounded_per_host_and_in_total() {
    const MEMORY: usize = 1 << 20;
    const HOST: usize = MEMORY / 16;
    let dir = tempfile::tempdir().unwrap();
    let series = SeriesLimits { memory: MEMORY, ..SeriesLimits::default() };
    let store = Store::open(dir.path(), Options { series, retention: None, ..Options::default() }).unwrap();
    let append = |host: &str, bytes: usize, n: usize, time: i64| {
        let value = |i: usize| format!("{i:0>bytes$}");
        let columns: Vec<Labels> =
            (0..n).map(|i| Labels::new([("__name__", "m"), ("host", host), ("l", &value(i))])).collect();
        store.append(&[RowGroup { series: columns.into(), times: vec![time], values: vec![1.0; n] }]).unwrap()
    };
    let accepted = |host: &str, bytes| append(host, bytes, 200, 1).accepted;
    let small = accepted("gpu-01", 100);
    assert!((HOST / 600..HOST / 300).contains(&(small as usize)), "{small}");
    let message = store.refusal().unwrap();
    let says = ["host \"gpu-01\"", &HOST.to_string(), "limits.memory"];
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
    assert_eq!(append("GPU-01", 100, 200, 1).accepted, 0, "the same host in other case");
    assert_eq!(append("gpu-01", 100, small as usize, 2).accepted, small, "known series continue");
    assert_eq!(accepted("gpu-02", 4000), 14, "long values count");
    let apart = (0..200).map(|n| append("gpu-03", n + 1, 1, 1).accepted).sum::<u64>();
    assert!((HOST / 2800..HOST / 2048).contains(&(apart as usize)), "lists of their own count: {apart}");
    // Series without a host, as a Prometheus sends them, have only the bound of all; all hosts together, too.
    let many = append("", 100, 1000, 1).accepted;
    assert_eq!(many, 1000);
    let rest: u64 = (4..20).map(|n| accepted(&format!("gpu-{n:02}"), 1000)).sum();
    assert!((rest as usize) < MEMORY / 1000, "{rest}");
    assert!(store.refusal().unwrap().contains("the store has reached the limit of memory"));
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
