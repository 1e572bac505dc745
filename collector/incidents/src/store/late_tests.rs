use super::tests::{S, incident, incidents, operator_note};
use super::*;
use crate::record::Classification;
use fabriclens_correlate::Location;

const NOW: i64 = 10_000 * S;

/// At h3, from and to in seconds.
fn from_to(id: &str, from: i64, to: Option<i64>) -> Incident {
    Incident { start_ns: from * S, detected_ns: (from + 2) * S, end_ns: to.map(|to| to * S), ..incident(id) }
}

fn again(incidents: &IncidentStore, incident: Incident, followed: bool) -> Vec<String> {
    let go_on = incidents.apply_review(NOW, vec![LateFinding { incident, followed }], [1000 * S, 2000 * S]);
    go_on.into_iter().map(|i| i.id).collect()
}

fn span(incidents: &IncidentStore, id: &str) -> (i64, Option<i64>) {
    let i = &incidents.get(id).unwrap().incident;
    (i.start_ns / S, i.end_ns.map(|end| end / S))
}

fn history(incidents: &IncidentStore, id: &str) -> Vec<(State, String)> {
    incidents.get(id).unwrap().history.iter().skip(1).map(|m| (m.state, m.detail.clone())).collect()
}

#[test]
fn unknown_incidents_notify_only_if_open() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    // Another incident with this ID at another location.
    incidents
        .update(900 * S, &[Incident { root: Location::Switch { node: "x".into() }, ..from_to("a", 800, Some(850)) }]);
    assert_eq!(again(&incidents, from_to("a", 1100, Some(1200)), true), [""; 0]);
    assert_eq!((span(&incidents, "al"), incidents.get("al").unwrap().incident.detected_ns), ((1100, Some(1200)), NOW));
    let why = "samples of 1970-01-01T00:16:40.000Z to 1970-01-01T00:33:20.000Z came late".to_owned();
    assert_eq!(history(&incidents, "al"), [(State::Late, why), (State::Ended, String::new())]);
    let quiet = |id: &str| incidents.threads(NOW, 0).iter().find(|t| t.record.incident.id == id).map(|t| t.quiet);
    assert_eq!((quiet("al"), quiet("a")), (Some(true), Some(false)));
    let elsewhere = Incident { root: Location::Host { node: "h9".into() }, ..from_to("b", 1100, None) };
    assert_eq!(again(&incidents, elsewhere.clone(), true), ["b"], "it needs live evaluation");
    assert_eq!((incidents.get("b").unwrap().is_open(), quiet("b")), (true, Some(false)));
    // A repeated finding is already known.
    let changes = incidents.changes.after(0).unwrap().len();
    assert_eq!(again(&incidents, from_to("a", 1101, Some(1198)), true), [""; 0]);
    assert_eq!(again(&incidents, elsewhere, true), [""; 0]);
    assert_eq!(again(&incidents, Incident { root: Location::Fabric, ..from_to("c", 1100, None) }, false), [""; 0]);
    assert_eq!((incidents.list(&Filter::default()).len(), incidents.changes.after(0).unwrap().len()), (3, changes));
}

#[test]
fn corrections_keep_operator_actions() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    incidents.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    incidents.acknowledge("a", operator_note(1160 * S, "ann")).unwrap();
    incidents.reclassify("a", Classification::Kind(IncidentKind::Incast), operator_note(1170 * S, "bob")).unwrap();
    let found = Incident { victim_jobs: vec!["c".to_owned()], ..from_to("x", 1080, Some(1300)) };
    assert_eq!(again(&incidents, found, true), [""; 0]);
    assert_eq!(span(&incidents, "a"), (1080, Some(1300)));
    let states: Vec<State> = history(&incidents, "a").into_iter().map(|m| m.0).collect();
    use State::{Acknowledged, Begin, End, Ended, Late, Reclassified, Victims};
    assert_eq!(states, [Ended, Acknowledged, Reclassified, Late, Begin, Victims, End]);
    let begin = history(&incidents, "a").into_iter().find(|m| m.0 == Begin).unwrap().1;
    assert_eq!(begin, "1970-01-01T00:18:00.000Z, was 1970-01-01T00:18:20.000Z");
    let record = incidents.get("a").unwrap();
    assert_eq!((record.kind(), record.incident.detected_ns), (Some(IncidentKind::Incast), 1102 * S));
    assert_eq!(record.acknowledged.as_ref().unwrap().by, "ann");
    // What continued beyond the re-evaluated span keeps its end.
    assert_eq!(again(&incidents, from_to("y", 1050, Some(1200)), true), [""; 0]);
    assert_eq!(again(&incidents, from_to("z", 1050, None), false), [""; 0]);
    assert_eq!(span(&incidents, "a"), (1050, Some(1300)));
    // It ended earlier than assumed; it is the same incident and was evaluated from its begin.
    assert_eq!(again(&incidents, from_to("a", 1050, Some(1250)), true), [""; 0]);
    assert_eq!(span(&incidents, "a"), (1050, Some(1250)));
}

#[test]
fn incidents_reopen_if_samples_were_missing() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    incidents.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    assert_eq!(incidents.open_at(1160 * S).iter().map(|i| i.id.as_str()).collect::<Vec<_>>(), ["a"]);
    assert!(incidents.open_at(1170 * S).is_empty() && !incidents.knows(&from_to("x", 1120, None), 1160 * S));
    assert_eq!(again(&incidents, from_to("a", 1100, None), true), ["a"]);
    let states: Vec<State> = history(&incidents, "a").into_iter().map(|m| m.0).collect();
    assert_eq!(states, [State::Ended, State::Late, State::Reopened]);
    assert_eq!(again(&incidents, from_to("a", 1100, None), true), [""; 0], "it is already evaluated live");
}

#[test]
fn open_incidents_absorb_interrupted_ones() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = incidents(dir.path());
    incidents.update(1150 * S, &[from_to("a", 1100, Some(1150))]);
    incidents.acknowledge("a", operator_note(1160 * S, "ann")).unwrap();
    let symptom = Incident {
        kind: IncidentKind::FabricCongestion,
        root: Location::Fabric,
        ..from_to("symptom", 1110, Some(1140))
    };
    let live = from_to("b", 5000, None);
    incidents.update(5000 * S, &[symptom, live.clone()]);
    let threads = incidents.threads(NOW, 0).len();
    assert_eq!(again(&incidents, from_to("a", 1100, None), false), [""; 0]);
    assert_eq!((span(&incidents, "a"), span(&incidents, "b")), ((1100, Some(1150)), (1100, None)));
    let merged = |id: &str| incidents.get(id).unwrap().incident.merged_into.clone();
    assert_eq!(["a", "b", "symptom"].map(merged), [Some("b".into()), None, Some("b".into())]);
    assert_eq!(incidents.get("b").unwrap().acknowledged.as_ref().unwrap().by, "ann");
    assert_eq!(incidents.threads(NOW, 0).len(), threads);
    // The live evaluation assumes another begin.
    incidents.update(5001 * S, &[live]);
    assert_eq!(span(&incidents, "b"), (1100, None));
    assert_eq!(history(&incidents, "b").iter().filter(|m| m.0 == State::Begin).count(), 1);
}
