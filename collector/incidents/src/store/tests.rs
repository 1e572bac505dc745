use super::*;
use crate::record::{Classification, OperatorNote};
use crate::silence::SilenceMatcher;
use fabriclens_correlate::Evidence;
use fabriclens_correlate::Location;
use fabriclens_store::Options;
use std::sync::atomic::{AtomicI64, Ordering};

/// Nanoseconds per second.
pub(crate) const S: i64 = 1_000_000_000;

/// A slow receiver at h3 since second 1.
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
        path: None,
        considered: vec![],
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

/// A store with its own clock (Unix ms), which is in doubt for an hour after a leap.
pub(crate) fn store_with_clock(dir: &std::path::Path, now_ms: i64) -> (Arc<Store>, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(now_ms));
    let read = now.clone();
    let clock = Arc::new(move || read.load(Ordering::Relaxed));
    (Arc::new(Store::open(dir, Options { background: false, clock, ..Options::default() }).unwrap()), now)
}

pub(crate) fn incidents(dir: &std::path::Path) -> IncidentStore {
    IncidentStore::open(&store(dir), Duration::from_secs(3600)).unwrap()
}

pub(crate) fn operator_note(at_ns: i64, by: &str) -> OperatorNote {
    OperatorNote { at_ns, by: by.to_owned(), note: String::new() }
}

fn states(incidents: &IncidentStore, id: &str) -> Vec<State> {
    incidents.get(id).unwrap().history.iter().map(|m| m.state).collect()
}

#[test]
fn only_changes_in_substance_are_changes() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    let mut i = incident("a");
    for tick in 3..8 {
        i.confidence = 0.9 + tick as f64 / 1000.0;
        incidents.update(tick * S, std::slice::from_ref(&i));
    }
    assert_eq!(incidents.changes.after(0).unwrap().len(), 1);
    assert_eq!(incidents.get("a").unwrap().incident.confidence, 0.907, "the latest confidence is returned");
    let stored = |field: &str| {
        let value = incidents.table.get("a").unwrap().unwrap();
        serde_json::from_slice::<serde_json::Value>(&value).unwrap()[field].clone()
    };
    assert_eq!(stored("confidence"), 0.903, "but is not written every second");
    i.victim_jobs.push("c".to_owned());
    i.severity = Severity::Critical;
    incidents.update(8 * S, std::slice::from_ref(&i));
    assert_eq!((stored("severity"), stored("v")), ("critical".into(), 1.into()));
    i.victim_jobs.reverse();
    incidents.update(9 * S, std::slice::from_ref(&i));
    i.kind = IncidentKind::PfcStorm;
    i.root = Location::Switch { node: "leaf1".to_owned() };
    incidents.update(10 * S, std::slice::from_ref(&i));
    incidents.update(11 * S, &[]);
    assert!(incidents.get("a").unwrap().is_open(), "incidents not in the update stay open");
    i.end_ns = Some(11 * S);
    incidents.update(12 * S, std::slice::from_ref(&i));
    i.end_ns = None;
    incidents.update(13 * S, std::slice::from_ref(&i));
    use State::{Ended, Kind as OfKind, Opened, Reopened, Root, Severity as OfSeverity, Victims};
    assert_eq!(states(&incidents, "a"), [Opened, OfSeverity, Victims, OfKind, Root, Ended, Reopened]);
    let detail = |n: usize| incidents.get("a").unwrap().history[n].detail.clone();
    assert_eq!((detail(3), detail(4)), ("pfc_storm, was slow_receiver".into(), "switch leaf1, was h3 port 1".into()));
    assert_eq!(incidents.changes.after(0).unwrap().len(), 5);
}

#[test]
fn restart_keeps_incidents_and_actions() {
    let dir = tempfile::tempdir().unwrap();
    {
        let incidents = incidents(dir.path());
        let over = Incident { id: "b".to_owned(), end_ns: Some(4 * S), ..incident("b") };
        let other = Incident { root: Location::Fabric, ..incident("c") };
        incidents.update(5 * S, &[incident("a"), over, other]);
        incidents.acknowledge("a", operator_note(6 * S, "ann")).unwrap();
        incidents.reclassify("a", Classification::Kind(IncidentKind::Incast), operator_note(7 * S, "bob")).unwrap();
        incidents
            .silence(
                "ann",
                SilenceMatcher { node: Some("h7".to_owned()), ..SilenceMatcher::default() },
                100 * S,
                operator_note(8 * S, ""),
            )
            .unwrap();
        let i = Incident { confidence: f64::NAN, ..incident("a") };
        incidents.update(20 * S, &[i]);
    }
    {
        let db = store(dir.path());
        db.table(TABLE).put("broken", "{").unwrap();
        db.table(TABLE).put("newer", r#"{"v":9}"#).unwrap();
    }
    let incidents = incidents(dir.path());
    let mut open: Vec<String> = incidents.open_incidents().into_iter().map(|i| i.id).collect();
    open.sort();
    assert_eq!(open, ["a", "c"], "damaged entries are skipped");
    let a = incidents.get("a").unwrap();
    assert_eq!((a.kind(), a.incident.kind), (Some(IncidentKind::Incast), IncidentKind::SlowReceiver));
    assert_eq!(a.acknowledged.as_ref().unwrap().by, "ann");
    assert_eq!(states(&incidents, "a"), [State::Opened, State::Acknowledged, State::Reclassified, State::Silenced]);
    assert!(incidents.silence_of(&a, 99 * S).is_some() && incidents.silence_of(&a, 100 * S).is_none());
    // Live evaluation continues one of them; the other was last updated before the restart.
    incidents.end_lost(50 * S, &["c", "never"]);
    assert_eq!(incidents.get("c").unwrap().incident.end_ns, Some(5 * S));
    assert_eq!(incidents.open_incidents().len(), 1);
}

#[test]
fn notes_are_kept_in_order_and_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    incidents.update(5 * S, &[incident("a")]);
    let note = |at_ns, text: &str| OperatorNote { note: text.to_owned(), ..operator_note(at_ns, "ann") };
    incidents.add_note("a", note(6 * S, "cable ordered")).unwrap();
    let last = incidents.get("a").unwrap().history.last().unwrap().clone();
    assert_eq!((last.state, last.detail.as_str(), last.at_ns), (State::Noted, "by ann: cable ordered", 6 * S));
    assert!(incidents.get("a").unwrap().acknowledged.is_none(), "a note acknowledges nothing");
    assert_eq!(incidents.changes.after(0).unwrap().last().unwrap().states, [State::Noted], "readers learn of it");
    let refused = |id: &str, text: &str| incidents.add_note(id, note(7 * S, text)).unwrap_err().to_string();
    assert!(refused("a", " ").contains("empty") && refused("b", "x").contains("no incident"));
    let added = (0..100).filter(|n| incidents.add_note("a", note(8 * S, &n.to_string())).is_ok()).count();
    assert_eq!(added, 31, "and the first one");
    assert!(refused("a", "one more").contains("32 notes"));
    assert_eq!(states(&incidents, "a")[0], State::Opened);
}

#[test]
fn close_recurrences_form_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    let mut at = 0;
    let mut cycle = |id: &str, pause_s: i64| {
        at += pause_s * S;
        let begin = at;
        incidents.update(at, &[Incident { start_ns: begin, ..incident(id) }]);
        at += 5 * S;
        incidents.update(at, &[Incident { start_ns: begin, end_ns: Some(at), ..incident(id) }]);
        at
    };
    let one = cycle("a", 10);
    let end = |now| incidents.threads(now, i64::MIN).last().unwrap().end_ns;
    assert_eq!(end(one), Some(one), "a thread without recurrences ends with its incident");
    incidents.acknowledge("a", operator_note(one, "ann")).unwrap();
    let two = cycle("b", 60);
    assert_eq!(end(two + S), None, "a thread with recurrences stays open for a while");
    assert_eq!(end(two + FLAP_NS), Some(two));
    let three = cycle("c", 300);
    let c = incidents.get("c").unwrap();
    assert_eq!((c.recurrences, c.thread(), c.acknowledged.is_some()), (2, "a", true));
    assert_eq!(incidents.threads(three, i64::MIN).len(), 1);
    let other = Incident { id: "x".to_owned(), root: Location::Fabric, ..incident("x") };
    incidents.update(three, &[other]);
    assert_eq!(incidents.get("x").unwrap().recurrences, 0, "another location is no recurrence");
    cycle("d", 700);
    assert_eq!(incidents.get("d").unwrap().recurrences, 0, "a late repetition is no recurrence");
}

#[test]
fn changed_kind_does_not_mute_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    let symptom = |id: &str| Incident { kind: IncidentKind::FabricCongestion, root: Location::Fabric, ..incident(id) };
    incidents.update(3 * S, &[symptom("a")]);
    incidents.update(4 * S, &[incident("a")]);
    incidents.reclassify("a", Classification::NotAProblem, operator_note(5 * S, "ann")).unwrap();
    incidents.update(6 * S, &[Incident { end_ns: Some(6 * S), ..incident("a") }]);
    incidents.update(60 * S, &[Incident { start_ns: 58 * S, ..symptom("b") }]);
    let found = incidents.get("b").unwrap();
    assert_eq!((found.recurrences, found.reclassified.is_some()), (0, false), "no recurrence and no classification");
    incidents.update(61 * S, &[symptom("b"), Incident { start_ns: 59 * S, ..incident("c") }]);
    assert!(incidents.get("c").unwrap().reclassified.is_some(), "a recurrence keeps the classification");
}

#[test]
fn store_is_bounded_and_deletes_old_incidents() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = store_with_clock(dir.path(), 3600 * 1000 + 5006 * 1000);
    let incidents = IncidentStore::open(&store, Duration::from_secs(3600)).unwrap();
    let of = |n: usize, over: bool| Incident {
        root: Location::Switch { node: n.to_string() },
        end_ns: over.then_some((10 + n as i64) * S),
        ..incident(&format!("{n:05}"))
    };
    let all: Vec<Incident> = (0..MOST + 3).map(|n| of(n, n % 2 == 0)).collect();
    incidents.update(20 * S, &all);
    assert_eq!(incidents.list(&Filter::default()).len(), MOST);
    assert!(incidents.get("00000").is_none() && incidents.get("00002").is_none() && incidents.get("00001").is_some());
    assert_eq!(incidents.table.keys_with("").unwrap().len(), MOST);
    assert_eq!(incidents.expire().unwrap(), 2495, "0, 2 and 4 had left");
    let open = Filter { open: Some(true), ..Filter::default() };
    assert_eq!(incidents.list(&open).len(), MOST / 2 + 1);
    let bytes: usize = incidents.inner.lock().entries.values().map(|e| e.bytes).sum();
    assert_eq!(incidents.inner.lock().bytes, bytes);
}

#[test]
fn clock_leaps_delete_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (store, now) = store_with_clock(dir.path(), 60_000);
    let incidents = IncidentStore::open(&store, Duration::from_secs(3600)).unwrap();
    incidents.update(20 * S, &[Incident { end_ns: Some(10 * S), ..incident("a") }]);
    let node = SilenceMatcher { node: Some("x".into()), ..SilenceMatcher::default() };
    incidents.silence("ann", node, 90 * S, operator_note(62 * S, "ann")).unwrap();
    now.fetch_add(365 * 86_400_000, Ordering::Relaxed);
    assert_eq!((incidents.expire().unwrap(), incidents.silences(70 * S).len()), (0, 1));
    now.fetch_sub(365 * 86_400_000, Ordering::Relaxed);
    assert_eq!((incidents.expire().unwrap(), incidents.silences(70 * S).len()), (0, 1));
    // Once the time really passes, all of it is deleted.
    for _ in 0..5 {
        now.fetch_add(1_800_000, Ordering::Relaxed);
        incidents.expire().unwrap();
    }
    assert!(incidents.get("a").is_none() && incidents.silences(70 * S).is_empty());
}

#[test]
fn filters_and_silences_match() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    let late =
        Incident { start_ns: 50 * S, end_ns: Some(60 * S), root: Location::Job { job: "z".into() }, ..incident("z") };
    incidents.update(60 * S, &[incident("a"), late]);
    let count = |filter: Filter| incidents.list(&filter).len();
    let any = Filter::default;
    assert_eq!(incidents.list(&any()).iter().map(|r| r.incident.id.as_str()).collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(count(Filter { from_ns: Some(61 * S), ..any() }), 1);
    assert_eq!(count(Filter { to_ns: Some(40 * S), ..any() }), 1);
    assert_eq!(count(Filter { job: Some("z".into()), ..any() }), 1);
    assert_eq!(count(Filter { node: Some("h7".into()), ..any() }), 2);
    assert_eq!(count(Filter { node: Some("h3".into()), ..any() }), 1);
    assert_eq!(count(Filter { kind: Some(IncidentKind::Incast), ..any() }), 0);
    incidents.reclassify("z", Classification::Kind(IncidentKind::Incast), operator_note(61 * S, "")).unwrap();
    assert_eq!(count(Filter { kind: Some(IncidentKind::Incast), ..any() }), 1);

    let threads = |now: i64| incidents.threads(now, 0).into_iter().filter(|t| !t.quiet).count();
    assert_eq!(threads(62 * S), 2);
    let of =
        SilenceMatcher { kind: Some(IncidentKind::SlowReceiver), node: Some("h3".into()), ..SilenceMatcher::default() };
    let silence = incidents.silence("ann", of, 90 * S, operator_note(62 * S, "ann")).unwrap();
    assert_eq!((threads(63 * S), threads(90 * S)), (1, 2));
    assert_eq!(incidents.silences(63 * S), std::slice::from_ref(&silence));
    incidents.unsilence(&silence.id, 64 * S).unwrap();
    assert_eq!((threads(65 * S), incidents.silences(65 * S).len()), (2, 0));
    incidents.reclassify("a", Classification::NotAProblem, operator_note(66 * S, "")).unwrap();
    assert_eq!(threads(67 * S), 1, "incidents classified as no problem are not notified");
    let error = |of: SilenceMatcher, until: i64| {
        incidents.silence("ann", of, until, operator_note(70 * S, "")).unwrap_err().to_string()
    };
    assert!(error(SilenceMatcher::default(), 99 * S).contains("give incident, kind, node or job"));
    let node = SilenceMatcher { node: Some("x".into()), ..SilenceMatcher::default() };
    assert!(error(node, 70 * S).contains("its end has passed"));
    let unknown = SilenceMatcher { incident: Some("q".into()), ..SilenceMatcher::default() };
    assert!(error(unknown, 99 * S).starts_with("there is no incident \"q\""));
    let long = SilenceMatcher { node: Some("x".repeat(513)), ..SilenceMatcher::default() };
    assert!(error(long, 99 * S).contains("at most 512 bytes"));
    // One caller does not take the places of all.
    let node = |n: usize| SilenceMatcher { node: Some(n.to_string()), ..SilenceMatcher::default() };
    let add = |who: &str, n| incidents.silence(who, node(n), 99 * S, operator_note(70 * S, ""));
    assert_eq!((0..300).filter(|n| add("mallory", *n).is_ok()).count(), 250);
    assert!(add("ann", 1).is_ok());
    let callers = ["b", "c", "d", "e"];
    let added = callers.iter().flat_map(|who| (0..300).map(|n| add(who, n).is_ok())).filter(|ok| *ok).count();
    assert_eq!((added, incidents.silences(70 * S).len()), (749, 1000), "of all callers");
    assert!(incidents.unsilence(&silence.id, 70 * S).is_err());
}

#[test]
fn ended_incidents_are_listed_in_the_order_of_their_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = incidents(dir.path());
    let ended = |id: &str, end_s: i64, severity| Incident {
        end_ns: Some(end_s * S),
        root: Location::Port { node: id.to_owned(), port: "1".to_owned() },
        severity,
        ..incident(id)
    };
    let all = [
        ended("later", 9, Severity::Warning),
        ended("observed", 7, Severity::Info),
        ended("long-ago", 5, Severity::Warning),
        incident("open"),
    ];
    store.update(10 * S, &all);
    let ids: Vec<String> = store.ended_since(6 * S).into_iter().map(|incident| incident.id).collect();
    assert_eq!(ids, ["observed", "later"]);
}
