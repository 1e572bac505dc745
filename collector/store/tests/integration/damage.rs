//! Flipped bits and truncated files are detected, limited to what they touch, and reported; never a panic or a wrong
//! value.

use fabriclens_model::{Labels, Layout, Matcher, Read};
use fabriclens_store::{Options, RowGroup, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options() -> Options {
    Options { retention: None, background: false, chunk_rows: 5, clock: Arc::new(|| 10_000_000), ..Options::default() }
}

fn row(metric: &str, t: i64) -> RowGroup {
    let series: Layout = (0..3).map(|c| Labels::new([("__name__", metric), ("c", &c.to_string())])).collect();
    RowGroup { series, times: vec![t], values: (0..3).map(|c| value(t, c)).collect() }
}

fn value(t: i64, column: i64) -> f64 {
    (t * t + column) as f64
}

/// Number of samples found; panics on a wrong value.
fn samples(store: &Store) -> usize {
    let mut n = 0;
    for metric in ["a", "b"] {
        for s in store.select(&[Matcher::equal("__name__", metric)], i64::MIN, i64::MAX).unwrap() {
            let column: i64 = s.labels.get("c").parse().unwrap();
            assert!(s.times.iter().zip(&s.values).all(|(t, v)| *v == value(*t, column)), "{}", s.labels);
            n += s.times.len();
        }
    }
    n
}

fn only_file(dir: &Path, extension: &str) -> PathBuf {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == extension) && p.metadata().unwrap().len() > 28);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// A fresh directory with only one changed log or block, so that trying every byte is fast.
fn reopened(file: &str, bytes: &[u8]) -> (tempfile::TempDir, Result<Store, fabriclens_store::OpenError>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("FABRICLENS"), "fabriclens store\nversion 1\n").unwrap();
    let sub = dir.path().join(if file.ends_with("wal") { "wal" } else { "blocks" });
    std::fs::create_dir(&sub).unwrap();
    std::fs::write(sub.join(file), bytes).unwrap();
    let store = Store::open(dir.path(), options());
    (dir, store)
}

fn log_of_two_layouts() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    for t in 0..3 {
        store.append(&[row("a", t), row("b", t)]).unwrap();
    }
    drop(store);
    std::fs::read(only_file(&dir.path().join("wal"), "wal")).unwrap()
}

#[test]
fn truncated_log_keeps_all_complete_records() {
    let log = log_of_two_layouts();
    let mut last = 0;
    for cut in (0..=log.len()).step_by(11).chain([log.len()]) {
        let (_dir, store) = reopened("000000000001-0000.wal", &log[..cut]);
        let store = store.unwrap();
        let n = samples(&store);
        assert!(n >= last, "a longer log holds no less");
        assert_eq!(store.stats().damage, [], "a cut is what a crash leaves");
        last = n;
    }
    assert_eq!(last, 18);
}

#[test]
fn flipped_bit_in_the_log_loses_one_record() {
    let log = log_of_two_layouts();
    let mut reported = 0;
    let mut kept = Vec::new();
    for at in (0..log.len()).step_by(7) {
        let mut bad = log.clone();
        bad[at] ^= 0x10;
        let (_dir, store) = reopened("000000000001-0000.wal", &bad);
        let Ok(store) = store else { panic!("one bit must not close the store") };
        kept.push(samples(&store));
        reported += usize::from(!store.stats().damage.is_empty());
    }
    // The layout definition is the most valuable record: without it the rows of that layout are lost, but no others.
    assert!(kept.iter().all(|n| *n >= 9), "{kept:?}");
    assert!(kept.iter().filter(|n| **n >= 15).count() * 3 > kept.len(), "rows cost only themselves: {kept:?}");
    // Damage in the last record looks like a crash and is not reported.
    assert!(reported * 10 > kept.len() * 7, "{reported} of {}", kept.len());
}

#[test]
fn flipped_bit_in_a_block_loses_only_what_it_touches() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    for t in 0..50 {
        store.append(&[row("a", t), row("b", t)]).unwrap();
    }
    store.flush().unwrap();
    assert_eq!(samples(&store), 300);
    drop(store);
    let block = std::fs::read(only_file(&dir.path().join("blocks"), "blk")).unwrap();
    for at in (0..block.len()).step_by(2) {
        let mut bad = block.clone();
        bad[at] ^= 0x04;
        let (_dir, store) = reopened("000000000001.blk", &bad);
        let store = store.unwrap();
        let n = samples(&store);
        let damage = store.stats().damage;
        assert!(!damage.is_empty(), "byte {at} of {} went unseen, {n} samples", block.len());
        assert!(damage[0].path.ends_with("blocks/000000000001.blk"));
        // The store keeps working.
        store.append(&[row("a", 1_000)]).unwrap();
        assert_eq!(samples(&store), n + 3);
        if at % 16 == 0 {
            store.flush().unwrap();
            store.maintain().unwrap();
            assert_eq!(samples(&store), n + 3);
        }
    }
    for cut in (0..block.len()).step_by(9) {
        let (_dir, store) = reopened("000000000001.blk", &block[..cut]);
        assert_eq!(store.unwrap().stats().damage.len(), 1);
    }
}
