//! Reads under a budget: they end at its deadline, and appends do not wait for their patterns.

use fabriclens_model::{Budget, Hint, Labels, Layout, MatchOp, Matcher, Read, ReadError, Selected, Unlimited};
use fabriclens_store::{Options, RowGroup, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const SERIES: usize = 600;
const VALUES: usize = 30;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background: false, retention: None, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let labels = |i: usize| {
        Labels::new([("__name__", "m".to_owned()), ("host", format!("h{}", i % VALUES)), ("i", i.to_string())])
    };
    append(&store, (0..SERIES).map(labels).collect(), 1000);
    (dir, store)
}

fn append(store: &Store, series: Layout, time: i64) {
    let values = vec![1.0; series.len()];
    store.append(&[RowGroup { series, times: vec![time], values }]).unwrap();
}

fn pattern(name: &str, pattern: &str) -> Matcher {
    Matcher::new(name, MatchOp::Regex, pattern).unwrap()
}

/// All ways to read, without their results.
fn read_all(store: &Store, m: &[Matcher], budget: &dyn Budget) -> [Result<(), ReadError>; 6] {
    let (start, end) = (0, 10_000);
    [
        store.select_within(m, start, end, budget).map(|_| ()),
        store.select_for(m, start, end, Hint::default(), budget).map(|_| ()),
        store.visit_for(m, start, end, Hint::default(), budget, &mut |_| true),
        store.series(m, start, end, budget).map(|_| ()),
        store.label_names(m, start, end, budget).map(|_| ()),
        store.label_values("i", m, start, end, budget).map(|_| ()),
    ]
}

/// Ends after some checks.
#[derive(Debug)]
struct Ending {
    checks: AtomicUsize,
    end: usize,
}

impl Budget for Ending {
    fn take(&self, _: usize) -> bool {
        true
    }

    fn check(&self) -> Result<(), ReadError> {
        let checked = self.checks.fetch_add(1, Ordering::Relaxed);
        if checked >= self.end { Err(ReadError::Timeout) } else { Ok(()) }
    }
}

fn ending(end: usize) -> Ending {
    Ending { checks: AtomicUsize::new(0), end }
}

#[test]
fn reads_end_with_their_budget() {
    let (_dir, store) = store();
    for place in ["head", "block"] {
        for matchers in [vec![pattern("host", "h.*")], vec![]] {
            let budget = ending(usize::MAX);
            assert!(read_all(&store, &matchers, &budget).iter().all(Result::is_ok), "{place}");
            for end in [0, 3] {
                assert_eq!(
                    read_all(&store, &matchers, &ending(end)),
                    [const { Err(ReadError::Timeout) }; 6],
                    "{place}"
                );
            }
        }
        store.flush().unwrap();
    }
}

/// Counts bytes.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Budget for Counting {
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

#[test]
fn labels_of_many_series_are_sorted_once() {
    const MANY: usize = 3000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options { background: false, retention: None, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let labels = |i: usize| {
        let way = if i.is_multiple_of(2) { "receive" } else { "transmit" };
        Labels::new([("__name__", "m".to_owned()), ("direction", way.to_owned()), ("i", (i * 7919 % 6007).to_string())])
    };
    let metric = [Matcher::equal("__name__", "m")];
    let of_way = [Matcher::equal("__name__", "m"), Matcher::equal("direction", "transmit")];
    // The series, and what the query took.
    let read = |matchers: &[Matcher]| -> (Vec<Labels>, usize) {
        let budget = Counting::default();
        let found = store.select_within(matchers, 0, 10_000, &budget).unwrap();
        (found.into_iter().map(|series| series.labels).collect(), budget.0.into_inner())
    };
    let mut known: Vec<Labels> = Vec::new();
    for (round, place) in ["new head", "more series", "after a block"].into_iter().enumerate() {
        let more: Vec<Labels> = (known.len()..known.len() + MANY / (round + 1)).map(labels).collect();
        append(&store, more.iter().cloned().collect(), 1000 + round as i64);
        known.extend(more);
        let mut sorted = known.clone();
        sorted.sort();
        let ways: Vec<Labels> = sorted.iter().filter(|l| l.get("direction") == "transmit").cloned().collect();
        let ((first, sorting), (again, kept)) = (read(&metric), read(&metric));
        assert!(first == sorted && again == sorted, "{place}");
        assert!(sorting > kept + sorted.len() * size_of::<Labels>(), "{place}: {sorting} and {kept} bytes");
        assert!(read(&of_way).0 == ways, "{place}");
        if round == 1 {
            store.flush().unwrap();
        }
    }
}

#[test]
fn each_value_is_tested_once() {
    let (_dir, store) = store();
    for place in ["head", "block"] {
        let budget = ending(usize::MAX);
        store.series(&[pattern("host", "h.*"), pattern("host", ".*[02468]")], 0, 10_000, &budget).unwrap();
        // Before each test of a value, and between pieces of work; a flushed head keeps its series.
        let checks = budget.checks.into_inner();
        assert!((2 * VALUES..4 * VALUES + 50).contains(&checks), "{place}: {checks}");
        store.flush().unwrap();
    }
}

/// Appends in another thread at each check.
struct Appending {
    store: Arc<Store>,
    appended: AtomicUsize,
}

impl std::fmt::Debug for Appending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.appended.fmt(f)
    }
}

impl Budget for Appending {
    fn take(&self, _: usize) -> bool {
        true
    }

    fn check(&self) -> Result<(), ReadError> {
        let n = self.appended.fetch_add(1, Ordering::Relaxed);
        let ((done, wait), store) = (sync_channel(1), self.store.clone());
        std::thread::spawn(move || {
            append(&store, [Labels::new([("__name__", "n")])].into_iter().collect(), 2000 + n as i64);
            _ = done.send(());
        });
        assert!(wait.recv_timeout(Duration::from_secs(60)).is_ok(), "an append waits for a read");
        Ok(())
    }
}

#[test]
fn appends_do_not_wait_for_patterns() {
    let (_dir, store) = store();
    let store = Arc::new(store);
    let budget = Appending { store: store.clone(), appended: AtomicUsize::new(0) };
    let found = store.select_within(&[pattern("host", "h.*")], 0, 10_000, &budget).unwrap();
    assert_eq!(found.len(), SERIES);
    assert!(budget.appended.into_inner() > VALUES);
}

#[test]
fn tables_of_values_are_charged() {
    let (_dir, store) = store();
    for place in ["head", "block"] {
        let bytes = |patterns: usize| {
            let budget = Counting::default();
            store.label_values("host", &vec![pattern("i", ".*"); patterns], 0, 10_000, &budget).unwrap();
            budget.0.into_inner()
        };
        assert!(bytes(20) >= bytes(1) + 19 * SERIES, "{place}: {} {}", bytes(1), bytes(20));
        store.flush().unwrap();
    }
}

/// Bytes that are taken now, and at most.
#[derive(Debug, Default)]
struct Held(AtomicUsize, AtomicUsize);

impl Budget for Held {
    fn take(&self, bytes: usize) -> bool {
        self.1.fetch_max(self.0.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
        true
    }

    fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[test]
fn parts_of_a_read_are_all_of_it_and_their_memory_is_given_back() {
    const HOSTS: usize = 600;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { background: false, ..Options::default() }).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let of_host = |host: usize| -> Layout {
        let labels = |port: usize| {
            let (host, port) = (format!("h{host}"), port.to_string());
            Labels::new([("__name__", "m"), ("host", &host), ("port", &port)])
        };
        (0..8).map(labels).collect()
    };
    let hosts: Vec<Layout> = (0..HOSTS).map(of_host).collect();
    let rows = |host: usize, rows: std::ops::Range<i64>| {
        let times: Vec<i64> = rows.map(|row| now - 1000 * (400 - row)).collect();
        let values = (0..8 * times.len()).map(|v| (v * 7 + host) as f64).collect();
        RowGroup { series: hosts[host].clone(), times, values }
    };
    let add = |hosts: std::ops::Range<usize>, of: std::ops::Range<i64>| {
        hosts.for_each(|host| _ = store.append(&[rows(host, of.clone())]).unwrap());
    };
    // Blocks, the head, hosts that are in one of them only, and late samples.
    add(0..500, 0..100);
    store.flush().unwrap();
    add(0..500, 110..210);
    store.flush().unwrap();
    add(100..HOSTS, 210..300);
    add(0..20, 100..110);
    let matchers = [Matcher::equal("__name__", "m")];
    let (whole, some) = (Held::default(), Held::default());
    let all = store.select_for(&matchers, i64::MIN, i64::MAX, Hint::default(), &whole).unwrap();
    assert_eq!(all.series.len(), 8 * HOSTS);
    let mut parts = Vec::new();
    let mut take = |part: Selected| {
        parts.push(part.series);
        true
    };
    store.visit_for(&matchers, i64::MIN, i64::MAX, Hint::default(), &some, &mut take).unwrap();
    assert!(parts.len() > 3, "{}", parts.len());
    assert!(parts.concat() == all.series);
    let [whole, some] = [whole, some].map(|held| held.1.load(Ordering::Relaxed));
    assert!(some * 2 < whole, "{some} bytes at most, {whole} at once");
    // A flush between two parts moves the rest of the head to a block.
    parts.clear();
    let mut flushing = |part: Selected| {
        if parts.is_empty() {
            store.flush().unwrap();
        }
        parts.push(part.series);
        true
    };
    store.visit_for(&matchers, i64::MIN, i64::MAX, Hint::default(), &Unlimited, &mut flushing).unwrap();
    assert!(parts.concat() == all.series);
    let mut visits = 0;
    let mut stop = |_: Selected| {
        visits += 1;
        visits < 2
    };
    store.visit_for(&matchers, i64::MIN, i64::MAX, Hint::default(), &Unlimited, &mut stop).unwrap();
    assert_eq!(visits, 2);
}

#[test]
fn the_times_of_changes_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { background: false, ..Options::default() }).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let now = now / 1000 * 1000;
    let series: Layout = [Labels::new([("__name__", "m")])].into();
    let add =
        |time| store.append(&[RowGroup { series: series.clone(), times: vec![time], values: vec![1.0] }]).unwrap();
    let begin = store.last_change();
    assert_eq!(store.changed_since(begin), i64::MAX);
    add(now - 5000);
    let first = store.last_change();
    add(now - 1001);
    assert_eq!((store.changed_since(begin), store.changed_since(first)), (now - 5000, now - 2000));
    // Too far in the future: not stored.
    let last = store.last_change();
    add(now + 100 * 86_400_000);
    store.flush().unwrap();
    assert_eq!(store.changed_since(last), i64::MAX);
}
