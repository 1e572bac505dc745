//! The way to the collector: drains the ring, encodes, sends by OTLP/gRPC, tries again, counts everything.
//!
//! `main` runs it on the async runtime. Its memory is the ring plus one batch: while the collector is away the ring
//! overwrites its oldest sections and counts them, and nothing here grows. Points are accounted for:
//! taken from the ring = acknowledged + rejected + dropped by reason + in flight.

mod channel;
mod codec;
mod counters;
mod frame;
mod verdict;

pub use channel::ConnectError;
pub use counters::{Counters, State};

use crate::clock::Clock;
use crate::config::{Collector, Compression};
use crate::ring::Reader;
use channel::Channel;
use fabriclens_wire::encode::{self, Encoder};
use fabriclens_wire::{Resource, Section};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use verdict::Verdict;

/// First pause before trying again; doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause of our own making: short, so that a collector that is back is found soon.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest pause that a collector may ask for.
const ASKED: Duration = Duration::from_secs(300);
/// Requests beyond this many bytes are split before they are sent: many receivers refuse 4 MiB.
const REQUEST: usize = 3 << 20;

/// Sends sections to one collector.
#[derive(Debug)]
pub struct Uplink {
    config: Collector,
    ring: Reader<Section>,
    counters: Arc<Counters>,
    resource: Arc<Resource>,
    clock: Clock,
    channel: Channel,
    encoder: Encoder,
    /// The request under way, and room for the next one.
    body: Vec<u8>,
    extra: Option<Extra>,
}

/// Makes a section of another part of the agent at each flush.
struct Extra(Box<MakeSection>);

type MakeSection = dyn Fn(&Arc<Resource>, u64) -> Section + Send + Sync;

impl std::fmt::Debug for Extra {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Extra")
    }
}

impl Uplink {
    /// Prepares the way; no connection is made yet, and none is needed for a start.
    ///
    /// # Errors
    /// [`ConnectError`] for a URL or PEM file that cannot be used.
    pub fn new(config: Collector, host: &str, ring: Reader<Section>) -> Result<Self, ConnectError> {
        let channel = Channel::new(&config)?;
        let resource = Arc::new(Resource { host: host.into(), device: None, port: None });
        Ok(Self {
            config,
            ring,
            counters: Arc::new(Counters::default()),
            resource,
            clock: Clock::new(),
            channel,
            encoder: Encoder::default(),
            body: Vec::new(),
            extra: None,
        })
    }

    /// Adds a section to each request: counts of a part that has no thread of its own.
    #[must_use]
    pub fn with_extra(mut self, section: impl Fn(&Arc<Resource>, u64) -> Section + Send + Sync + 'static) -> Self {
        self.extra = Some(Extra(Box::new(section)));
        self
    }

    /// What it counts; shared with `/metrics` and `/healthz`.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Sends until `stop` turns true, then what is queued, for at most the configured drain time.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let start = self.clock.now();
        while !*stop.borrow() {
            let sections = tokio::select! {
                sections = self.next_batch() => sections,
                _ = stop.wait_for(|s| *s) => break,
            };
            if !sections.is_empty() {
                self.clock.look();
                self.deliver(self.with_own(sections, start), &mut stop, None).await;
            }
        }
        let deadline = Instant::now() + self.config.drain;
        loop {
            let sections = self.ring.take(self.config.batch);
            if sections.is_empty() {
                break;
            }
            self.deliver(self.with_own(sections, start), &mut stop, Some(deadline)).await;
        }
    }

    /// Waits for the flush time or an urgent section; not at all while a full batch is queued.
    async fn next_batch(&self) -> Vec<Section> {
        if self.ring.len() >= self.config.batch {
            return self.ring.take(self.config.batch);
        }
        // The request before was answered just now.
        let urgent = Some(self.config.urgent).filter(|soonest| !soonest.is_zero());
        self.ring.drain(self.config.batch, self.config.flush, urgent).await
    }

    fn with_own(&self, mut sections: Vec<Section>, start: u64) -> Vec<Section> {
        let now = self.clock.now();
        sections.push(self.counters.section(&self.resource, start, now));
        sections.extend(self.extra.as_ref().map(|extra| extra.0(&self.resource, now)));
        sections
    }

    /// Sends a batch until it is settled. Returns only when each of its points is acknowledged, rejected or dropped.
    async fn deliver(&mut self, batch: Vec<Section>, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        self.counters.taken(batch.iter().map(|s| encode::points(s) as u64).sum());
        let mut queue = vec![batch];
        while let Some(batch) = queue.pop() {
            self.encoder.encode(&batch, &mut self.body);
            let points = batch.iter().map(|s| encode::points(s) as u64).sum();
            if self.body.len() > REQUEST && batch.len() > 1 {
                split(batch, &mut queue);
                continue;
            }
            match self.settle(points, batch.len() > 1, stop, deadline).await {
                Settled::Done => {}
                Settled::TooLarge => split(batch, &mut queue),
            }
        }
    }

    /// Sends `body` until it is settled.
    async fn settle(
        &mut self,
        points: u64,
        divisible: bool,
        stop: &mut watch::Receiver<bool>,
        mut deadline: Option<Instant>,
    ) -> Settled {
        let mut frame = self.channel.frame(&self.body);
        let mut pause = FIRST;
        loop {
            if deadline.is_none() && *stop.borrow() {
                deadline = Some(Instant::now() + self.config.drain);
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                self.counters.dropped(points, "shutdown");
                return Settled::Done;
            }
            let begin = Instant::now();
            let timeout = left.map_or(self.config.timeout, |l| l.min(self.config.timeout));
            let verdict = self.channel.send(frame.clone(), timeout).await;
            self.counters.sent(points, self.body.len() as u64, &verdict);
            match verdict {
                Verdict::Taken { rejected, message } => {
                    let rejected = rejected.min(points);
                    self.counters.acked(points - rejected, rejected, begin.elapsed(), self.clock.now());
                    if rejected > 0 && self.counters.news("rejected") {
                        tracing::warn!(points = rejected, message, "collector refused some points");
                    }
                    if self.counters.up() {
                        tracing::info!(collector = self.config.url, "collector takes samples");
                    }
                    return Settled::Done;
                }
                Verdict::TooLarge(_) if divisible => return Settled::TooLarge,
                Verdict::Compression(message) if self.channel.compression() != Compression::None => {
                    let now = self.channel.weaker_compression();
                    frame = self.channel.frame(&self.body);
                    tracing::info!(compression = ?now, message, "collector does not know this compression");
                }
                Verdict::TooLarge(message) => return self.give_up(points, "too_large", &message),
                Verdict::Compression(message) => return self.give_up(points, "unimplemented", &message),
                Verdict::Permanent { reason, message } => return self.give_up(points, reason, &message),
                Verdict::Retry { after, message } => {
                    if self.counters.down(&message) {
                        let url = &self.config.url;
                        tracing::warn!(
                            collector = url,
                            error = message,
                            "collector is away; trying again, samples wait"
                        );
                    }
                    let wait = after.map_or_else(|| jitter(pause), |a| a.min(ASKED));
                    pause = (pause * 2).min(LONGEST);
                    self.wait(wait, stop, deadline).await;
                    self.counters.retried();
                }
            }
        }
    }

    fn give_up(&self, points: u64, reason: &'static str, message: &str) -> Settled {
        self.counters.dropped(points, reason);
        if self.counters.news(reason) {
            tracing::warn!(points, reason, message, "collector refused a request for good; its points are dropped");
        }
        Settled::Done
    }

    /// Sleeps; shutdown and the deadline end it.
    async fn wait(&self, time: Duration, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        match deadline {
            Some(d) => tokio::time::sleep(time.min(d.saturating_duration_since(Instant::now()))).await,
            None => {
                _ = tokio::time::timeout(time, stop.wait_for(|s| *s)).await;
            }
        }
    }
}

enum Settled {
    Done,
    TooLarge,
}

fn split(mut batch: Vec<Section>, queue: &mut Vec<Vec<Section>>) {
    let second = batch.split_off(batch.len() / 2);
    queue.push(second);
    queue.push(batch);
}

/// Half to one and a half of a pause, so that thousands of agents do not come back in step.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) >> 32;
    pause.mul_f64(0.5 + random as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_spread_around_their_length() {
        let pauses: Vec<Duration> = (0..200).map(|_| jitter(FIRST)).collect();
        assert!(pauses.iter().all(|p| (FIRST / 2..=FIRST * 3 / 2).contains(p)));
        assert!(pauses.iter().any(|p| *p < FIRST) && pauses.iter().any(|p| *p > FIRST));
    }
}
