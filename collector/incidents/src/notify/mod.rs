//! People are told of incidents: each receiver compares what it told last with what is, and tells the difference. So
//! nothing is queued that could overflow, what could not be told is told later as it is then, and a restart tells nothing
//! twice.

mod alertmanager;
mod webhook;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::IncidentKind;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use ureq::http::Response;
use ureq::{Body, RequestBuilder, typestate::WithBody};

use super::record::kind_text;
use super::series::woken_by;
use super::view::Thread;
use crate::store::Book;
use fabriclens_config::{Config, Endpoint};
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ns;

/// How often receivers look, beside each change.
const PACE: Duration = Duration::from_secs(1);
/// Incidents that ended so long ago are no news.
const NEWS_NS: i64 = 86_400 * 1_000_000_000;
/// A verdict that changes is told when it has stood for so long.
const SETTLE_NS: i64 = 10 * 1_000_000_000;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Distance of log lines about the same trouble.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Somebody who is told.
trait Receiver: Send {
    /// Tells what is new.
    ///
    /// # Errors
    /// Trigger it must be tried again.
    fn tell(&mut self, threads: &[Thread], book: &Book, now_ns: i64) -> Result<(), Later>;
}

/// It is to be tried again.
struct Later {
    /// How long the receiver wants to be left alone.
    wait: Option<Duration>,
    why: String,
}

/// Tells all receivers that the config names until `stop` becomes true.
///
/// # Errors
/// [`FileError`]; nobody is told then.
pub fn notify(
    book: &Arc<Book>,
    config: &Config,
    telemetry: &Telemetry,
    stop: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, FileError> {
    let base = config.external_url.clone().unwrap_or_else(|| format!("http://{}", config.listen.http));
    let mut receivers: Vec<(String, Box<dyn Receiver>)> = Vec::new();
    for endpoint in &config.alertmanager.endpoints {
        let caller = Caller::new(format!("alertmanager {}", endpoint.url), endpoint, telemetry)?;
        let name = caller.name.clone();
        let (labels, shared) = (config.alertmanager.labels.clone(), !config.peers.is_empty());
        let receiver = alertmanager::Alertmanager::new(caller, base.clone(), labels, shared);
        receivers.push((name, Box::new(receiver)));
    }
    for webhook in &config.webhook {
        let caller = Caller::new(format!("webhook {}", webhook.name), &webhook.endpoint, telemetry)?;
        let receiver = webhook::Webhook::new(caller, base.clone(), webhook.repeat, now_ns());
        receivers.push((format!("webhook {}", webhook.name), Box::new(receiver)));
    }
    let start = |(name, receiver): (String, Box<dyn Receiver>)| {
        tracing::info!(receiver = name, "incidents are told");
        let mut teller = Teller { name, receiver, book: book.clone(), backoff: None, logged: None };
        let work = move |why| {
            if why != Trigger::Stop {
                teller.turn();
            }
        };
        tokio::spawn(periodic(PACE, woken_by(book), stop.clone(), "a receiver is no longer told of incidents", work))
    };
    Ok(receivers.into_iter().map(start).collect())
}

/// Patience with one receiver.
struct Teller {
    name: String,
    receiver: Box<dyn Receiver>,
    book: Arc<Book>,
    /// When to try again, and how long to wait after the next failure.
    backoff: Option<(Instant, Duration)>,
    logged: Option<Instant>,
}

impl Teller {
    fn turn(&mut self) {
        if self.backoff.is_some_and(|(until, _)| Instant::now() < until) {
            return;
        }
        let now = now_ns();
        let threads = self.book.threads(now, now - NEWS_NS);
        let Err(Later { wait, why }) = self.receiver.tell(&threads, &self.book, now) else {
            self.backoff = None;
            return;
        };
        let next = self.backoff.map_or(FIRST_BACKOFF, |(_, next)| next);
        let wait = wait.unwrap_or_else(|| endpoint::jitter(next));
        self.backoff = Some((Instant::now() + wait, (next * 2).min(LONGEST_BACKOFF)));
        if self.logged.is_none_or(|at| at.elapsed() > LOG_EVERY) {
            self.logged = Some(Instant::now());
            tracing::warn!(receiver = self.name, why, "cannot tell of incidents, tried again");
        }
    }
}

/// Sends to one receiver, and counts.
struct Caller {
    name: String,
    client: Client,
    telemetry: Telemetry,
}

/// What a receiver made of it.
enum Answer {
    Taken,
    /// It will never take this.
    Refused(String),
}

impl Caller {
    fn new(name: String, endpoint: &Endpoint, telemetry: &Telemetry) -> Result<Self, FileError> {
        let caller = Self { client: Client::new(endpoint, telemetry)?, telemetry: telemetry.clone(), name };
        ["sent", "failed", "refused"].iter().for_each(|outcome| caller.count(outcome, 0));
        Ok(caller)
    }

    fn count(&self, outcome: &str, n: usize) {
        self.telemetry.notifications.with_label_values(&[self.name.as_str(), outcome]).inc_by(n as u64);
    }

    /// One request that tells of `n`.
    fn post(
        &self,
        url: &str,
        n: usize,
        body: &[u8],
        dress: impl FnOnce(RequestBuilder<WithBody>) -> RequestBuilder<WithBody>,
    ) -> Result<Answer, Later> {
        let later = |wait, why| {
            self.count("failed", n);
            Err(Later { wait, why })
        };
        let request = match self.client.post(url) {
            Ok(request) => dress(request.header("content-type", "application/json")),
            Err(e) => return later(None, e.to_string()),
        };
        let mut response: Response<Body> = match request.send(body) {
            Ok(response) => response,
            Err(e) => return later(None, e.to_string()),
        };
        let (status, wait) = (response.status().as_u16(), endpoint::retry_after(&response));
        // Read to its end, so that the connection can be used again.
        let said = endpoint::said(&mut response);
        match status {
            200..=299 => {
                self.count("sent", n);
                Ok(Answer::Taken)
            }
            // It is about what was sent: sending it again cannot help.
            400 | 409 | 410 | 413 | 415 | 422 => {
                self.count("refused", n);
                Ok(Answer::Refused(said))
            }
            _ => later(wait, said),
        }
    }
}

/// `PfcStorm`
fn camel(kind: IncidentKind) -> String {
    let word = |w: &str| w.chars().take(1).flat_map(char::to_uppercase).chain(w.chars().skip(1)).collect::<String>();
    kind_text(kind).split('_').map(word).collect()
}

/// Where an incident is shown.
fn link(base: &str, thread: &Thread) -> String {
    format!("{}/api/v1/incidents/{}", base.trim_end_matches('/'), thread.record.incident.id)
}

#[cfg(test)]
mod tests;
