//! Notifies an Alertmanager by its API v2: one alert for each open thread, repeated every minute as Alertmanager
//! expects, and resolved at the end. Labels are an alert's identity, so they stay unchanged; if the verdict itself
//! changes for good, the alert is resolved and a new one begins, so that routing by name and severity stays right.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{Answer, Caller, Receiver, RetryLater, SETTLE_NS, camel, link};
use crate::record::{kind_text, root_labels};
use crate::store::IncidentStore;
use crate::view::Thread;
use fabriclens_core::time::format_time;

/// Interval at which alerts are repeated.
const REPEAT_NS: i64 = 60 * 1_000_000_000;
/// Alerts expire after this time without repetition, for instance because the collector is down.
const EXPIRE_NS: i64 = 4 * REPEAT_NS;
/// Alerts per request.
const BATCH: usize = 256;

type Labels = BTreeMap<String, String>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    labels: Labels,
    annotations: Labels,
    starts_at: String,
    ends_at: String,
    #[serde(rename = "generatorURL")]
    generator_url: String,
}

/// Last notification about a thread.
#[derive(Default)]
struct Sent {
    /// Labels of the open alert.
    labels: Option<Labels>,
    at_ns: i64,
    /// Since when other labels would be right.
    differs_ns: Option<i64>,
}

/// The notifier of one Alertmanager.
pub(super) struct Alertmanager {
    caller: Caller,
    base: String,
    /// Labels of every alert.
    own: Labels,
    /// Another collector may report the same incidents to this Alertmanager, so labels must not contain values that
    /// differ between the two, such as incident IDs.
    shared: bool,
    sent: HashMap<String, Sent>,
}

impl Alertmanager {
    pub(super) fn new(caller: Caller, base: String, own: Labels, shared: bool) -> Self {
        Self { caller, base, own, shared, sent: HashMap::new() }
    }

    fn alert(&self, thread: &Thread, labels: Labels, ends_ns: i64) -> Alert {
        let incident = &thread.record.incident;
        let settings: String = thread.record.settings.iter().map(|setting| format!("{} ", setting.words())).collect();
        let kernel_log: String = thread.record.kernel_log.iter().map(|event| format!("{} ", event.words())).collect();
        let kind = labels.get("kind").map_or("", String::as_str);
        let summary = format!("{kind}: {settings}{kernel_log}{}", incident.explanation);
        let annotations = [
            ("summary", thread.record.words()),
            ("description", summary),
            ("action", incident.action.clone()),
            ("confidence", format!("{:.2}", incident.confidence)),
            ("culprit_jobs", incident.culprit_jobs.join(", ")),
            ("victim_jobs", incident.victim_jobs.join(", ")),
        ];
        let flaps = thread.record.recurrences;
        let flaps = (flaps > 0).then(|| ("recurrences", flaps.to_string()));
        let annotations = annotations.into_iter().chain(flaps).filter(|(_, text)| !text.is_empty());
        Alert {
            labels,
            annotations: annotations.map(|(name, text)| (name.to_owned(), text)).collect(),
            starts_at: format_time(thread.start_ns / 1_000_000),
            ends_at: format_time(ends_ns.max(thread.start_ns + 1_000_000) / 1_000_000),
            generator_url: link(&self.base, thread),
        }
    }

    /// Labels by the present state.
    fn labels(&self, thread: &Thread) -> Option<Labels> {
        let (record, kind) = (&thread.record, thread.record.kind()?);
        let mut labels = self.own.clone();
        let name = |name: &str| name.to_owned();
        labels.insert(name("alertname"), format!("Fabriclens{}", camel(kind)));
        if !self.shared {
            labels.insert(name("incident"), thread.key.clone());
        }
        labels.insert(name("kind"), kind_text(kind));
        labels.insert(name("severity"), record.incident.severity.name().to_owned());
        labels.extend(root_labels(&record.incident.root).into_iter().map(|(n, value)| (name(n), value)));
        labels.retain(|_, value| !value.is_empty());
        Some(labels)
    }
}

/// Alerts to send for a thread.
struct Step {
    key: String,
    alerts: Vec<Alert>,
    open: Option<Labels>,
    /// Whether this is more than a repetition.
    news: bool,
}

impl Receiver for Alertmanager {
    fn notify(&mut self, threads: &[Thread], incidents: &IncidentStore, now_ns: i64) -> Result<(), RetryLater> {
        let mut steps = Vec::new();
        for thread in threads {
            let right = self.labels(thread).filter(|_| thread.end_ns.is_none() && !thread.quiet);
            let name = &self.caller.name;
            let sent = self.sent.entry(thread.key.clone()).or_insert_with(|| {
                let labels =
                    incidents.last_notification(&thread.key, name).and_then(|text| serde_json::from_str(&text).ok());
                Sent { labels: labels.flatten(), ..Sent::default() }
            });
            let differs = right.is_some() && sent.labels.is_some() && right != sent.labels;
            sent.differs_ns = differs.then(|| sent.differs_ns.unwrap_or(now_ns));
            let hold = sent.differs_ns.is_some_and(|since| now_ns - since < SETTLE_NS);
            let open = if hold { sent.labels.clone() } else { right };
            let news = open != sent.labels;
            let ended = sent.labels.clone().filter(|_| news);
            // In either direction: a clock that was set back must not let alerts expire.
            let again = open.is_some() && (news || now_ns.abs_diff(sent.at_ns) >= REPEAT_NS.unsigned_abs());
            let mut alerts = Vec::new();
            if let Some(labels) = ended {
                alerts.push(self.alert(thread, labels, thread.end_ns.unwrap_or(now_ns).min(now_ns)));
            }
            if let Some(labels) = open.clone().filter(|_| again) {
                alerts.push(self.alert(thread, labels, now_ns + EXPIRE_NS));
            }
            if !alerts.is_empty() {
                steps.push(Step { key: thread.key.clone(), alerts, open, news });
            }
        }
        let url = format!("{}/api/v2/alerts", self.caller.client.url().trim_end_matches('/'));
        for batch in steps.chunks(BATCH) {
            let mut alerts: Vec<&Alert> = batch.iter().flat_map(|step| &step.alerts).collect();
            // Open alerts first: if Alertmanager saw a resolved alert before a new one, it would notify at once, as if
            // the whole group were resolved.
            alerts.sort_by(|a, b| b.ends_at.cmp(&a.ends_at));
            let body = serde_json::to_vec(&alerts).map_err(|e| RetryLater { wait: None, why: e.to_string() })?;
            match self.caller.post(&url, alerts.len(), &body, |request| request) {
                Ok(Answer::Accepted) => {}
                Ok(Answer::Refused(why)) => {
                    tracing::warn!(receiver = self.caller.name, why, "alerts refused by the receiver")
                }
                Err(later) => {
                    // It may be restarting and forget all alerts, so all are repeated.
                    self.sent.values_mut().for_each(|sent| sent.at_ns = 0);
                    return Err(later);
                }
            }
            for step in batch {
                if step.news {
                    incidents.record_notification(
                        &step.key,
                        &self.caller.name,
                        &serde_json::to_string(&step.open).unwrap_or_default(),
                    );
                }
                let sent = Sent { labels: step.open.clone(), at_ns: now_ns, differs_ns: None };
                self.sent.insert(step.key.clone(), sent);
            }
        }
        let known: std::collections::HashSet<&str> = threads.iter().map(|t| t.key.as_str()).collect();
        self.sent.retain(|key, _| known.contains(key.as_str()));
        Ok(())
    }
}
