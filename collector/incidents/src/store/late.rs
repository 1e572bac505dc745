//! What late samples say is held against what is known: what is new is recorded, what was known is corrected, and what proves
//! to go on is open again. What people said stays.

use std::sync::Arc;

use fabriclens_correlate::IncidentKind;
use fabriclens_correlate::{Incident, Location};

use super::{Book, Inner, disk};
use crate::record::{Moment, Record, State};
use fabriclens_core::time::format_time;

/// Incidents of one place that are nearer to each other than this are one, nanoseconds: none is over sooner.
const NEAR_NS: i64 = 15_000_000_000;

/// An incident that was found in late samples.
pub struct Found {
    /// What is wrong; no end: it had none when all was judged.
    pub incident: Incident,
    /// Whether its end was looked for. If not, another that is known tells of it.
    pub followed: bool,
}

fn overlap(a: &Incident, b: &Incident) -> bool {
    let before = |a: &Incident, b: &Incident| a.end_ns.is_some_and(|end| end.saturating_add(NEAR_NS) < b.start_ns);
    !before(a, b) && !before(b, a)
}

/// Whether two are the same trouble, seen with other samples.
fn same(a: &Incident, b: &Incident) -> bool {
    let place = match (&a.root, &b.root) {
        (Location::Fabric, Location::Fabric) => a.kind == b.kind,
        (one, other) if one == other => a.kind.spec().freezes_baseline == b.kind.spec().freezes_baseline,
        // A cable may have been known to one of them only.
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

/// Whether what is only felt was felt because of another.
fn explains(cause: IncidentKind, felt: &Incident) -> bool {
    cause.spec().holds_others_back && felt.kind.spec().is_coarse
}

impl Inner {
    /// The same trouble as far as it is known; what goes on first, then by begin.
    fn alike(&self, incident: &Incident) -> Vec<Arc<Record>> {
        let is = |r: &&Arc<Record>| r.incident.merged_into.is_none() && same(&r.incident, incident);
        let mut found: Vec<_> = self.entries.values().map(|e| &e.record).filter(is).cloned().collect();
        found.sort_by_key(|r| (!r.is_open(), r.incident.start_ns));
        found
    }
}

impl Book {
    /// What went on at an instant, as if it had not ended; what ended just before may have ended because nothing more was
    /// told.
    pub fn open_at(&self, at_ns: i64) -> Vec<Incident> {
        let inner = self.inner.lock();
        let was = |i: &Incident| {
            i.start_ns < at_ns && i.end_ns.is_none_or(|end| end >= at_ns - NEAR_NS) && i.merged_into.is_none()
        };
        let open = inner.entries.values().map(|e| &e.record.incident).filter(|i| was(i));
        open.map(|i| Incident { end_ns: None, ..i.clone() }).collect()
    }

    /// Whether it is known that an incident went on after an instant.
    pub fn knows(&self, incident: &Incident, at_ns: i64) -> bool {
        let known = self.inner.lock().alike(incident);
        known.iter().any(|r| r.incident.end_ns.is_none_or(|end| end > at_ns))
    }

    /// Takes over what was found when this time was judged again, first and last instant in Unix nanoseconds; returns what goes on
    /// and is watched by nobody.
    pub fn judged_again(&self, now_ns: i64, found: Vec<Found>, [from_ns, to_ns]: [i64; 2]) -> Vec<Incident> {
        let mut inner = self.inner.lock();
        let [from, to] = [from_ns, to_ns].map(|ns| format_time(ns / 1_000_000));
        let why = format!("samples of {from} to {to} came late");
        let go_on = found.into_iter().filter_map(|one| self.judged_one(&mut inner, now_ns, one, &why)).collect();
        drop(inner);
        if let Err(error) = self.tree.flush() {
            self.failed(&disk(error));
        }
        go_on
    }

    fn judged_one(&self, inner: &mut Inner, now_ns: i64, found: Found, why: &str) -> Option<Incident> {
        let Found { mut incident, followed } = found;
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
            // The live watch knows better what it is now.
            (None, _) => Incident { start_ns, ..first.incident.clone() },
            (Some(_), _) if !followed => Incident { start_ns, end_ns: last_ns, ..first.incident.clone() },
            (Some(end_ns), judged) => {
                let (id, detected_ns) = (id.clone(), first.incident.detected_ns);
                // Of one that went on later than what was judged, that tells a part.
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

    /// One that nobody knew of.
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
        record.history.insert(1, Moment { at_ns: now_ns, state: State::Late, detail: why.to_owned() });
        tracing::info!(id = incident.id, what = record.words(), "incident found in late samples");
        let states: Vec<State> = record.history.iter().map(|m| m.state).collect();
        self.try_put(inner, record, now_ns, &states);
        self.explain(inner, now_ns, &incident, why);
        incident.end_ns.is_none().then_some(incident)
    }

    /// What was only felt while it went on, and is over, is a part of it.
    fn explain(&self, inner: &mut Inner, now_ns: i64, cause: &Incident, why: &str) {
        let within = |i: &Incident| {
            let until = cause.end_ns.unwrap_or(i64::MAX).saturating_add(NEAR_NS);
            i.start_ns >= cause.start_ns - NEAR_NS && i.end_ns.is_some_and(|end| end <= until)
        };
        let felt = |i: &Incident| i.merged_into.is_none() && explains(cause.kind, i) && within(i);
        let all = inner.entries.values().map(|e| &e.record);
        let parts: Vec<Arc<Record>> = all.filter(|r| felt(&r.incident)).cloned().collect();
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
