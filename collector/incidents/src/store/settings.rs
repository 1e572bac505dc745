//! Adds to open incidents the settings of their place that the audit finds wrong.

use super::IncidentStore;
use crate::record::State;
use crate::setting::WrongSetting;

/// Most settings of an incident.
const MOST: usize = 8;

impl IncidentStore {
    /// Adds settings to the open incidents that they may explain, the latest change first. A setting that an incident has is not added
    /// again, and none is removed: it was wrong when the incident was open.
    pub fn add_settings(&self, wrong: &[WrongSetting], now_ns: i64) {
        if wrong.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        let open: Vec<_> =
            inner.entries.values().map(|entry| &entry.record).filter(|record| record.is_open()).cloned().collect();
        for record in open {
            let start_ms = record.incident.start_ns / 1_000_000;
            let is_known = |one: &WrongSetting| {
                record
                    .settings
                    .iter()
                    .any(|known| (&known.port, &known.title, &known.value) == (&one.port, &one.title, &one.value))
            };
            let new: Vec<&WrongSetting> = wrong
                .iter()
                .filter(|one| one.may_explain(&record.incident.root, start_ms) && !is_known(one))
                .take(MOST.saturating_sub(record.settings.len()))
                .collect();
            if new.is_empty() {
                continue;
            }
            let mut record = (*record).clone();
            for one in new {
                record.note(now_ns, State::Setting, one.words());
                record.settings.push(one.clone());
            }
            record.settings.sort_by_key(|one| std::cmp::Reverse(one.changed.as_ref().map(|(since_ms, _)| *since_ms)));
            if let Err(error) = self.put(&mut inner, record, now_ns, &[State::Setting]) {
                tracing::warn!(%error, "cannot store the wrong settings of an incident");
            }
        }
        drop(inner);
        if let Err(error) = self.commit() {
            tracing::warn!(%error, "cannot store the wrong settings of an incident");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{incident, incidents};
    use fabriclens_correlate::Severity;

    const S: i64 = 1_000_000_000;

    #[test]
    fn open_incident_gets_its_wrong_settings_once_and_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let incidents = incidents(dir.path());
        incidents.update(3 * S, &[incident("a")]);
        let wrong = |port: &str, changed_ms: i64| WrongSetting {
            node: "h3".into(),
            port: port.into(),
            title: "priorities with PFC".into(),
            severity: Severity::Critical,
            value: "none".into(),
            expected: "3".into(),
            changed: Some((changed_ms, "3".into())),
        };
        let told = [wrong("2", 0), wrong("1", 500), WrongSetting { title: "trust".into(), ..wrong("1", 900) }];
        incidents.add_settings(&told, 4 * S);
        incidents.add_settings(&told, 5 * S);
        incidents.add_settings(&[], 6 * S);
        let record = incidents.get("a").unwrap();
        assert_eq!(record.settings, [told[2].clone(), told[1].clone()], "those of the port, the latest change first");
        let noted = record.history.iter().filter(|entry| entry.state == State::Setting).count();
        assert_eq!(noted, 2);

        let mut ended = incident("b");
        ended.end_ns = Some(4 * S);
        incidents.update(5 * S, &[ended]);
        incidents.add_settings(&told, 6 * S);
        assert_eq!(incidents.get("b").unwrap().settings, [], "it is over");
        let many: Vec<_> = (0..20).map(|n| WrongSetting { title: n.to_string(), ..wrong("1", n) }).collect();
        incidents.add_settings(&many, 7 * S);
        assert_eq!(incidents.get("a").unwrap().settings.len(), MOST);
    }
}
