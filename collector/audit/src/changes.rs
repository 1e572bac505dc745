//! When settings changed that an audit finds wrong.

use std::collections::HashMap;

use fabriclens_promql::QueryError;

use crate::drift::{Changed, Drift};
use crate::key::{KEYS, Key};
use crate::member::Members;
use crate::read::SettingsReader;
use crate::value::difference;

/// How far a change is looked for, ms.
const LOOK_BACK_MS: i64 = 7 * 24 * 3_600_000;
/// First step back, ms; each further step is twice as long.
const FIRST_STEP_MS: i64 = 15_000;
/// Accuracy of the time of a change, ms: settings are read every few seconds.
const ACCURACY_MS: i64 = 1_000;
/// Most settings whose history is read in one round; the others follow in the next rounds.
const PER_ROUND: usize = 32;

/// Host, port, key and value of a drift.
type Wrong = (String, String, &'static str, String);

/// Changes of settings that were wrong at the last audit.
#[derive(Default)]
pub(crate) struct Changes(HashMap<Wrong, Option<Changed>>);

impl Changes {
    /// Sets `changed` of each drift. Reads the history of drifts that the last audit did not find.
    ///
    /// # Errors
    /// [`QueryError`] of the first query that fails; the drifts so far have their changes.
    pub(crate) fn explain(
        &mut self,
        drifts: &mut [Drift],
        members: &Members,
        now: SettingsReader<'_>,
    ) -> Result<(), QueryError> {
        let mut before = std::mem::take(&mut self.0);
        let mut lookups = 0;
        for drift in drifts {
            let Some(key) = Key::position(&drift.key).map(|at| &KEYS[at]) else { continue };
            let member = members.get(&drift.host, &drift.port);
            let Some(value) = member.and_then(|member| member.named(key.name)) else { continue };
            let wrong = (drift.host.clone(), drift.port.clone(), key.name, value.to_owned());
            let changed = match before.remove(&wrong) {
                Some(known) => known,
                None if lookups < PER_ROUND => {
                    lookups += 1;
                    let at = |at_ms| SettingsReader { at_ms, ..now }.value(key, &drift.host, &drift.port);
                    last_change(value, now.at_ms, at)?
                }
                None => continue,
            };
            drift.changed.clone_from(&changed);
            self.0.insert(wrong, changed);
        }
        Ok(())
    }
}

/// The last change to the value of `now_ms`, from the values at earlier times. `None` if it was the same, or unknown, as far back as
/// is looked. Between two times at which it was the same it may have been another, which is not found.
fn last_change(
    value: &str,
    now_ms: i64,
    mut at: impl FnMut(i64) -> Result<Option<String>, QueryError>,
) -> Result<Option<Changed>, QueryError> {
    let (mut same_ms, mut step) = (now_ms, FIRST_STEP_MS);
    let (mut other_ms, mut before) = loop {
        if step > LOOK_BACK_MS {
            return Ok(None);
        }
        match at(now_ms - step)? {
            Some(known) if known == value => same_ms = now_ms - step,
            Some(other) => break (now_ms - step, other),
            // The host was off.
            None => {}
        }
        step *= 2;
    };
    while same_ms - other_ms > ACCURACY_MS {
        let middle = other_ms + (same_ms - other_ms) / 2;
        match at(middle)? {
            Some(known) if known == value => same_ms = middle,
            Some(other) => (other_ms, before) = (middle, other),
            None => other_ms = middle,
        }
    }
    Ok(Some(Changed { since_ms: same_ms, before: difference(&before, value).0 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples;
    use fabriclens_promql::Engine;

    const NOW: i64 = 100 * 24 * 3_600_000;

    fn change(history: &[(i64, Option<&str>)]) -> Option<(i64, String)> {
        let at = |at_ms: i64| {
            let value = history.iter().rev().find(|(from, _)| *from <= at_ms).and_then(|(_, value)| *value);
            Ok(value.map(str::to_owned))
        };
        last_change("none", NOW, at).unwrap().map(|changed| (changed.since_ms, changed.before))
    }

    #[test]
    fn time_of_the_change_is_found() {
        for ago in [2_000, 20_000, 3_600_000, 3 * 24 * 3_600_000] {
            let (since, before) = change(&[(0, Some("3")), (NOW - ago, Some("none"))]).unwrap();
            assert!((since - (NOW - ago)).abs() <= ACCURACY_MS, "{ago}: {since}");
            assert_eq!(before, "3");
        }
    }

    #[test]
    fn what_was_never_different_has_no_change() {
        assert_eq!(change(&[(0, Some("none"))]), None);
        assert_eq!(change(&[(0, None), (NOW - 60_000, Some("none"))]), None, "the host is new");
        assert_eq!(change(&[(0, Some("3")), (NOW - 8 * 24 * 3_600_000, Some("none"))]), None, "too long ago");
    }

    #[test]
    fn host_that_was_off_comes_back_different() {
        let (since, before) = change(&[(0, Some("3")), (NOW - 7_200_000, None), (NOW - 60_000, Some("none"))]).unwrap();
        assert!((since - (NOW - 60_000)).abs() <= ACCURACY_MS, "{since}");
        assert_eq!(before, "3");
    }

    #[test]
    fn findings_are_explained_once() {
        let memory = samples(&[
            ("fabric_port_info", "", &[(600_000, 1.0)]),
            ("fabric_port_up", "", &[(600_000, 1.0)]),
            ("fabric_pfc_enabled", "priority=3", &[(300_000, 1.0), (400_000, 0.0), (600_000, 0.0)]),
        ]);
        let engine = Engine::default();
        let now = SettingsReader { engine: &engine, read: &memory, at_ms: 600_000 };
        let members = now.members().unwrap();
        let member = members.get("h1", "mlx5_0/1").unwrap();
        let key = &KEYS[Key::position("pfc_priorities").unwrap()];
        let mut drifts = vec![crate::judge::drift(key, member, "none", "3", crate::drift::Reason::Host)];
        let mut changes = Changes::default();
        changes.explain(&mut drifts, &members, now).unwrap();
        let changed = drifts[0].changed.take().unwrap();
        assert_eq!((changed.since_ms / 1000, &*changed.before), (400, "3"));
        let without = fabriclens_model::Memory(Vec::new());
        changes.explain(&mut drifts, &members, SettingsReader { read: &without, ..now }).unwrap();
        assert_eq!(drifts[0].changed.as_ref(), Some(&changed), "not read again");
    }
}
