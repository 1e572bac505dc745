//! Sends live samples: drains the ring, encodes, sends and retries; spools what cannot be delivered for long.

use crate::backoff::{ASKED, FIRST, LONGEST, jitter};
use crate::config::{Collector, Compression};
use crate::counters::{Buffer, Counters};
use crate::frame::Frame;
use crate::response::ResponseClass;
use crate::ring::Reader;
use crate::spool_task::SpoolTask;
use crate::targets::Targets;
use fabriclens_agent_host::clock::Clock;
use fabriclens_wire::encode::{self, Encoder};
use fabriclens_wire::{Resource, Section};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Requests above this size, bytes, are split: many receivers refuse 4 MiB.
const REQUEST: usize = 3 << 20;
/// Bytes of a section, before any was encoded: one of a switch port with its names.
pub(crate) const SECTION: usize = 4096;
/// Interval at which a pause checks whether the ring fills up.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after the spool failed.
const BROKEN: Duration = Duration::from_secs(5);

/// Task that sends live samples.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) config: Collector,
    pub(crate) ring: Arc<Reader<Section>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) targets: Targets,
    /// Spool, and the time that a collector must be unreachable before it is used.
    pub(crate) spool_task: Option<(SpoolTask, Duration)>,
    pub(crate) extra: Option<Extra>,
    pub(crate) encoder: Encoder,
    /// Encoded request in flight; its memory is reused.
    pub(crate) body: Vec<u8>,
    /// Bytes that a section took in the last request, to split a batch before it is encoded.
    pub(crate) per_section: usize,
    /// Next backoff pause.
    pub(crate) pause: Duration,
    /// Earliest time of the next request.
    pub(crate) not_before: Instant,
    /// Earliest time at which the spool is used again after a failure.
    pub(crate) keeps_from: Instant,
}

/// Callback that adds sections of other parts of the agent to each flush.
pub(crate) struct Extra(pub(crate) Box<MakeSections>);

pub(crate) type MakeSections = dyn Fn(&Arc<Resource>, u64) -> Vec<Section> + Send + Sync;

impl std::fmt::Debug for Extra {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Extra")
    }
}

enum Settled {
    Done,
    TooLarge,
}

impl Live {
    /// Runs until `stop` turns true; then sends queued samples for at most the configured time, and spools the rest.
    pub(crate) async fn run(&mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let sections = tokio::select! {
                sections = self.next_batch() => sections,
                _ = stop.wait_for(|s| *s) => break,
            };
            if !sections.is_empty() {
                self.clock.look();
                self.deliver(sections, &mut stop, None).await;
            }
        }
        let deadline = Instant::now() + self.config.drain;
        loop {
            let sections = self.ring.take(self.config.batch);
            if sections.is_empty() {
                break;
            }
            self.deliver(sections, &mut stop, Some(deadline)).await;
        }
    }

    /// Waits for the flush time or an urgent section; not at all while a full batch is queued. While the collector is
    /// unreachable, samples gather until the next attempt.
    async fn next_batch(&self) -> Vec<Section> {
        if self.ring.len() >= self.config.batch {
            return self.ring.take(self.config.batch);
        }
        let away = self.not_before.saturating_duration_since(Instant::now());
        // Only while the collector answers.
        let urgent = Some(self.config.urgent).filter(|soonest| !soonest.is_zero() && away.is_zero());
        self.ring.drain(self.config.batch, self.config.flush.max(away), urgent).await
    }

    /// Sends a batch until each of its points is acknowledged, rejected, dropped or spooled.
    async fn deliver(&mut self, mut batch: Vec<Section>, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        self.counters.taken(points(&batch));
        match &self.spool_task {
            Some((spool_task, _)) => spool_task.check(points(&batch)),
            None => self.counters.check(points(&batch), None),
        }
        let (own, now) = (batch.len(), self.clock.now());
        batch.push(self.counters.section(&self.resource, now));
        batch.extend(self.extra.iter().flat_map(|extra| extra.0(&self.resource, now)));
        self.counters.own(points(&batch[own..]));
        let mut queue = vec![batch];
        while let Some(batch) = queue.pop() {
            if self.is_too_large(batch.len()) {
                split(batch, &mut queue);
                continue;
            }
            self.encoder.encode(&batch, &mut self.body);
            self.per_section = self.body.len() / batch.len().max(1);
            if self.body.len() > REQUEST && batch.len() > 1 {
                split(batch, &mut queue);
                self.body.clear();
                self.body.shrink_to(REQUEST);
                continue;
            }
            match self.settle(points(&batch), batch.len() > 1, stop, deadline).await {
                Settled::Done => {}
                Settled::TooLarge => split(batch, &mut queue),
            }
        }
    }

    /// Whether a batch of so many sections will probably be larger than a request may be.
    fn is_too_large(&self, sections: usize) -> bool {
        sections > 1 && sections * self.per_section > REQUEST
    }

    /// Sends `body` until it is settled.
    async fn settle(
        &mut self,
        points: u64,
        divisible: bool,
        stop: &mut watch::Receiver<bool>,
        mut deadline: Option<Instant>,
    ) -> Settled {
        let (mut frame, mut again) = (self.targets.current().frame(&self.body), false);
        loop {
            if deadline.is_none() && *stop.borrow() {
                deadline = Some(Instant::now() + self.config.drain);
            }
            let now = Instant::now();
            let left = deadline.map(|d| d.saturating_duration_since(now));
            let (over, pause) = (left.is_some_and(|l| l.is_zero()), self.not_before.saturating_duration_since(now));
            if over || !pause.is_zero() {
                if self.spills(deadline.is_some()) && self.keep(&frame, points).await {
                    return Settled::Done;
                }
                if over {
                    self.counters.dropped(Buffer::Memory, points, "shutdown");
                    return Settled::Done;
                }
                self.wait(pause.min(LOOK), stop, deadline).await;
                continue;
            }
            if std::mem::replace(&mut again, true) {
                self.counters.retried();
            }
            let timeout = left.map_or(self.config.timeout, |l| l.min(self.config.timeout));
            let class = self.targets.current().send(frame.clone(), timeout).await;
            self.counters.sent(points, self.body.len() as u64, &class);
            match class {
                ResponseClass::Accepted { rejected, message } => {
                    self.taken(points, rejected, &message, now);
                    return Settled::Done;
                }
                ResponseClass::TooLarge(_) if divisible => return Settled::TooLarge,
                ResponseClass::Compression(message) if frame.compression != Compression::None => {
                    let channel = self.targets.current();
                    let now = channel.weaker_compression(frame.compression);
                    frame = channel.frame(&self.body);
                    tracing::info!(compression = ?now, message, "collector does not support this compression");
                }
                ResponseClass::TooLarge(message) => return self.give_up(points, "too_large", &message),
                ResponseClass::Compression(message) => return self.give_up(points, "unimplemented", &message),
                ResponseClass::Permanent { reason, message } => return self.give_up(points, reason, &message),
                ResponseClass::Retry { .. } | ResponseClass::Refused { .. } => {
                    let (after, error) = class.later();
                    let refused = matches!(class, ResponseClass::Refused { .. });
                    if self.counters.down(error, refused) {
                        let collector = self.targets.current().url();
                        let what = if refused { "refuses this agent" } else { "is away" };
                        tracing::warn!(collector, error, "collector {what}; retrying, samples are queued");
                    }
                    if self.targets.missed() {
                        continue;
                    }
                    let wait = after.map_or_else(|| jitter(self.pause), |asked| asked.min(ASKED));
                    self.not_before = Instant::now() + wait;
                    self.pause = (self.pause * 2).min(LONGEST);
                }
            }
        }
    }

    fn taken(&mut self, points: u64, rejected: u64, message: &str, begin: Instant) {
        let rejected = rejected.min(points);
        self.counters.acked(Buffer::Memory, points - rejected, rejected);
        self.counters.answered(begin.elapsed(), self.clock.now());
        self.targets.answered();
        self.pause = FIRST;
        if rejected > 0 && self.counters.news("rejected") {
            tracing::warn!(points = rejected, message, "collector rejected some points");
        }
        if self.counters.up() {
            tracing::info!(collector = self.targets.current().url(), "collector accepts samples");
        }
    }

    fn give_up(&self, points: u64, reason: &'static str, message: &str) -> Settled {
        self.counters.dropped(Buffer::Memory, points, reason);
        if self.counters.news(reason) {
            tracing::warn!(points, reason, message, "collector rejected a request permanently; its points are dropped");
        }
        Settled::Done
    }

    /// Whether to spool: at shutdown, and when the collector is unreachable for long or memory fills up.
    fn spills(&self, ends: bool) -> bool {
        let Some((_, after)) = &self.spool_task else { return false };
        let long = self.counters.away().is_some_and(|time| time >= *after);
        ends || Instant::now() >= self.keeps_from && (long || self.ring.is_half_full())
    }

    async fn keep(&mut self, frame: &Frame, points: u64) -> bool {
        let Some((spool_task, _)) = &self.spool_task else { return false };
        let kept = spool_task.keep(frame.clone(), points).await;
        if !kept {
            self.keeps_from = Instant::now() + BROKEN;
        }
        kept
    }

    /// Sleeps; ends early at shutdown, at the deadline, and when the ring fills up while the spool is usable.
    async fn wait(&self, time: Duration, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        let time = deadline.map_or(time, |d| time.min(d.saturating_duration_since(Instant::now())));
        let keeps = self.spool_task.is_some() && Instant::now() >= self.keeps_from;
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = stop.wait_for(|s| *s), if deadline.is_none() => {}
            () = self.ring.filled(), if keeps => {}
        }
    }
}

fn points(sections: &[Section]) -> u64 {
    sections.iter().map(|s| encode::points(s) as u64).sum()
}

fn split(mut batch: Vec<Section>, queue: &mut Vec<Vec<Section>>) {
    let second = batch.split_off(batch.len() / 2);
    queue.push(second);
    queue.push(batch);
}
