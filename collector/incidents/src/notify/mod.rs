//! Notifies receivers (Alertmanagers, webhooks) of incidents. Each compares its last notification with the present
//! state and sends the difference. So there is no queue to overflow, a notification that failed is sent later with the
//! state of that time, and a restart repeats nothing.

mod alertmanager;
mod webhook;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_correlate::IncidentKind;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use ureq::{RequestBuilder, typestate::WithBody};

use super::record::kind_text;
use super::series::notify_on_change;
use super::view::Thread;
use crate::store::IncidentStore;
use fabriclens_config::{Config, Endpoint};
use fabriclens_core::delivery::{Delivery, post_json};
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ns;

/// Interval of comparison, besides each change.
const INTERVAL: Duration = Duration::from_secs(1);
/// Incidents that ended longer ago are not notified.
const NEWS_NS: i64 = 86_400 * 1_000_000_000;
/// A changed verdict is notified once it has been stable for this long.
const SETTLE_NS: i64 = 10 * 1_000_000_000;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Minimum interval of log lines about the same problem.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// A receiver of notifications.
trait Receiver: Send {
    /// Sends the changes since the last notification.
    ///
    /// # Errors
    /// If it must be tried again.
    fn notify(&mut self, threads: &[Thread], incidents: &IncidentStore, now_ns: i64) -> Result<(), RetryLater>;
}

/// The notification must be retried.
struct RetryLater {
    /// Retry delay requested by the receiver.
    wait: Option<Duration>,
    why: String,
}

/// Notifies all configured receivers until `stop` becomes true.
///
/// # Errors
/// [`FileError`]; then no receiver is notified.
pub fn notify(
    incidents: &Arc<IncidentStore>,
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
        tracing::info!(receiver = name, "notifying of incidents");
        let mut notifier = Notifier { name, receiver, incidents: incidents.clone(), backoff: None, logged: None };
        let work = move |trigger| {
            if trigger != Trigger::Stop {
                notifier.run();
            }
        };
        tokio::spawn(periodic(
            INTERVAL,
            notify_on_change(incidents),
            stop.clone(),
            "a receiver is no longer notified of incidents",
            work,
        ))
    };
    Ok(receivers.into_iter().map(start).collect())
}

/// Retries of one receiver.
struct Notifier {
    name: String,
    receiver: Box<dyn Receiver>,
    incidents: Arc<IncidentStore>,
    /// Time of the next attempt, and delay after the next failure.
    backoff: Option<(Instant, Duration)>,
    logged: Option<Instant>,
}

impl Notifier {
    fn run(&mut self) {
        if self.backoff.is_some_and(|(until, _)| Instant::now() < until) {
            return;
        }
        let now = now_ns();
        let threads = self.incidents.threads(now, now - NEWS_NS);
        let Err(RetryLater { wait, why }) = self.receiver.notify(&threads, &self.incidents, now) else {
            self.backoff = None;
            return;
        };
        let next = self.backoff.map_or(FIRST_BACKOFF, |(_, next)| next);
        let wait = wait.unwrap_or_else(|| endpoint::jitter(next));
        self.backoff = Some((Instant::now() + wait, (next * 2).min(MAX_BACKOFF)));
        if self.logged.is_none_or(|at| at.elapsed() > LOG_EVERY) {
            self.logged = Some(Instant::now());
            tracing::warn!(receiver = self.name, why, "cannot notify of incidents; will be retried");
        }
    }
}

/// Sends requests to one receiver and counts them.
struct Caller {
    name: String,
    client: Client,
    telemetry: Telemetry,
}

/// Outcome of a request.
enum Answer {
    Accepted,
    /// The receiver will never accept it.
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

    /// Sends one request with `n` notifications.
    fn post(
        &self,
        url: &str,
        n: usize,
        body: &[u8],
        add_headers: impl FnOnce(RequestBuilder<WithBody>) -> RequestBuilder<WithBody>,
    ) -> Result<Answer, RetryLater> {
        match post_json(&self.client, url, body, add_headers) {
            Delivery::Accepted => {
                self.count("sent", n);
                Ok(Answer::Accepted)
            }
            Delivery::Refused(why) => {
                self.count("refused", n);
                Ok(Answer::Refused(why))
            }
            Delivery::Later { wait, why } => {
                self.count("failed", n);
                Err(RetryLater { wait, why })
            }
        }
    }
}

/// Kind in camel case: `PfcStorm`.
fn camel(kind: IncidentKind) -> String {
    let word = |w: &str| w.chars().take(1).flat_map(char::to_uppercase).chain(w.chars().skip(1)).collect::<String>();
    kind_text(kind).split('_').map(word).collect()
}

/// URL of an incident.
fn link(base: &str, thread: &Thread) -> String {
    format!("{}/incidents/{}", base.trim_end_matches('/'), thread.record.incident.id)
}

#[cfg(test)]
mod tests;
