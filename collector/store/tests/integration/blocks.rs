//! Flush, merge, retention, snapshots and metadata through the public API.

use fabriclens_model::{Budget, Hint, Labels, Layout, MatchOp, Matcher, Read, ReadError, Unlimited, absent};
use fabriclens_store::{Metadata, Options, RowGroup, Store};
use fabriclens_testing::eventually;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

const HOUR: i64 = 3_600_000;

fn with_clock() -> (Options, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(1_000 * HOUR));
    let clock = now.clone();
    let clock = Arc::new(move || clock.load(Ordering::Relaxed));
    (Options { background: false, clock, ..Options::default() }, now)
}

fn columns(metric: &str, n: usize) -> Layout {
    (0..n).map(|c| Labels::new([("__name__", metric), ("c", &c.to_string())])).collect()
}

fn count(store: &Store, metric: &str) -> usize {
    let all = store.select(&[Matcher::equal("__name__", metric)], i64::MIN, i64::MAX).unwrap();
    all.iter().map(|s| s.times.len()).sum()
}

/// `n` rows from `start` on, one per minute.
fn rows(series: &Layout, start: i64, n: i64) -> RowGroup {
    let times: Vec<i64> = (0..n).map(|i| start + i * 60_000).collect();
    let values = series.iter().flat_map(|_| times.iter().map(|t| (t / 60_000) as f64)).collect();
    RowGroup { series: series.clone(), times, values }
}

#[test]
fn small_blocks_merge_without_changing_answers() {
    let (options, now) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let series = columns("m", 6);
    for i in 0..12 {
        store.append(&[rows(&series, 990 * HOUR + i * 600_000, 10)]).unwrap();
        store.flush().unwrap();
    }
    let before = store.select(&[Matcher::equal("c", "3")], 0, i64::MAX).unwrap();
    assert_eq!((store.stats().blocks, count(&store, "m")), (12, 720));
    store.maintain().unwrap();
    assert_eq!(store.stats().blocks, 1);
    assert_eq!(store.select(&[Matcher::equal("c", "3")], 0, i64::MAX).unwrap(), before);
    assert_eq!(before[0].times.len(), 120);
    // A week later the windows are wider, and late samples are added without disturbing existing ones.
    now.fetch_add(200 * HOUR, Ordering::Relaxed);
    store.append(&[rows(&series, 985 * HOUR, 60), rows(&series, 990 * HOUR, 60)]).unwrap();
    store.flush().unwrap();
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 720 + 360);
    assert_eq!(store.stats().blocks, 1, "{:?}", store.stats());
    drop(store);
    assert_eq!(count(&Store::open(dir.path(), options).unwrap(), "m"), 1080);
}

#[test]
fn series_sampled_together_share_times() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    let all = columns("m", 4);
    let halves: [Layout; 2] = [all[..2].into(), all[2..].into()];
    let append = |start: i64, n: i64| {
        let mut groups = [rows(&halves[0], start, n), rows(&halves[1], start, n)];
        *groups[1].values.last_mut().unwrap() = absent();
        store.append(&groups).unwrap();
    };
    append(900 * HOUR, 50);
    store.flush().unwrap();
    // Part of it is sealed.
    append(901 * HOUR, 300);
    let (start, end) = (900 * HOUR + 1, 905 * HOUR);
    let matchers = [Matcher::equal("__name__", "m")];
    let got = store.select_for(&matchers, start, end, Hint::default(), &Unlimited).unwrap().series;
    assert_eq!(got.iter().map(|s| s.times.len()).collect::<Vec<_>>(), [49 + 241, 49 + 241, 49 + 241, 48 + 241]);
    assert!(Arc::ptr_eq(&got[0].times, &got[1].times) && Arc::ptr_eq(&got[0].times, &got[2].times));
    assert!(!got[3].times.contains(&(900 * HOUR + 49 * 60_000)));
    assert!(got.iter().all(|s| s.times.iter().zip(&s.values).all(|(t, v)| (t / 60_000) as f64 == *v)));
}

/// The second of three generations has a block so wide that it joins no merge of the first window.
#[test]
fn merge_keeps_the_first_sample() {
    let (mut options, _) = with_clock();
    options.block_span = Duration::from_secs(3600);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    let series = columns("m", 1);
    let one = |t: i64, v: f64| RowGroup { series: series.clone(), times: vec![t], values: vec![v] };
    let t = 500 * HOUR + 1_000;
    store.append(&[one(t - 1, 0.0)]).unwrap();
    store.flush().unwrap();
    let spread: Vec<RowGroup> = (0..40).map(|h| one(t + h * HOUR, 1.0)).collect();
    store.append(&spread).unwrap();
    store.flush().unwrap();
    store.append(&[one(t, 2.0), one(t + 1, 2.0)]).unwrap();
    store.flush().unwrap();
    let at_t = || store.select(&[Matcher::equal("__name__", "m")], t, t).unwrap()[0].values[0];
    assert_eq!(at_t(), 1.0);
    store.maintain().unwrap();
    assert_eq!(at_t(), 1.0);
    assert_eq!(count(&store, "m"), 42);
}

#[test]
fn retention_removes_the_oldest_blocks() {
    let (mut options, now) = with_clock();
    options.retention = Some(Duration::from_secs(100 * 3600));
    options.clock_jump_hold = Duration::ZERO;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let series = columns("m", 4);
    for h in [910, 950, 990] {
        store.append(&[rows(&series, h * HOUR, 60)]).unwrap();
        store.flush().unwrap();
    }
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 720);
    now.fetch_add(30 * HOUR, Ordering::Relaxed);
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 480);
    let stats = store.stats();
    drop(store);
    options.max_bytes = Some(stats.block_bytes - 1);
    let store = Store::open(dir.path(), options).unwrap();
    store.maintain().unwrap();
    let left = store.select(&[Matcher::equal("c", "0")], i64::MIN, i64::MAX).unwrap();
    assert_eq!((left[0].times[0], left[0].times.len()), (990 * HOUR, 60));
    assert_eq!(std::fs::read_dir(dir.path().join("blocks")).unwrap().count(), 1);
}

#[test]
fn clock_jump_expires_nothing_even_after_restart() {
    let (options, now) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let series = columns("m", 4);
    store.append(&[rows(&series, 990 * HOUR, 60)]).unwrap();
    store.flush().unwrap();
    now.fetch_add(400 * 24 * HOUR, Ordering::Relaxed);
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 240);
    // A host with the correct time is accepted, and one with the wrong time does not confirm the jump.
    let later = rows(&series, 999 * HOUR, 1);
    let wrong = rows(&series, now.load(Ordering::Relaxed), 1);
    assert_eq!(store.append(&[later, wrong]).unwrap().accepted, 8);
    drop(store);
    let store = Store::open(dir.path(), options.clone()).unwrap();
    store.flush().unwrap();
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 248);
    drop(store);
    let store = Store::open(dir.path(), Options { clock_jump_hold: Duration::ZERO, ..options }).unwrap();
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 4, "in the end it is believed");
}

#[test]
fn history_of_1970_is_kept_when_retention_allows() {
    let (mut options, now) = with_clock();
    now.store(1_800_000_000_000, Ordering::Relaxed);
    options.retention = Some(Duration::from_secs(100 * 365 * 86_400));
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    let series = columns("m", 2);
    let years: Vec<RowGroup> = (0..50).map(|y| rows(&series, y * 365 * 24 * HOUR, 2)).collect();
    assert_eq!(store.append(&years).unwrap().accepted, 200);
    store.flush().unwrap();
    assert!(store.stats().blocks <= 32, "years of history are not thousands of files");
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 200);
}

#[test]
fn snapshot_opens_as_a_store() {
    let (options, _) = with_clock();
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let series = columns("m", 3);
    let help = Metadata { kind: "counter".into(), unit: "bytes".into(), help: "Octets.".into() };
    store.put_metadata([("m", help.clone())]).unwrap();
    store.append(&[rows(&series, 990 * HOUR, 50)]).unwrap();
    store.table("jobs").put("4711", "bert").unwrap();
    store.snapshot(copy.path()).unwrap();
    assert!(store.snapshot(copy.path()).is_err(), "a used directory is refused");
    store.append(&[rows(&series, 995 * HOUR, 50)]).unwrap();
    store.flush().unwrap();
    store.maintain().unwrap();
    assert_eq!(count(&store, "m"), 300);
    let restored = Store::open(copy.path(), options.clone()).unwrap();
    assert_eq!(count(&restored, "m"), 150);
    assert_eq!(restored.metadata().get("m"), Some(&help));
    assert_eq!(restored.table("jobs").get("4711").unwrap().as_deref(), Some(&b"bert"[..]));
    drop(store);
    assert_eq!(Store::open(dir.path(), options).unwrap().metadata().get("m"), Some(&help));
}

#[test]
fn label_names_and_values_span_head_and_blocks() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    store.append(&[rows(&columns("old", 2), 900 * HOUR, 5)]).unwrap();
    store.flush().unwrap();
    store.append(&[rows(&columns("new", 3), 990 * HOUR, 5)]).unwrap();
    let all = (i64::MIN, i64::MAX);
    assert_eq!(store.label_values("__name__", &[], all.0, all.1, &Unlimited).unwrap(), ["new", "old"]);
    assert_eq!(store.label_values("__name__", &[], 980 * HOUR, all.1, &Unlimited).unwrap(), ["new"]);
    assert_eq!(store.label_names(&[], all.0, all.1, &Unlimited).unwrap(), ["__name__", "c"]);
    let m = |name: &str, op, v: &str| Matcher::new(name, op, v).unwrap();
    let values = |ms: &[Matcher]| store.label_values("c", ms, all.0, all.1, &Unlimited).unwrap();
    assert_eq!(values(&[m("__name__", MatchOp::NotEqual, "new")]), ["0", "1"]);
    assert_eq!(values(&[m("c", MatchOp::NotRegex, "0|1")]), ["2"]);
    assert_eq!(values(&[m("zone", MatchOp::Equal, "")]).len(), 3);
    assert_eq!(values(&[m("zone", MatchOp::NotEqual, "")]).len(), 0);
    let series = store.series(&[m("c", MatchOp::Equal, "1")], all.0, all.1, &Unlimited).unwrap();
    assert_eq!(series.iter().map(Labels::to_string).collect::<Vec<_>>(), [r#"new{c="1"}"#, r#"old{c="1"}"#]);
    let top = store.cardinality(10, &Unlimited).unwrap();
    let short = fabriclens_model::FixedBudget::new(100);
    assert!(store.cardinality(10, &short).is_err(), "counting costs memory");
    assert_eq!((top.series, &top.by_metric[..]), (5, &[("new".to_owned(), 3), ("old".to_owned(), 2)][..]));
}

#[test]
fn labels_sorting_before_the_name_are_found() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    let series: Layout = ["x", "y", "z"]
        .into_iter()
        .flat_map(|metric| [Labels::new([("__name__", metric)]), Labels::new([("A", "1"), ("__name__", metric)])])
        .collect();
    store.append(&[rows(&series, 990 * HOUR, 2)]).unwrap();
    for _ in 0..2 {
        let found = store.select(&[Matcher::equal("__name__", "y")], i64::MIN, i64::MAX).unwrap();
        assert_eq!(found.len(), 2);
        let found = store.select(&[Matcher::equal("A", "1")], i64::MIN, i64::MAX).unwrap();
        assert_eq!(found.len(), 3);
        assert!(store.select(&[Matcher::equal("A", "2")], i64::MIN, i64::MAX).unwrap().is_empty());
        store.flush().unwrap();
    }
}

#[test]
fn a_query_loads_the_series_of_its_metrics_only() {
    let dir = tempfile::tempdir().unwrap();
    let (options, _) = with_clock();
    let store = Store::open(dir.path(), options).unwrap();
    let series: Vec<Layout> = (0..40).map(|m| columns(&format!("m{m}"), 50)).collect();
    let groups: Vec<RowGroup> = series.iter().map(|of_metric| rows(of_metric, 999 * HOUR, 3)).collect();
    store.append(&groups).unwrap();
    store.flush().unwrap();
    let loaded = |metric: Matcher| {
        let found = store.select(&[metric], 0, i64::MAX).unwrap().len();
        (found, store.stats().index_bytes)
    };
    let one = loaded(Matcher::equal("__name__", "m7"));
    assert_eq!(loaded(Matcher::equal("__name__", "none")), (0, one.1));
    let two = loaded(Matcher::new("__name__", MatchOp::Regex, "m7|m8").unwrap());
    let all = loaded(Matcher::not_equal("c", "none"));
    assert_eq!([one, two, all].map(|of| of.0), [50, 100, 2000]);
    let (first, second, rest) = (one.1, two.1 - one.1, all.1 - two.1);
    assert_eq!(rest, 38 * second);
    assert!(first < 5 * second, "{first} {second}");
}

#[test]
fn read_limit_error_names_the_limit() {
    let (mut options, _) = with_clock();
    options.max_samples = 100;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    store.append(&[rows(&columns("m", 3), 990 * HOUR, 50)]).unwrap();
    let ask = || store.select(&[Matcher::equal("__name__", "m")], i64::MIN, i64::MAX);
    assert!(ask().unwrap_err().to_string().contains("100 samples"));
    store.flush().unwrap();
    assert!(ask().unwrap_err().to_string().contains("max_samples"));
}

/// Refuses requests beyond this many bytes, and records the bytes requested.
#[derive(Debug)]
struct RecordingBudget(usize, AtomicUsize);

impl Budget for RecordingBudget {
    fn take(&self, bytes: usize) -> bool {
        self.1.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.0
    }
}

#[test]
fn reads_request_memory_from_the_budget() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    store.append(&[rows(&columns("m", 30), 900 * HOUR, 5_000)]).unwrap();
    let ask = |start: i64, end: i64, bytes: usize| {
        let budget = RecordingBudget(bytes, AtomicUsize::new(0));
        let found = store.select_within(&[Matcher::equal("__name__", "m")], start, end, &budget);
        let samples = found.map(|all| all.iter().map(|s| s.times.len()).sum::<usize>());
        (samples, budget.1.load(Ordering::Relaxed))
    };
    for place in ["head", "block"] {
        let (all, asked) = ask(i64::MIN, i64::MAX, usize::MAX);
        assert_eq!(all, Ok(150_000), "{place}");
        assert!((16 * 150_000..40 * 150_000).contains(&asked), "{place}: {asked}");
        let (refused, sooner) = ask(i64::MIN, i64::MAX, asked / 2);
        assert!(refused == Err(ReadError::Memory) && sooner < asked * 6 / 10, "{place}: {refused:?} {sooner}");
        // A few minutes of it take little memory, although pages hold hours.
        let (some, asked) = ask(950 * HOUR, 950 * HOUR + 300_000, usize::MAX);
        assert!(some == Ok(180) && asked < 150_000, "{place}: {some:?} {asked}");
        store.flush().unwrap();
    }
}

#[test]
fn concurrent_writers_all_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { retention: None, head_bytes: 50_000, chunk_rows: 20, ..Options::default() };
    let store = Store::open(dir.path(), options.clone()).unwrap();
    std::thread::scope(|scope| {
        for w in 0..8 {
            let store = &store;
            scope.spawn(move || {
                let series = columns(&format!("w{w}"), 10);
                for t in 0..100 {
                    let mut group = rows(&series, t * 60_000, 1);
                    group.values[(t % 10) as usize] = absent();
                    assert_eq!(store.append(&[group]).unwrap().accepted, 9);
                    if t % 25 == 0 {
                        assert!(count(store, &format!("w{w}")) >= 9 * t as usize);
                    }
                }
            });
        }
    });
    // Appends arrive as fast as possible from many threads: a flush must still make progress.
    store.flush().unwrap();
    store.close();
    assert!(store.append(&[]).is_err());
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    for w in 0..8 {
        assert_eq!(count(&store, &format!("w{w}")), 900);
    }
}

#[test]
fn rotation_keeps_active_series_and_drops_ended_ones() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let senders: Vec<_> = (0..8).map(|s| columns(&format!("m{s}"), 3)).collect();
    let round = |senders: &[Layout], minute: i64| {
        let groups: Vec<RowGroup> = senders.iter().map(|s| rows(s, 990 * HOUR + minute * 60_000, 1)).collect();
        assert_eq!(store.append(&groups).unwrap().accepted, 3 * senders.len() as u64);
    };
    let known = || (store.stats().head_series, store.stats().head_layouts, store.stats().head_samples);
    round(&senders, 0);
    store.flush().unwrap();
    assert_eq!(known(), (24, 8, 0), "all of them are expected to go on");
    round(&senders[..6], 1);
    assert_eq!(store.append(&[rows(&senders[0], 990 * HOUR, 2)]).unwrap().duplicates, 3, "the second is in the head");
    store.flush().unwrap();
    assert_eq!(known(), (24, 8, 0), "a quarter may be late");
    round(&senders[..2], 2);
    store.flush().unwrap();
    assert_eq!(known(), (0, 0, 0), "most are gone");
    round(&senders[..2], 3);
    store.flush().unwrap();
    round(&senders[..1], 4);
    round(&senders[2..3], 5);
    assert_eq!(known(), (9, 3, 6));
    drop(store);
    // The log of the last generation defines its layouts again, although the head already knew them.
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(store.stats().damage, []);
    assert_eq!([0, 1, 2, 7].map(|s| count(&store, &format!("m{s}"))), [15, 12, 9, 3]);
}

#[test]
fn memory_pressure_flushes_small_heads() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    store.append(&[rows(&columns("m", 50), 990 * HOUR, 100)]).unwrap();
    store.relieve_memory();
    store.maintain().unwrap();
    assert_eq!((store.stats().blocks, store.stats().head_series), (0, 50), "young, and little of a full one");
    let log = store.stats().wal_bytes;
    drop(store);

    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { head_bytes: 4 * log, ..options }).unwrap();
    let known = columns("m", 50);
    store.append(&[rows(&known, 990 * HOUR, 100)]).unwrap();
    store.maintain().unwrap();
    assert_eq!(store.stats().blocks, 0, "there is memory");
    store.relieve_memory();
    store.maintain().unwrap();
    assert_eq!((store.stats().blocks, store.stats().head_series, count(&store, "m")), (1, 0, 5000));
    // The same samples again are duplicates, although the head no longer knows the series.
    store.append(&[rows(&known, 990 * HOUR, 100), rows(&known, 995 * HOUR, 100)]).unwrap();
    assert_eq!(count(&store, "m"), 10_000);
}

#[test]
#[cfg(target_os = "linux")]
fn maintenance_lets_others_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let niceness = |name: &str| -> Vec<i32> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|t| t.unwrap().path());
        let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        tasks
            .filter(|t| text(t.join("comm")).trim() == name)
            .map(|t| {
                text(t.join("stat")).rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap()
            })
            .collect()
    };
    // Other tests of this process have stores too.
    let is_nice = |name: &&str| !niceness(name).is_empty() && !niceness(name).contains(&0);
    eventually("maintenance threads have a niceness", Duration::from_secs(20), || {
        ["store-flush", "store-merge"].iter().all(is_nice)
    });
    drop(store);
}

#[test]
fn clock_set_back_refuses_no_sample() {
    let (options, now) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let (series, at) = (columns("m", 2), now.load(Ordering::Relaxed));
    store.append(&[rows(&series, at, 1)]).unwrap();
    now.fetch_sub(24 * HOUR, Ordering::Relaxed);
    let done = store.append(&[rows(&series, at + 60_000, 1)]).unwrap();
    assert_eq!((done.accepted, done.too_far_in_future), (2, 0), "correct clock");
    assert_eq!(store.append(&[rows(&series, at + HOUR, 1)]).unwrap().too_far_in_future, 2, "wrong clock");
    assert_eq!((store.stats().clock_off_ms - 1) / HOUR, -24, "a little time may have passed");
    assert_eq!((store.retention_clock())(), now.load(Ordering::Relaxed), "retention measures by the current time");
}

#[test]
fn heads_of_many_series_grow_in_proportion() {
    let (options, _) = with_clock();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options.clone()).unwrap();
    store.append(&[rows(&columns("m", 50), 990 * HOUR, 10)]).unwrap();
    let log = store.stats().wal_bytes;
    drop(store);
    // A full head is two and a half logs of 50 series, or one of 20.
    let options = Options { head_bytes: log, head_series: 20, ..options };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options).unwrap();
    let mut blocks = Vec::new();
    for nth in 0..4 {
        store.append(&[rows(&columns("m", 50), (990 + nth) * HOUR, 10)]).unwrap();
        store.maintain().unwrap();
        blocks.push(store.stats().blocks > 0);
    }
    assert_eq!(blocks, [false, false, true, true]);
    assert_eq!(count(&store, "m"), 4 * 500);
}
