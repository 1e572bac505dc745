//! Applies the findings in late samples: new incidents are recorded, known ones corrected, and those that continue are
//! reopened. Operator actions stay.

use std::sync::Arc;

use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Location};

use super::{IncidentStore, Inner};
use crate::record::{HistoryEntry, Record, State};
use fabriclens_core::time::format_time;

/// Incidents at one location closer together than this are the same; no incident ends sooner.
const NEAR_NS: i64 = 15_000_000_000;

/// An incident found in late samples.
pub struct LateFinding {
    /// Verdict; without end if it had none when the evaluation finished.
    pub incident: Incident,
    /// Whether its end was searched for. If not, it is already covered by a known incident.
    pub followed: bool,
}

fn overlap(a: &Incident, b: &Incident) -> bool {
    let before = |a: &Incident, b: &Incident| a.end_ns.is_some_and(|end| end.saturating_add(NEAR_NS) < b.start_ns);
    !before(a, b) && !before(b, a)
}

/// Whether two incidents are the same trouble, seen with different samples.
fn same(a: &Incident, b: &Incident) -> bool {
    let place = match (&a.root, &b.root) {
        (Location::Fabric, Location::Fabric) => a.kind == b.kind,
        (one, other) if one == other => a.kind.spec().freezes_baseline == b.kind.spec().freezes_baseline,
        // A cable may have been known to only one of them.
        (one, other) => a.kind == b.kind && ends(one).iter().any(|end| ends(other).contains(end)),
    };
    overlap(a, b) && (a.id == b.id || place)
}

fn ends(place: &Location) -> Vec<(&str, &str)> {
    let all = match place {
        Location::Port { node, port } => vec![(node.as_str(), port.as_str())],
        Location::Link { a, a_port, b, b_port } => vec![(a.as_str(), a_port.as_str()), (b, b_port)],
        _ => Vec::new(),
    };
    all.into_iter().filter(|end| !end.1.is_empty()).collect()
}

/// Whether a cause explains a symptom.
fn explains(cause: IncidentKind, symptom: &Incident) -> bool {
    cause.spec().holds_others_back && symptom.kind.spec().is_coarse
}

impl Inner {
    /// Known incidents with the same trouble; open ones first, then by begin.
    fn alike(&self, incident: &Incident) -> Vec<Arc<Record>> {
        let is = |r: &&Arc<Record>| r.incident.merged_into.is_none() && same(&r.incident, incident);
        let mut found: Vec<_> = self.entries.values().map(|e| &e.record).filter(is).cloned().collect();
        found.sort_by_key(|r| (!r.is_open(), r.incident.start_ns));
        found
    }
}

impl IncidentStore {
    /// Incidents that were open at an instant, without their end; those that ended just before may have ended for lack
    /// of samples.
    pub fn open_at(&self, at_ns: i64) -> Vec<Incident> {
        let inner = self.inner.lock();
        let was = |i: &Incident| {
            i.start_ns < at_ns && i.end_ns.is_none_or(|end| end >= at_ns - NEAR_NS) && i.merged_into.is_none()
        };
        let open = inner.entries.values().map(|e| &e.record.incident).filter(|i| was(i));
        open.map(|i| Incident { end_ns: None, ..i.clone() }).collect()
    }

    /// Whether an incident is known to have continued after an instant.
    pub fn knows(&self, incident: &Incident, at_ns: i64) -> bool {
        let known = self.inner.lock().alike(incident);
        known.iter().any(|r| r.incident.end_ns.is_none_or(|end| end > at_ns))
    }

    /// Applies the findings of a re-evaluated time span, Unix ns; returns the incidents that continue and need live
    /// evaluation.
    pub fn apply_review(&self, now_ns: i64, found: Vec<LateFinding>, [from_ns, to_ns]: [i64; 2]) -> Vec<Incident> {
        let mut inner = self.inner.lock();
        let [from, to] = [from_ns, to_ns].map(|ns| format_time(ns / 1_000_000));
        let why = format!("samples of {from} to {to} came late");
        let go_on = found.into_iter().filter_map(|one| self.apply_finding(&mut inner, now_ns, one, &why)).collect();
        drop(inner);
        self.try_commit();
        go_on
    }

    fn apply_finding(&self, inner: &mut Inner, now_ns: i64, found: LateFinding, why: &str) -> Option<Incident> {
        let LateFinding { mut incident, followed } = found;
        let mut known = inner.alike(&incident).into_iter();
        let Some(first) = known.next() else {
            return if followed { self.add_late(inner, now_ns, incident, why) } else { None };
        };
        let id = first.incident.id.clone();
        incident.merged_into = None;
        let rest: Vec<Arc<Record>> = known.collect();
        let start_ns =
            rest.iter().map(|r| r.incident.start_ns).chain([incident.start_ns, first.incident.start_ns]).min()?;
        let last_ns = rest.iter().chain([&first]).filter_map(|r| r.incident.end_ns).max();
        let right = match (first.incident.end_ns, incident.end_ns) {
            // The live evaluation knows the present state better.
            (None, _) => Incident { start_ns, ..first.incident.clone() },
            (Some(_), _) if !followed => Incident { start_ns, end_ns: last_ns, ..first.incident.clone() },
            (Some(end_ns), judged) => {
                let (id, detected_ns) = (id.clone(), first.incident.detected_ns);
                // An incident that continued beyond the re-evaluated span is only partly covered by it.
                let part = incident.id != id && judged.is_some_and(|judged| judged + NEAR_NS < end_ns);
                let what =
                    if part { Incident { end_ns: Some(end_ns), ..first.incident.clone() } } else { incident.clone() };
                Incident { id, start_ns, detected_ns, split_from: first.incident.split_from.clone(), ..what }
            }
        };
        let go_on = first.incident.end_ns.is_some() && right.end_ns.is_none();
        let mut record = (*first).clone();
        for other in &rest {
            record.acknowledged = record.acknowledged.take().or_else(|| other.acknowledged.clone());
            record.reclassified = record.reclassified.take().or_else(|| other.reclassified.clone());
        }
        let states = record.correct(right.clone(), now_ns, why);
        if !states.is_empty() {
            tracing::info!(id, what = record.words(), "incident corrected by late samples");
            self.try_put(inner, record, now_ns, &states);
        }
        let parts: Vec<Arc<Record>> = rest.into_iter().filter(|r| !r.is_open()).collect();
        self.merge_late(inner, now_ns, &parts, &id, why);
        self.explain(inner, now_ns, &right, why);
        go_on.then_some(right)
    }

    /// Adds an unknown incident.
    fn add_late(&self, inner: &mut Inner, now_ns: i64, mut incident: Incident, why: &str) -> Option<Incident> {
        if !self.make_room(inner) {
            return None;
        }
        while inner.entries.contains_key(&incident.id) {
            incident.id.push('l');
        }
        incident.detected_ns = now_ns;
        let mut record = Record::new(incident.clone(), now_ns);
        record.found_late = !record.is_open();
        record.history.insert(1, HistoryEntry { at_ns: now_ns, state: State::Late, detail: why.to_owned() });
        tracing::info!(id = incident.id, what = record.words(), "incident found in late samples");
        let states: Vec<State> = record.history.iter().map(|m| m.state).collect();
        self.try_put(inner, record, now_ns, &states);
        self.explain(inner, now_ns, &incident, why);
        incident.end_ns.is_none().then_some(incident)
    }

    /// Merges symptoms that occurred and ended within a cause into it.
    fn explain(&self, inner: &mut Inner, now_ns: i64, cause: &Incident, why: &str) {
        let within = |i: &Incident| {
            let until = cause.end_ns.unwrap_or(i64::MAX).saturating_add(NEAR_NS);
            i.start_ns >= cause.start_ns - NEAR_NS && i.end_ns.is_some_and(|end| end <= until)
        };
        let symptom = |i: &Incident| i.merged_into.is_none() && explains(cause.kind, i) && within(i);
        let all = inner.entries.values().map(|e| &e.record);
        let parts: Vec<Arc<Record>> = all.filter(|r| symptom(&r.incident)).cloned().collect();
        self.merge_late(inner, now_ns, &parts, &cause.id, why);
    }

    fn merge_late(&self, inner: &mut Inner, now_ns: i64, parts: &[Arc<Record>], into: &str, why: &str) {
        for part in parts {
            let mut record = (**part).clone();
            record.incident.merged_into = Some(into.to_owned());
            record.note(now_ns, State::Late, format!("{why}: it is part of {into}"));
            self.try_put(inner, record, now_ns, &[State::Late]);
        }
    }
}
