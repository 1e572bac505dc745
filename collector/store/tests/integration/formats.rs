//! Stores written by released format versions open with their contents. There is one directory per version under
//! `fixtures/stores`; a new version adds one and never changes the old ones.

use fabriclens_model::{Labels, Layout, MatchOp, Matcher, Read, absent, stale};
use fabriclens_store::{Options, RowGroup, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const START: i64 = 1_700_000_000_000;
const ROWS: i64 = 40;

fn options() -> Options {
    Options { retention: None, background: false, chunk_rows: 16, ..Options::default() }
}

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores").join(version)
}

/// One column of every kind in the format.
fn value(column: usize, row: i64) -> f64 {
    let x = row as f64;
    match column {
        0 => 42.0,
        1 => 0.1 + 0.2,
        2 => 1e9 + 4.0 * x * x,
        3 => (row / 15) as f64,
        4 => 40.0 + (row % 7) as f64 / 10.0,
        5 => (x + 0.5).sqrt(),
        6 if row % 5 == 2 => absent(),
        6 => x * 128.0,
        7 if row == 39 => stale(),
        7 => x,
        8 if row == 3 => f64::NAN,
        8 => -0.0,
        _ => absent(),
    }
}

fn group(host: &str, rows: std::ops::Range<i64>) -> RowGroup {
    let series: Layout = (0..10)
        .map(|c| Labels::new([("__name__".to_owned(), format!("kind_{c}")), ("host".to_owned(), host.to_owned())]))
        .collect();
    let times: Vec<i64> = rows.clone().map(|r| START + r * 1000 + r % 3).collect();
    let values = (0..10).flat_map(|c| rows.clone().map(move |r| value(c, r))).collect();
    RowGroup { series, times, values }
}

fn expected() -> BTreeMap<String, Vec<(i64, u64)>> {
    let mut all: BTreeMap<String, Vec<(i64, u64)>> = BTreeMap::new();
    for g in ["a", "b", "ünï\"code"].map(|h| group(h, 0..ROWS)) {
        for (c, labels) in g.series.iter().enumerate() {
            for (r, t) in g.times.iter().enumerate() {
                let v = g.values[c * g.times.len() + r];
                if !fabriclens_model::is_absent(v) {
                    all.entry(labels.to_string()).or_default().push((*t, v.to_bits()));
                }
            }
        }
    }
    all
}

/// Half of the samples in a block, half in the log; host b's rows arrive late.
fn write(dir: &Path) {
    let store = Store::open(dir, options()).unwrap();
    store.append(&[group("a", 0..30), group("b", 20..ROWS)]).unwrap();
    store.flush().unwrap();
    store.append(&[group("a", 30..ROWS), group("b", 0..20), group("ünï\"code", 0..ROWS)]).unwrap();
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<(i64, u64)>> {
    let store = Store::open(dir, options()).unwrap();
    assert_eq!(store.stats().damage, []);
    let any = Matcher::new("__name__", MatchOp::Regex, "kind_.*").unwrap();
    let found = store.select(&[any], i64::MIN, i64::MAX).unwrap();
    let samples =
        |s: &fabriclens_model::Series| s.times.iter().copied().zip(s.values.iter().map(|v| v.to_bits())).collect();
    found.iter().map(|s| (s.labels.to_string(), samples(s))).collect()
}

#[test]
fn released_versions_open() {
    // v2: values of log records without trailing zero bytes. v3: series of blocks in sections by metric.
    ["v1", "v2", "v3"].into_iter().for_each(opens);
}

fn opens(version: &str) {
    let (dir, from) = (tempfile::tempdir().unwrap(), fixture(version));
    std::fs::copy(from.join("FABRICLENS"), dir.path().join("FABRICLENS")).unwrap();
    for sub in ["wal", "blocks"] {
        std::fs::create_dir(dir.path().join(sub)).unwrap();
        for file in std::fs::read_dir(from.join(sub)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(sub).join(file.file_name())).unwrap();
        }
    }
    assert_eq!(contents(dir.path()), expected(), "{version}");
}

/// Today's writer produces the contents that the fixtures are compared with.
#[test]
fn written_samples_are_read() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    assert_eq!(contents(dir.path()), expected());
}

/// Run once per format version: `FABRICLENS_FIXTURE=v1 cargo test -p fabriclens-store --test integration -- --ignored`.
#[test]
#[ignore = "writes a fixture"]
fn write_fixture() {
    let version = std::env::var("FABRICLENS_FIXTURE").unwrap();
    let (dir, to) = (tempfile::tempdir().unwrap(), fixture(&version));
    assert!(!to.exists(), "fixtures of a released version never change");
    write(dir.path());
    for sub in ["wal", "blocks"] {
        std::fs::create_dir_all(to.join(sub)).unwrap();
        for file in std::fs::read_dir(dir.path().join(sub)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(sub).join(file.file_name())).unwrap();
        }
    }
    std::fs::copy(dir.path().join("FABRICLENS"), to.join("FABRICLENS")).unwrap();
}
