//! `kill -9` at random moments, repeatedly, on one store: every acknowledged sample survives, and no other sample
//! appears. `FABRICLENS_KILLS=1000` for a long run.

use fabriclens_model::{Labels, Layout, Matcher, Read};
use fabriclens_store::{Metadata, Options, RowGroup, Store};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WRITERS: u64 = 3;
const DIR: &str = "FABRICLENS_KILL_DIR";
const NEXT: &str = "FABRICLENS_KILL_NEXT";

/// Small limits, so that a short run includes flushes, merges and several log generations.
fn options() -> Options {
    Options {
        retention: None,
        chunk_rows: 10,
        head_bytes: 20_000,
        block_span: Duration::from_millis(500),
        clock: Arc::new(|| 1_000_000),
        ..Options::default()
    }
}

fn value(writer: u64, n: u64, column: u64) -> f64 {
    (n * 31 + writer * 7 + column * n) as f64 / 4.0
}

/// One stable layout and one whose series change every 20 appends.
fn groups(writer: u64, n: u64) -> Vec<RowGroup> {
    let columns = |kind: &str, n: u64| -> Layout {
        (0..5)
            .map(|c| {
                Labels::new([
                    ("__name__", kind.to_owned()),
                    ("writer", writer.to_string()),
                    ("column", c.to_string()),
                    ("job", n.to_string()),
                ])
            })
            .collect()
    };
    [columns("steady", 0), columns("churn", n / 20)]
        .into_iter()
        .map(|series| RowGroup { series, times: vec![n as i64], values: (0..5).map(|c| value(writer, n, c)).collect() })
        .collect()
}

/// Not a test of its own: the process to kill.
#[test]
#[ignore = "run by survives_kills"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let next: Vec<u64> = std::env::var(NEXT).unwrap().split(',').map(|n| n.parse().unwrap()).collect();
    let store = Store::open(Path::new(&dir), options()).unwrap();
    eprintln!("open");
    std::thread::scope(|scope| {
        for (writer, first) in next.iter().enumerate() {
            let store = &store;
            scope.spawn(move || {
                for n in *first.. {
                    if writer == 0 && n % 50 == 0 {
                        store.put_metadata([(&*format!("m{n}"), Metadata::default())]).unwrap();
                    }
                    store.append(&groups(writer as u64, n)).unwrap();
                    // One write call: a line is complete or missing.
                    let line = format!("ack {writer} {n}\n");
                    std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn survives_kills() {
    let kills: u32 = std::env::var("FABRICLENS_KILLS").map_or(50, |k| k.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut acked: BTreeMap<u64, u64> = BTreeMap::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(std::process::id());
    let began = Instant::now();
    let mut with_acks = 0;
    for kill in 0..kills {
        let next: Vec<String> = (0..WRITERS).map(|w| acked.get(&w).map_or(0, |n| n + 1).to_string()).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--ignored", "--nocapture"])
            .env(DIR, dir.path())
            .env(NEXT, next.join(","))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let delay = Duration::from_micros((random >> 33) % 120_000);
        let lines = BufReader::new(child.stderr.take().unwrap());
        let (opened, wait_open) = std::sync::mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            let (mut acks, mut other) = (Vec::new(), Vec::new());
            for line in lines.lines().map_while(Result::ok) {
                match line.strip_prefix("ack ") {
                    Some(ack) => acks.push(ack.to_owned()),
                    None if line == "open" => opened.send(()).unwrap(),
                    None => other.push(line),
                }
            }
            assert!(other.is_empty(), "child said: {}", other.join("\n"));
            acks
        });
        // Every fourth is killed while it opens the store, the others while they append.
        if kill % 4 != 0 {
            wait_open.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        // The moment of the kill is what is tested.
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        let before = acked.clone();
        for ack in reader.join().unwrap() {
            let (writer, n) = ack.split_once(' ').unwrap();
            acked.insert(writer.parse().unwrap(), n.parse().unwrap());
        }
        with_acks += u32::from(before != acked);
        if kill % 5 == 4 || kill + 1 == kills {
            verify(dir.path(), &acked);
        }
    }
    println!("{kills} kills in {:?}, {with_acks} of them amid acks, acked: {acked:?}", began.elapsed());
    assert!(with_acks * 2 > kills, "most children must get to append");
}

fn verify(dir: &Path, acked: &BTreeMap<u64, u64>) {
    let store = Store::open(dir, Options { background: false, ..options() }).unwrap();
    assert_eq!(store.stats().damage, []);
    for n in (0..=acked.get(&0).copied().unwrap_or(0)).step_by(50).filter(|_| acked.contains_key(&0)) {
        assert!(store.metadata().contains_key(&format!("m{n}")), "metadata put before an ack");
    }
    for kind in ["steady", "churn"] {
        let mut seen: BTreeMap<(u64, u64), Vec<i64>> = BTreeMap::new();
        for s in store.select(&[Matcher::equal("__name__", kind)], i64::MIN, i64::MAX).unwrap() {
            let label = |n: &str| s.labels.get(n).parse::<u64>().unwrap();
            let (writer, column) = (label("writer"), label("column"));
            for (t, v) in s.times.iter().zip(&s.values) {
                assert_eq!(*v, value(writer, *t as u64, column), "value of {} at {t}", s.labels);
                assert!(kind == "steady" || *t as u64 / 20 == label("job"), "{} at {t}", s.labels);
            }
            seen.entry((writer, column)).or_default().extend(&s.times);
        }
        for ((writer, column), mut times) in seen {
            times.sort_unstable();
            let last = times.len() as u64;
            assert!(times.iter().copied().eq(0..last as i64), "{kind} {writer}/{column} has holes or doubles");
            let sent = acked.get(&writer).map_or(0, |n| n + 1);
            // One append may have been in progress.
            assert!((sent..=sent + 1).contains(&last), "{kind} {writer}/{column}: {last} of {sent} acked");
        }
    }
}
