//! Tells one receiver of each run that ended: when it is due, what it is told, and when it is tried again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_config::JobNotification;
use fabriclens_core::delivery::Delivery;
use fabriclens_core::endpoint::jitter;
use fabriclens_core::time::now_ns;
use fabriclens_jobs::{EndedRun, JobKey};

use crate::message::Message;
use crate::program::Program;
use crate::shared::{Digest, Shared};
use crate::told::{NEWS_NS, Outcome, Told};
use crate::webhook::Webhook;

/// Interval at which ended runs are looked for.
const INTERVAL: Duration = Duration::from_secs(5);
/// Most runs that are looked at in one round, the earliest ends first.
const BATCH: usize = 1000;
/// How much longer an incomplete report waits for late samples.
const PATIENCE: Duration = Duration::from_secs(600);
/// Tries of one message that fail for itself: no report, or its program was ended.
const TRIES: u32 = 3;
/// Time between such tries.
const AGAIN: Duration = Duration::from_secs(60);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Minimum interval of log lines about failures of one receiver.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Where messages go.
pub(crate) enum Target {
    Webhook(Webhook),
    Program(Program),
}

/// Failed tries of a message, and when it is tried again.
#[derive(Default)]
struct Attempt {
    end_ns: i64,
    tries: u32,
    not_before: Option<Instant>,
    /// The report was incomplete once; it is sent as it is the next time.
    has_waited: bool,
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The notifier of one receiver.
pub(crate) struct Notifier {
    receiver: JobNotification,
    target: Arc<Target>,
    told: Told,
    shared: Shared,
    attempts: HashMap<(JobKey, u32), Attempt>,
    /// Time of the next attempt of any message, and delay after the next failure.
    backoff: Option<(Instant, Duration)>,
    logged: Option<Instant>,
}

impl Notifier {
    pub(crate) fn new(receiver: JobNotification, target: Target, told: Told, shared: Shared) -> Self {
        let notifier = Self {
            receiver,
            target: Arc::new(target),
            told,
            shared,
            attempts: HashMap::new(),
            backoff: None,
            logged: None,
        };
        ["sent", "failed", "refused", "omitted", "abandoned"].iter().for_each(|outcome| notifier.count(outcome, 0));
        tracing::info!(receiver = notifier.receiver.name, "telling of ended jobs");
        notifier
    }

    /// Runs until the collector stops.
    pub(crate) async fn run(mut self) {
        let mut stop = self.shared.stop.clone();
        loop {
            if self.backoff.is_none_or(|(until, _)| Instant::now() >= until) {
                self.round().await;
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Tells of all runs that are due, until one must wait for the receiver.
    async fn round(&mut self) {
        let now_ns = now_ns();
        self.told.forget(now_ns);
        let from_ns = now_ns.saturating_sub(NEWS_NS);
        self.attempts.retain(|_, attempt| attempt.end_ns >= from_ns);
        for run in self.due(now_ns) {
            if *self.shared.stop.borrow() || !self.tell(run, now_ns).await {
                return;
            }
        }
    }

    /// Runs that are due and were not told.
    fn due(&self, now_ns: i64) -> Vec<EndedRun> {
        let delay = nanoseconds(self.receiver.delay);
        let min_run_time = nanoseconds(self.receiver.min_run_time);
        let from_ns = now_ns.saturating_sub(NEWS_NS).max(self.told.since_ns);
        let now = Instant::now();
        let is_waiting = |key: &JobKey, run: u32| {
            let attempt = self.attempts.get(&(key.clone(), run)).and_then(|attempt| attempt.not_before);
            attempt.is_some_and(|until| now < until)
        };
        self.shared.jobs.registry.ended_runs(BATCH, |key, run, [start_ns, end_ns]| {
            let is_due = end_ns >= from_ns && end_ns.saturating_add(delay) <= now_ns;
            is_due
                && end_ns.saturating_sub(start_ns) >= min_run_time
                && !self.told.has(key, run)
                && !is_waiting(key, run)
        })
    }

    /// Tells of one run. False: the receiver is in trouble, and other runs must wait.
    async fn tell(&mut self, run: EndedRun, now_ns: i64) -> bool {
        let digest = match self.read(&run).await {
            Ok(digest) => digest,
            Err(why) => {
                self.failed(&why);
                self.try_again(&run);
                return true;
            }
        };
        let due_ns = run.end_ns.saturating_add(nanoseconds(self.receiver.delay));
        let is_late = now_ns.saturating_sub(due_ns) >= nanoseconds(PATIENCE);
        let attempt = self.attempt(&run);
        if !digest.is_complete && !attempt.has_waited && !is_late {
            attempt.has_waited = true;
            attempt.not_before = Instant::now().checked_add(PATIENCE);
            return true;
        }
        if self.receiver.only_lost && digest.has_lost != Some(true) {
            self.finish(&run, Outcome::Omitted);
            return true;
        }
        let message = Message::new(run.clone(), digest, &self.shared.base, &self.receiver.name);
        let (target, stop) = (self.target.clone(), self.shared.stop.clone());
        let sent = tokio::task::spawn_blocking(move || match &*target {
            Target::Webhook(webhook) => webhook.send(&message),
            Target::Program(program) => program.send(&message, &stop),
        });
        match sent.await {
            Ok(Delivery::Accepted) => {
                self.backoff = None;
                self.finish(&run, Outcome::Sent);
                true
            }
            Ok(Delivery::Refused(why)) => {
                self.backoff = None;
                let (receiver, job) = (&self.receiver.name, run.key.to_string());
                tracing::warn!(receiver, job, why, "receiver refused a message about a job");
                self.finish(&run, Outcome::Refused);
                true
            }
            // A program that was ended by the stop is run again after the next start.
            Ok(Delivery::Later { .. }) if *self.shared.stop.borrow() => false,
            Ok(Delivery::Later { wait, why }) => {
                self.failed(&why);
                // A webhook that is away says nothing of the message; a program that is ended may be ended by it.
                if matches!(&*self.target, Target::Program(_)) {
                    self.try_again(&run);
                }
                let next = self.backoff.map_or(FIRST_BACKOFF, |(_, next)| next);
                let wait = wait.unwrap_or_else(|| jitter(next));
                self.backoff = Instant::now().checked_add(wait).map(|until| (until, (next * 2).min(MAX_BACKOFF)));
                false
            }
            Err(error) => {
                self.failed(&error.to_string());
                self.finish(&run, Outcome::Abandoned);
                true
            }
        }
    }

    fn attempt(&mut self, run: &EndedRun) -> &mut Attempt {
        let attempt = self.attempts.entry((run.key.clone(), run.run)).or_default();
        attempt.end_ns = run.end_ns;
        attempt
    }

    async fn read(&self, run: &EndedRun) -> Result<Digest, String> {
        let read = self.shared.read.lock().await;
        read(run.key.clone(), run.run).await
    }

    /// Tries a message again later, or gives up.
    fn try_again(&mut self, run: &EndedRun) {
        let attempt = self.attempt(run);
        attempt.tries += 1;
        attempt.not_before = Instant::now().checked_add(AGAIN);
        if attempt.tries >= TRIES {
            tracing::warn!(receiver = self.receiver.name, job = %run.key, "giving up a message about a job");
            self.finish(run, Outcome::Abandoned);
        }
    }

    fn finish(&mut self, run: &EndedRun, outcome: Outcome) {
        self.told.record(&run.key, run.run, run.end_ns, outcome);
        self.attempts.remove(&(run.key.clone(), run.run));
        self.count(outcome.text(), 1);
    }

    fn failed(&mut self, why: &str) {
        self.count("failed", 1);
        if self.logged.is_none_or(|at| at.elapsed() > LOG_EVERY) {
            self.logged = Some(Instant::now());
            tracing::warn!(receiver = self.receiver.name, why, "cannot tell of an ended job; will be retried");
        }
    }

    fn count(&self, outcome: &str, n: u64) {
        let receiver = format!("job_notification {}", self.receiver.name);
        self.shared.telemetry.notifications.with_label_values(&[receiver.as_str(), outcome]).inc_by(n);
    }
}
