use super::tests::{S, book, incident, said};
use super::*;
use crate::record::Judged;
use fabriclens_correlate::Location;

const NOW: i64 = 10_000 * S;

/// At h3, from and to these seconds.
fn from_to(id: &str, from: i64, to: Option<i64>) -> Incident {
    Incident { start_ns: from * S, detected_ns: (from + 2) * S, end_ns: to.map(|to| to * S), ..incident(id) }
}

fn again(book: &Book, incident: Incident, followed: bool) -> Vec<String> {
    let go_on = book.judged_again(NOW, vec![Found { incident, followed }], [1000 * S, 2000 * S]);
    go_on.into_iter().map(|i| i.id).collect()
}

fn span(book: &Book, id: &str) -> (i64, Option<i64>) {
    let i = &book.get(id).unwrap().incident;
    (i.start_ns / S, i.end_ns.map(|end| end / S))
}

fn history(book: &Book, id: &str) -> Vec<(State, String)> {
    book.get(id).unwrap().history.iter().skip(1).map(|m| (m.state, m.detail.clone())).collect()
}

#[test]
fn what_nobody_knew_is_recorded_and_told_only_if_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    // Another of that name, elsewhere.
    book.update(900 * S, &[Incident { root: Location::Switch { node: "x".into() }, ..from_to("a", 800, Some(850)) }]);
    assert_eq!(again(&book, from_to("a", 1100, Some(1200)), true), [""; 0]);
    assert_eq!((span(&book, "al"), book.get("al").unwrap().incident.detected_ns), ((1100, Some(1200)), NOW));
    let why = "samples of 1970-01-01T00:16:40.000Z to 1970-01-01T00:33:20.000Z came late".to_owned();
    assert_eq!(history(&book, "al"), [(State::Late, why), (State::Ended, String::new())]);
    let quiet = |id: &str| book.threads(NOW, 0).iter().find(|t| t.record.incident.id == id).map(|t| t.quiet);
    assert_eq!((quiet("al"), quiet("a")), (Some(true), Some(false)));
    let elsewhere = Incident { root: Location::Host { node: "h9".into() }, ..from_to("b", 1100, None) };
    assert_eq!(again(&book, elsewhere.clone(), true), ["b"], "somebody must watch it");
    assert_eq!((book.get("b").unwrap().is_open(), quiet("b")), (true, Some(false)));
    // What is judged once more is known.
    let changes = book.changes.after(0).unwrap().len();
    assert_eq!(again(&book, from_to("a", 1101, Some(1198)), true), [""; 0]);
    assert_eq!(again(&book, elsewhere, true), [""; 0]);
    assert_eq!(again(&book, Incident { root: Location::Fabric, ..from_to("c", 1100, None) }, false), [""; 0]);
    assert_eq!((book.list(&Filter::default()).len(), book.changes.after(0).unwrap().len()), (3, changes));
}

#[test]
fn what_was_known_is_corrected_and_people_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    book.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    book.acknowledge("a", said(1160 * S, "ann")).unwrap();
    book.reclassify("a", Judged::Kind(IncidentKind::Incast), said(1170 * S, "bob")).unwrap();
    let found = Incident { victim_jobs: vec!["c".to_owned()], ..from_to("x", 1080, Some(1300)) };
    assert_eq!(again(&book, found, true), [""; 0]);
    assert_eq!(span(&book, "a"), (1080, Some(1300)));
    let states: Vec<State> = history(&book, "a").into_iter().map(|m| m.0).collect();
    use State::{Acknowledged, Begin, End, Ended, Late, Reclassified, Victims};
    assert_eq!(states, [Ended, Acknowledged, Reclassified, Late, Begin, Victims, End]);
    let begin = history(&book, "a").into_iter().find(|m| m.0 == Begin).unwrap().1;
    assert_eq!(begin, "1970-01-01T00:18:00.000Z, was 1970-01-01T00:18:20.000Z");
    let record = book.get("a").unwrap();
    assert_eq!((record.kind(), record.incident.detected_ns), (Some(IncidentKind::Incast), 1102 * S));
    assert_eq!(record.acknowledged.as_ref().unwrap().by, "ann");
    // What went on after all that was judged again ends when it was seen to end.
    assert_eq!(again(&book, from_to("y", 1050, Some(1200)), true), [""; 0]);
    assert_eq!(again(&book, from_to("z", 1050, None), false), [""; 0]);
    assert_eq!(span(&book, "a"), (1050, Some(1300)));
    // It ended sooner than was thought: it is the same, and was watched from its begin.
    assert_eq!(again(&book, from_to("a", 1050, Some(1250)), true), [""; 0]);
    assert_eq!(span(&book, "a"), (1050, Some(1250)));
}

#[test]
fn what_ended_for_want_of_samples_is_open_again() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    book.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    assert_eq!(book.open_at(1160 * S).iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(book.open_at(1170 * S).is_empty() && !book.knows(&from_to("x", 1120, None), 1160 * S));
    assert_eq!(again(&book, from_to("a", 1100, None), true), ["a"]);
    let states: Vec<State> = history(&book, "a").into_iter().map(|m| m.0).collect();
    assert_eq!(states, [State::Ended, State::Late, State::Reopened]);
    assert_eq!(again(&book, from_to("a", 1100, None), true), [""; 0], "it is watched");
}

#[test]
fn what_goes_on_takes_over_what_ended_before_it_for_want_of_samples() {
    let dir = tempfile::tempdir().unwrap();
    let book = book(dir.path());
    book.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    book.acknowledge("a", said(1160 * S, "ann")).unwrap();
    let felt =
        Incident { kind: IncidentKind::FabricCongestion, root: Location::Fabric, ..from_to("felt", 1110, Some(1140)) };
    let live = from_to("b", 5000, None);
    book.update(5000 * S, &[felt, live.clone()]);
    let threads = book.threads(NOW, 0).len();
    assert_eq!(again(&book, from_to("a", 1100, None), false), [""; 0]);
    assert_eq!((span(&book, "a"), span(&book, "b")), ((1100, Some(1150)), (1100, None)));
    let merged = |id: &str| book.get(id).unwrap().incident.merged_into.clone();
    assert_eq!(["a", "b", "felt"].map(merged), [Some("b".into()), None, Some("b".into())]);
    assert_eq!(book.get("b").unwrap().acknowledged.as_ref().unwrap().by, "ann");
    assert_eq!(book.threads(NOW, 0).len(), threads);
    // Who watches it thinks of another begin.
    book.update(5001 * S, &[live]);
    assert_eq!(span(&book, "b"), (1100, None));
    assert_eq!(history(&book, "b").iter().filter(|m| m.0 == State::Begin).count(), 1);
}
