use super::*;
use crate::record::{Judged, Said};
use crate::silence::Match;
use fabriclens_correlate::Evidence;
use fabriclens_correlate::Location;
use fabriclens_store::Options;
use std::sync::atomic::{AtomicI64, Ordering};

/// Seconds in nanoseconds.
pub(crate) const S: i64 = 1_000_000_000;

/// A slow receiver at h3, since a second.
pub(crate) fn incident(id: &str) -> Incident {
    Incident {
        id: id.to_owned(),
        kind: IncidentKind::SlowReceiver,
        start_ns: S,
        detected_ns: 3 * S,
        end_ns: None,
        merged_into: None,
        split_from: None,
        severity: Severity::Warning,
        confidence: 0.9,
        root: Location::Port { node: "h3".to_owned(), port: "1".to_owned() },
        priorities: Default::default(),
        culprit_jobs: vec!["a".to_owned()],
        victim_jobs: vec!["b".to_owned()],
        low_before: Default::default(),
        victim_ports: vec![Location::Port { node: "h7".to_owned(), port: "1".to_owned() }],
        senders: vec![],
        evidence: vec![Evidence {
            metric: "fabric_pfc_pause_seconds_total".to_owned(),
            at: "h3 port 1".to_owned(),
            value: 0.4,
            threshold: 0.01,
            window_ns: [S, 3 * S],
        }],
        explanation: "h3 port 1 pauses its switch 40 % of the time.".to_owned(),
        action: "Look at the host.".to_owned(),
    }
}

pub(crate) fn store(dir: &std::path::Path) -> Arc<Store> {
    Arc::new(Store::open(dir, Options { background: false, ..Options::default() }).unwrap())
}

/// The same with a clock (Unix ms) that is in doubt after a leap for an hour, as usual.
pub(crate) fn store_with_clock(dir: &std::path::Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(now_ms));
    let read = now.clone();
    let clock = Arc::new(move || read.load(Ordering::Relaxed));
    (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
}

pub(crate) fn book(dir: &std::path::Path) -> Book {
    Book::open(&store(dir), Duration::from_secs(3600)).unwrap()
}

pub(crate) fn said(at_ns: i64, by: &str) -> Said {
    Said { at_ns, by: by.to_owned(), note: String::new() }
}

fn states(book: &Book, id: &str) -> Vec<State> {
    book.get(id).unwrap().history.iter().map(|m| m.state).collect()
}

#[test]
fn only_what_changes_in_substance_is_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    let mut i = incident("a");
    for tick in 3..8 {
        i.confidence = 0.9 + tick as f64 / 1000.0;
        book.update(tick * S, std::slice::from_ref(&i));
    }
    assert_eq!(book.changes.after(0).unwrap().len(), 1);
    assert_eq!(book.get("a").unwrap().incident.confidence, 0.907, "the last number is told");
    let stored = |field: &str| {
        let value = book.tree.get("a").unwrap().unwrap();
        serde_json::from_slice::<serde_json::Value>(&value).unwrap()[field].clone()
    };
    assert_eq!(stored("confidence"), 0.903, "but not written each second");
    i.victim_jobs.push("c".to_owned());
    i.severity = Severity::Critical;
    book.update(8 * S, std::slice::from_ref(&i));
    assert_eq!((stored("severity"), stored("v")), ("critical".into(), 1.into()));
    i.victim_jobs.reverse();
    book.update(9 * S, std::slice::from_ref(&i));
    i.kind = IncidentKind::PfcStorm;
    i.root = Location::Switch { node: "leaf1".to_owned() };
    book.update(10 * S, std::slice::from_ref(&i));
    book.update(11 * S, &[]);
    assert!(book.get("a").unwrap().is_open(), "what is not named stays");
    i.end_ns = Some(11 * S);
    book.update(12 * S, std::slice::from_ref(&i));
    i.end_ns = None;
    book.update(13 * S, std::slice::from_ref(&i));
    use State::{Ended, Kind as OfKind, Opened, Reopened, Root, Severity as OfSeverity, Victims};
    assert_eq!(states(&book, "a"), [Opened, OfSeverity, Victims, OfKind, Root, Ended, Reopened]);
    let detail = |n: usize| book.get("a").unwrap().history[n].detail.clone();
    assert_eq!((detail(3), detail(4)), ("pfc_storm, was slow_receiver".into(), "switch leaf1, was h3 port 1".into()));
    assert_eq!(book.changes.after(0).unwrap().len(), 5);
}

#[test]
fn a_restart_keeps_incidents_and_what_people_said() {
    let dir = tempfile::tempdir().unwrap();
    {
        let book = book(dir.path());
        let over = Incident { id: "b".to_owned(), end_ns: Some(4 * S), ..incident("b") };
        let other = Incident { root: Location::Fabric, ..incident("c") };
        book.update(5 * S, &[incident("a"), over, other]);
        book.acknowledge("a", said(6 * S, "ann")).unwrap();
        book.reclassify("a", Judged::Kind(IncidentKind::Incast), said(7 * S, "bob")).unwrap();
        book.silence(Match { node: Some("h7".to_owned()), ..Match::default() }, 100 * S, said(8 * S, "")).unwrap();
        let i = Incident { confidence: f64::NAN, ..incident("a") };
        book.update(20 * S, &[i]);
    }
    {
        let db = store(dir.path());
        db.table(TABLE).unwrap().insert("broken", "{").unwrap();
        db.table(TABLE).unwrap().insert("newer", r#"{"v":9}"#).unwrap();
    }
    let book = book(dir.path());
    let mut open: Vec<String> = book.open_ones().into_iter().map(|i| i.id).collect();
    open.sort();
    assert_eq!(open, ["a", "c"], "damage is left out");
    let a = book.get("a").unwrap();
    assert_eq!((a.kind(), a.incident.kind), (Some(IncidentKind::Incast), IncidentKind::SlowReceiver));
    assert_eq!(a.acknowledged.as_ref().unwrap().by, "ann");
    assert_eq!(states(&book, "a"), [State::Opened, State::Acknowledged, State::Reclassified, State::Silenced]);
    assert!(book.silence_of(&a, 99 * S).is_some() && book.silence_of(&a, 100 * S).is_none());
    // The engine goes on with one of them; the other was seen last before the restart.
    book.give_up(50 * S, &["c", "never"]);
    assert_eq!(book.get("c").unwrap().incident.end_ns, Some(5 * S));
    assert_eq!(book.open_ones().len(), 1);
}

#[test]
fn what_recurs_closely_is_one_thread_and_told_less() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    let mut at = 0;
    let mut cycle = |id: &str, pause_s: i64| {
        at += pause_s * S;
        let begin = at;
        book.update(at, &[Incident { start_ns: begin, ..incident(id) }]);
        at += 5 * S;
        book.update(at, &[Incident { start_ns: begin, end_ns: Some(at), ..incident(id) }]);
        at
    };
    let one = cycle("a", 10);
    let end = |now| book.threads(now, i64::MIN).last().unwrap().end_ns;
    assert_eq!(end(one), Some(one), "a single one is over when it is over");
    book.acknowledge("a", said(one, "ann")).unwrap();
    let two = cycle("b", 60);
    assert_eq!(end(two + S), None, "what came back may come back again");
    assert_eq!(end(two + FLAP_NS), Some(two));
    let three = cycle("c", 300);
    let c = book.get("c").unwrap();
    assert_eq!((c.recurrences, c.thread(), c.acknowledged.is_some()), (2, "a", true));
    assert_eq!(book.threads(three, i64::MIN).len(), 1);
    let other = Incident { id: "x".to_owned(), root: Location::Fabric, ..incident("x") };
    book.update(three, &[other]);
    assert_eq!(book.get("x").unwrap().recurrences, 0, "elsewhere");
    cycle("d", 700);
    assert_eq!(book.get("d").unwrap().recurrences, 0, "much later");
}

#[test]
fn what_turned_out_to_be_another_kind_mutes_nothing_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    let felt = |id: &str| Incident { kind: IncidentKind::FabricCongestion, root: Location::Fabric, ..incident(id) };
    book.update(3 * S, &[felt("a")]);
    book.update(4 * S, &[incident("a")]);
    book.reclassify("a", Judged::NotAProblem, said(5 * S, "ann")).unwrap();
    book.update(6 * S, &[Incident { end_ns: Some(6 * S), ..incident("a") }]);
    book.update(60 * S, &[Incident { start_ns: 58 * S, ..felt("b") }]);
    let told = book.get("b").unwrap();
    assert_eq!((told.recurrences, told.reclassified.is_some()), (0, false), "nobody said that of it");
    book.update(61 * S, &[felt("b"), Incident { start_ns: 59 * S, ..incident("c") }]);
    assert!(book.get("c").unwrap().reclassified.is_some(), "it was said of this");
}

#[test]
fn the_book_is_bounded_and_forgets_what_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = store_with_clock(dir.path(), 3600 * 1000 + 5006 * 1000);
    let book = Book::open(&store, Duration::from_secs(3600)).unwrap();
    let of = |n: usize, over: bool| Incident {
        root: Location::Switch { node: n.to_string() },
        end_ns: over.then_some((10 + n as i64) * S),
        ..incident(&format!("{n:05}"))
    };
    let all: Vec<Incident> = (0..MOST + 3).map(|n| of(n, n % 2 == 0)).collect();
    book.update(20 * S, &all);
    assert_eq!(book.list(&Filter::default()).len(), MOST);
    assert!(book.get("00000").is_none() && book.get("00002").is_none() && book.get("00001").is_some());
    assert_eq!(book.tree.len(), MOST);
    assert_eq!(book.expire().unwrap(), 2495, "0, 2 and 4 had left");
    let open = Filter { open: Some(true), ..Filter::default() };
    assert_eq!(book.list(&open).len(), MOST / 2 + 1);
    let bytes: usize = book.inner.lock().entries.values().map(|e| e.bytes).sum();
    assert_eq!(book.inner.lock().bytes, bytes);
}

#[test]
fn a_clock_that_leaps_ahead_forgets_neither_incidents_nor_silences() {
    let dir = tempfile::tempdir().unwrap();
    let (store, now) = store_with_clock(dir.path(), 60_000);
    let book = Book::open(&store, Duration::from_secs(3600)).unwrap();
    book.update(20 * S, &[Incident { end_ns: Some(10 * S), ..incident("a") }]);
    let node = Match { node: Some("x".into()), ..Match::default() };
    book.silence(node, 90 * S, said(62 * S, "ann")).unwrap();
    now.fetch_add(365 * 86_400_000, Ordering::Relaxed);
    assert_eq!((book.expire().unwrap(), book.silences(70 * S).len()), (0, 1));
    now.fetch_sub(365 * 86_400_000, Ordering::Relaxed);
    assert_eq!((book.expire().unwrap(), book.silences(70 * S).len()), (0, 1));
    // In its own time all of it goes.
    for _ in 0..5 {
        now.fetch_add(1_800_000, Ordering::Relaxed);
        book.expire().unwrap();
    }
    assert!(book.get("a").is_none() && book.silences(70 * S).is_empty());
}

#[test]
fn filters_and_silences_fit_what_they_name() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    let late =
        Incident { start_ns: 50 * S, end_ns: Some(60 * S), root: Location::Job { job: "z".into() }, ..incident("z") };
    book.update(60 * S, &[incident("a"), late]);
    let count = |filter: Filter| book.list(&filter).len();
    let any = Filter::default;
    assert_eq!(book.list(&any()).iter().map(|r| r.incident.id.as_str()).collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(count(Filter { from_ns: Some(61 * S), ..any() }), 1);
    assert_eq!(count(Filter { to_ns: Some(40 * S), ..any() }), 1);
    assert_eq!(count(Filter { job: Some("z".into()), ..any() }), 1);
    assert_eq!(count(Filter { node: Some("h7".into()), ..any() }), 2);
    assert_eq!(count(Filter { node: Some("h3".into()), ..any() }), 1);
    assert_eq!(count(Filter { kind: Some(IncidentKind::Incast), ..any() }), 0);
    book.reclassify("z", Judged::Kind(IncidentKind::Incast), said(61 * S, "")).unwrap();
    assert_eq!(count(Filter { kind: Some(IncidentKind::Incast), ..any() }), 1);

    let threads = |now: i64| book.threads(now, 0).into_iter().filter(|t| !t.quiet).count();
    assert_eq!(threads(62 * S), 2);
    let of = Match { kind: Some(IncidentKind::SlowReceiver), node: Some("h3".into()), ..Match::default() };
    let silence = book.silence(of, 90 * S, said(62 * S, "ann")).unwrap();
    assert_eq!((threads(63 * S), threads(90 * S)), (1, 2));
    assert_eq!(book.silences(63 * S), std::slice::from_ref(&silence));
    book.unsilence(&silence.id, 64 * S).unwrap();
    assert_eq!((threads(65 * S), book.silences(65 * S).len()), (2, 0));
    book.reclassify("a", Judged::NotAProblem, said(66 * S, "")).unwrap();
    assert_eq!(threads(67 * S), 1, "no problem is not told");
    let error = |of: Match, until: i64| book.silence(of, until, said(70 * S, "")).unwrap_err().to_string();
    assert!(error(Match::default(), 99 * S).contains("give incident, kind, node or job"));
    let node = Match { node: Some("x".into()), ..Match::default() };
    assert!(error(node, 70 * S).contains("over already"));
    let nobody = Match { incident: Some("q".into()), ..Match::default() };
    assert!(error(nobody, 99 * S).starts_with("there is no incident \"q\""));
    assert!(book.unsilence(&silence.id, 70 * S).is_err());
}
