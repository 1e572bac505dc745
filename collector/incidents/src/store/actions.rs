//! Operator actions on incidents. They are kept apart from the verdict of the detectors, and are on disk before the
//! answer.

use std::sync::Arc;

use super::{IncidentStore, IncidentStoreError, Inner, encode};
use crate::record::{Classification, OperatorNote, Reclassified, Record, State};
use crate::silence::{Silence, SilenceMatcher};

/// Most silences in force, and of one sender.
const MOST: usize = 1000;
const MOST_OF_ONE: usize = MOST / 4;
/// Most notes of an incident, so that its history keeps what happened.
const NOTES: usize = 32;

impl IncidentStore {
    /// Acknowledges an incident.
    ///
    /// # Errors
    /// [`IncidentStoreError`].
    pub fn acknowledge(&self, id: &str, note: OperatorNote) -> Result<Arc<Record>, IncidentStoreError> {
        self.apply(id, note.at_ns, State::Acknowledged, line(&note, ""), |r| {
            r.acknowledged = Some(note);
            Ok(())
        })
    }

    /// Adds a note to the history of an incident.
    ///
    /// # Errors
    /// [`IncidentStoreError`]; [`IncidentStoreError::Note`] for an empty note, and for one more than an incident keeps.
    pub fn add_note(&self, id: &str, note: OperatorNote) -> Result<Arc<Record>, IncidentStoreError> {
        if note.note.trim().is_empty() {
            return Err(IncidentStoreError::Note("its text is empty".to_owned()));
        }
        self.apply(id, note.at_ns, State::Noted, line(&note, ""), |record| {
            let notes = record.history.iter().filter(|entry| entry.state == State::Noted).count();
            let full = || IncidentStoreError::Note(format!("the incident has {NOTES} notes, which is the most"));
            (notes < NOTES).then_some(()).ok_or_else(full)
        })
    }

    /// Reclassifies an incident.
    ///
    /// # Errors
    /// [`IncidentStoreError`].
    pub fn reclassify(
        &self,
        id: &str,
        kind: Classification,
        note: OperatorNote,
    ) -> Result<Arc<Record>, IncidentStoreError> {
        let detail = line(&note, &String::from(kind));
        self.apply(id, note.at_ns, State::Reclassified, detail, |r| {
            r.reclassified = Some(Reclassified { kind, note });
            Ok(())
        })
    }

    /// Changes an incident, unless `set` refuses, and adds the action to its history.
    fn apply(
        &self,
        id: &str,
        at_ns: i64,
        state: State,
        detail: String,
        set: impl FnOnce(&mut Record) -> Result<(), IncidentStoreError>,
    ) -> Result<Arc<Record>, IncidentStoreError> {
        let mut inner = self.inner.lock();
        let entry = inner.entries.get(id).ok_or_else(|| IncidentStoreError::Unknown(id.to_owned()))?;
        let mut record = (*entry.record).clone();
        set(&mut record)?;
        record.note(at_ns, state, detail);
        let record = self.put(&mut inner, record, at_ns, &[state])?;
        drop(inner);
        self.commit().map(|()| record)
    }

    /// Silences matching incidents until a time.
    ///
    /// # Errors
    /// [`IncidentStoreError`].
    pub fn silence(
        &self,
        sender: &str,
        of: SilenceMatcher,
        until_ns: i64,
        note: OperatorNote,
    ) -> Result<Silence, IncidentStoreError> {
        let bad = |text: &str| Err(IncidentStoreError::Silence(text.to_owned()));
        if of.is_empty() {
            return bad("it would match every incident; give incident, kind, node or job");
        }
        if !of.is_bounded() {
            return bad("incident, node and job have at most 512 bytes without control characters");
        }
        if until_ns <= note.at_ns {
            return bad("its end has passed; give a time in the future");
        }
        let mut inner = self.inner.lock();
        if let Some(id) = of.incident.as_ref().filter(|id| !inner.entries.contains_key(*id)) {
            return Err(IncidentStoreError::Unknown(id.clone()));
        }
        self.drop_silences(&mut inner, note.at_ns);
        if inner.silences.len() >= MOST {
            return bad("too many silences are in force; end some first (DELETE /api/v1/silences/ID)");
        }
        if inner.silences.values().filter(|silence| silence.sender == sender).count() >= MOST_OF_ONE {
            return bad("too many silences of one caller are in force; end some first (DELETE /api/v1/silences/ID)");
        }
        let free = |n: &i64| !inner.silences.contains_key(&n.to_string());
        let number = (note.at_ns / 1_000_000..).find(free).unwrap_or_default();
        let silence = Silence { id: number.to_string(), of, until_ns, note, sender: sender.to_owned() };
        inner.changes.put(&self.silences, &silence.id, encode(&silence)?);
        inner.silences.insert(silence.id.clone(), silence.clone());
        self.note_silence(&mut inner, &silence, State::Silenced)?;
        drop(inner);
        self.commit().map(|()| silence)
    }

    /// Ends a silence early.
    ///
    /// # Errors
    /// [`IncidentStoreError`].
    pub fn unsilence(&self, id: &str, now_ns: i64) -> Result<Silence, IncidentStoreError> {
        let mut inner = self.inner.lock();
        let unknown = || IncidentStoreError::UnknownSilence(id.to_owned());
        let mut silence = inner.silences.remove(id).filter(|s| s.until_ns > now_ns).ok_or_else(unknown)?;
        inner.changes.remove(&self.silences, id);
        silence.until_ns = now_ns;
        self.note_silence(&mut inner, &silence, State::Unsilenced)?;
        drop(inner);
        self.commit().map(|()| silence)
    }

    /// Silences in force, ordered by end.
    pub fn silences(&self, now_ns: i64) -> Vec<Silence> {
        let mut all: Vec<Silence> =
            self.inner.lock().silences.values().filter(|s| s.until_ns > now_ns).cloned().collect();
        all.sort_by_key(|s| s.until_ns);
        all
    }

    /// Adds a silence to the history of the incidents that match now.
    fn note_silence(&self, inner: &mut Inner, silence: &Silence, state: State) -> Result<(), IncidentStoreError> {
        let open: Vec<Arc<Record>> = inner.entries.values().map(|e| e.record.clone()).collect();
        for record in open.into_iter().filter(|r| r.is_open() && silence.of.fits(r)) {
            let mut record = (*record).clone();
            let at_ns = if state == State::Silenced { silence.note.at_ns } else { silence.until_ns };
            record.note(at_ns, state, line(&silence.note, &silence.of.words()));
            self.put(inner, record, at_ns, &[state])?;
        }
        Ok(())
    }

    pub(super) fn drop_silences(&self, inner: &mut Inner, now_ns: i64) {
        let over: Vec<String> =
            inner.silences.values().filter(|s| s.until_ns <= now_ns).map(|s| s.id.clone()).collect();
        for id in over {
            inner.silences.remove(&id);
            inner.changes.remove(&self.silences, &id);
        }
    }
}

/// An action as one line of history.
fn line(note: &OperatorNote, what: &str) -> String {
    let author = if note.by.is_empty() { String::new() } else { format!("by {}", note.by) };
    let parts = [what, &author, &note.note];
    parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(": ")
}
