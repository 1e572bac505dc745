//! One webhook: a request for each state of a thread, `opened`, `changed`, `resolved`, and reminders where they are wanted
//! and nobody has acknowledged it. A request that is sent again has the same `Idempotency-Key`.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Caller, Later, Receiver, SETTLE_NS, link};
use crate::record::severity_text;
use crate::store::Book;
use crate::view::{Shown, Thread};

/// Requests of one turn: others come to their right.
const BATCH: usize = 100;

/// What a webhook was told last of a thread.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
struct Told {
    /// How often it was told.
    n: u32,
    at_ns: i64,
    /// What it is; `None`: it is over.
    state: Option<String>,
}

/// The body of a request.
#[derive(Serialize)]
struct Message<'a> {
    version: u8,
    event: &'static str,
    /// The same when a request is sent again.
    key: &'a str,
    /// The same for all requests about what recurs.
    thread: &'a str,
    url: String,
    incident: Shown<'a>,
}

/// See the module.
pub(super) struct Webhook {
    pub(super) caller: Caller,
    base: String,
    /// Between reminders; zero: there are none.
    repeat: Duration,
    /// What was over before is no news to somebody who was never told of it.
    since_ns: i64,
    told: HashMap<String, Option<Told>>,
    differs: HashMap<String, i64>,
}

impl Webhook {
    pub(super) fn new(caller: Caller, base: String, repeat: Duration, since_ns: i64) -> Self {
        Self { caller, base, repeat, since_ns, told: HashMap::new(), differs: HashMap::new() }
    }

    /// What happened to a thread since it was told.
    fn event(&mut self, thread: &Thread, told: Option<&Told>, now_ns: i64) -> Option<(&'static str, Option<String>)> {
        let (record, key) = (&thread.record, &thread.key);
        let problem = record.kind().is_some();
        let state = format!("{} {}", record.words(), severity_text(record.incident.severity));
        let state = Some(state).filter(|_| thread.end_ns.is_none() && problem);
        let differs = told.is_some_and(|t| t.state.is_some() && state.is_some() && t.state != state);
        if !differs {
            self.differs.remove(key);
        }
        match (told.and_then(|t| t.state.as_ref()), &state) {
            (Some(_), None) => Some(("resolved", None)),
            _ if thread.quiet => None,
            (None, Some(_)) => Some(("opened", state)),
            (Some(_), Some(_)) if differs => {
                let since = *self.differs.entry(key.clone()).or_insert(now_ns);
                (now_ns - since >= SETTLE_NS).then_some(("changed", state))
            }
            (Some(_), Some(_)) => {
                let age = now_ns - told.map_or(now_ns, |t| t.at_ns);
                let due = !self.repeat.is_zero() && i128::from(age) >= self.repeat.as_nanos() as i128;
                (due && record.acknowledged.is_none()).then_some(("reminder", state))
            }
            // It came and went while the receiver was away.
            (None, None) => {
                let news = told.is_none() && thread.end_ns.is_some_and(|end| end >= self.since_ns);
                news.then_some(("resolved", None))
            }
        }
    }
}

impl Receiver for Webhook {
    fn tell(&mut self, threads: &[Thread], book: &Book, now_ns: i64) -> Result<(), Later> {
        let mut sent = 0;
        for thread in threads {
            let load = || book.told(&thread.key, &self.caller.name).and_then(|text| serde_json::from_str(&text).ok());
            let told = self.told.entry(thread.key.clone()).or_insert_with(load).clone();
            let Some((event, state)) = self.event(thread, told.as_ref(), now_ns) else { continue };
            let n = told.map_or(0, |t| t.n) + 1;
            let key = format!("{}-{n}", thread.key);
            let message = Message {
                version: 1,
                event,
                key: &key,
                thread: &thread.key,
                url: link(&self.base, thread),
                incident: Shown::of(&thread.record, book.silence_of(&thread.record, now_ns)),
            };
            let body = serde_json::to_vec(&message).map_err(|e| Later { wait: None, why: e.to_string() })?;
            let dress = |request: ureq::RequestBuilder<_>| request.header("idempotency-key", &key);
            let url = self.caller.client.url();
            if let Answer::Refused(why) = self.caller.post(url, 1, &body, dress)? {
                tracing::warn!(receiver = self.caller.name, incident = thread.key, event, why, "a message is refused");
            }
            let now_told = Told { n, at_ns: now_ns, state };
            book.tell(&thread.key, &self.caller.name, &serde_json::to_string(&now_told).unwrap_or_default());
            self.told.insert(thread.key.clone(), Some(now_told));
            sent += 1;
            if sent == BATCH {
                return Ok(());
            }
        }
        let known: std::collections::HashSet<&str> = threads.iter().map(|t| t.key.as_str()).collect();
        self.told.retain(|key, _| known.contains(key.as_str()));
        self.differs.retain(|key, _| known.contains(key.as_str()));
        Ok(())
    }
}
