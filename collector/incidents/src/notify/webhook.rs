//! Notifies a webhook: one request for each state of a thread (`opened`, `changed`, `resolved`), and reminders of
//! unacknowledged incidents if configured. A retried request has the same `Idempotency-Key`.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Caller, Receiver, RetryLater, SETTLE_NS, link};
use crate::store::IncidentStore;
use crate::view::{IncidentView, Thread};

/// Most requests per run, so that other receivers are not delayed.
const BATCH: usize = 100;

/// Last notification about a thread.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
struct Notified {
    /// Number of notifications.
    n: u32,
    at_ns: i64,
    /// State in words; `None` if resolved.
    state: Option<String>,
}

/// Body of a request.
#[derive(Serialize)]
struct Message<'a> {
    version: u8,
    event: &'static str,
    /// Unchanged when a request is retried.
    key: &'a str,
    /// Shared by all requests about a recurring incident.
    thread: &'a str,
    url: String,
    incident: IncidentView<'a>,
}

/// The notifier of one webhook.
pub(super) struct Webhook {
    pub(super) caller: Caller,
    base: String,
    /// Interval of reminders; zero for none.
    repeat: Duration,
    /// Incidents that ended before this time are not notified to a receiver that never heard of them.
    since_ns: i64,
    notified: HashMap<String, Option<Notified>>,
    differs: HashMap<String, i64>,
}

impl Webhook {
    pub(super) fn new(caller: Caller, base: String, repeat: Duration, since_ns: i64) -> Self {
        Self { caller, base, repeat, since_ns, notified: HashMap::new(), differs: HashMap::new() }
    }

    /// Returns the event to send about a thread, and the new state.
    fn event(
        &mut self,
        thread: &Thread,
        notified: Option<&Notified>,
        now_ns: i64,
    ) -> Option<(&'static str, Option<String>)> {
        let (record, key) = (&thread.record, &thread.key);
        let problem = record.kind().is_some();
        let state = format!("{} {}", record.words(), record.incident.severity.name());
        let state = Some(state).filter(|_| thread.end_ns.is_none() && problem);
        let differs = notified.is_some_and(|t| t.state.is_some() && state.is_some() && t.state != state);
        if !differs {
            self.differs.remove(key);
        }
        match (notified.and_then(|t| t.state.as_ref()), &state) {
            (Some(_), None) => Some(("resolved", None)),
            _ if thread.quiet => None,
            (None, Some(_)) => Some(("opened", state)),
            (Some(_), Some(_)) if differs => {
                let since = *self.differs.entry(key.clone()).or_insert(now_ns);
                (now_ns - since >= SETTLE_NS).then_some(("changed", state))
            }
            (Some(_), Some(_)) => {
                let age = now_ns - notified.map_or(now_ns, |t| t.at_ns);
                let due = !self.repeat.is_zero() && i128::from(age) >= self.repeat.as_nanos() as i128;
                (due && record.acknowledged.is_none()).then_some(("reminder", state))
            }
            // It began and ended while the receiver was unreachable.
            (None, None) => {
                let news = notified.is_none() && thread.end_ns.is_some_and(|end| end >= self.since_ns);
                news.then_some(("resolved", None))
            }
        }
    }
}

impl Receiver for Webhook {
    fn notify(&mut self, threads: &[Thread], incidents: &IncidentStore, now_ns: i64) -> Result<(), RetryLater> {
        let mut sent = 0;
        for thread in threads {
            let load = || {
                incidents
                    .last_notification(&thread.key, &self.caller.name)
                    .and_then(|text| serde_json::from_str(&text).ok())
            };
            let notified = self.notified.entry(thread.key.clone()).or_insert_with(load).clone();
            let Some((event, state)) = self.event(thread, notified.as_ref(), now_ns) else { continue };
            let n = notified.map_or(0, |t| t.n) + 1;
            let key = format!("{}-{n}", thread.key);
            let message = Message {
                version: 1,
                event,
                key: &key,
                thread: &thread.key,
                url: link(&self.base, thread),
                incident: IncidentView::of(&thread.record, incidents.silence_of(&thread.record, now_ns)),
            };
            let body = serde_json::to_vec(&message).map_err(|e| RetryLater { wait: None, why: e.to_string() })?;
            let add_headers = |request: ureq::RequestBuilder<_>| request.header("idempotency-key", &key);
            let url = self.caller.client.url();
            if let Answer::Refused(why) = self.caller.post(url, 1, &body, add_headers)? {
                tracing::warn!(
                    receiver = self.caller.name,
                    incident = thread.key,
                    event,
                    why,
                    "webhook refused a message"
                );
            }
            let now_notified = Notified { n, at_ns: now_ns, state };
            incidents.record_notification(
                &thread.key,
                &self.caller.name,
                &serde_json::to_string(&now_notified).unwrap_or_default(),
            );
            self.notified.insert(thread.key.clone(), Some(now_notified));
            sent += 1;
            if sent == BATCH {
                return Ok(());
            }
        }
        let known: std::collections::HashSet<&str> = threads.iter().map(|t| t.key.as_str()).collect();
        self.notified.retain(|key, _| known.contains(key.as_str()));
        self.differs.retain(|key, _| known.contains(key.as_str()));
        Ok(())
    }
}
