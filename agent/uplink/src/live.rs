//! Live samples: drains the ring, encodes, sends, tries again; what cannot be delivered for long goes to the spool.

use crate::config::{Collector, Compression};
use crate::counters::{Counters, Place};
use crate::frame::Frame;
use crate::response::Verdict;
use crate::ring::Reader;
use crate::spool_task::Keeper;
use crate::targets::Targets;
use crate::{ASKED, Extra, FIRST, LONGEST, jitter};
use fabriclens_agent_host::clock::Clock;
use fabriclens_wire::encode::{self, Encoder};
use fabriclens_wire::{Resource, Section};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Requests beyond this many bytes are split before they are sent: many receivers refuse 4 MiB.
const REQUEST: usize = 3 << 20;
/// How often is looked, in a pause, whether the ring fills up.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a spool took nothing.
const BROKEN: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) config: Collector,
    pub(crate) ring: Arc<Reader<Section>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) targets: Targets,
    /// With how long a collector must be away before it is used.
    pub(crate) keeper: Option<(Keeper, Duration)>,
    pub(crate) extra: Option<Extra>,
    pub(crate) encoder: Encoder,
    /// The request under way, and room for the next one.
    pub(crate) body: Vec<u8>,
    /// Next pause of our own making.
    pub(crate) pause: Duration,
    /// Nothing is sent before.
    pub(crate) not_before: Instant,
    /// Nothing is kept before.
    pub(crate) keeps_from: Instant,
}

enum Settled {
    Done,
    TooLarge,
}

impl Live {
    /// Until `stop` turns true; then what is queued is sent, for at most the configured time, or kept.
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
    /// away, samples gather until it is asked again.
    async fn next_batch(&self) -> Vec<Section> {
        if self.ring.len() >= self.config.batch {
            return self.ring.take(self.config.batch);
        }
        let away = self.not_before.saturating_duration_since(Instant::now());
        // The request before was answered just now.
        let urgent = Some(self.config.urgent).filter(|soonest| !soonest.is_zero() && away.is_zero());
        self.ring.drain(self.config.batch, self.config.flush.max(away), urgent).await
    }

    /// Sends a batch until it is settled: each of its points is acknowledged, rejected, dropped or kept.
    async fn deliver(&mut self, mut batch: Vec<Section>, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        self.counters.taken(points(&batch));
        match &self.keeper {
            Some((keeper, _)) => keeper.check(points(&batch)),
            None => self.counters.check(points(&batch), None),
        }
        let (own, now) = (batch.len(), self.clock.now());
        batch.push(self.counters.section(&self.resource, now));
        batch.extend(self.extra.iter().flat_map(|extra| extra.0(&self.resource, now)));
        self.counters.own(points(&batch[own..]));
        let mut queue = vec![batch];
        while let Some(batch) = queue.pop() {
            self.encoder.encode(&batch, &mut self.body);
            if self.body.len() > REQUEST && batch.len() > 1 {
                split(batch, &mut queue);
                continue;
            }
            match self.settle(points(&batch), batch.len() > 1, stop, deadline).await {
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
                    self.counters.dropped(Place::Memory, points, "shutdown");
                    return Settled::Done;
                }
                self.wait(pause.min(LOOK), stop, deadline).await;
                continue;
            }
            if std::mem::replace(&mut again, true) {
                self.counters.retried();
            }
            let timeout = left.map_or(self.config.timeout, |l| l.min(self.config.timeout));
            let verdict = self.targets.current().send(frame.clone(), timeout).await;
            self.counters.sent(points, self.body.len() as u64, &verdict);
            match verdict {
                Verdict::Taken { rejected, message } => {
                    self.taken(points, rejected, &message, now);
                    return Settled::Done;
                }
                Verdict::TooLarge(_) if divisible => return Settled::TooLarge,
                Verdict::Compression(message) if frame.compression != Compression::None => {
                    let channel = self.targets.current();
                    let now = channel.weaker_compression(frame.compression);
                    frame = channel.frame(&self.body);
                    tracing::info!(compression = ?now, message, "collector does not know this compression");
                }
                Verdict::TooLarge(message) => return self.give_up(points, "too_large", &message),
                Verdict::Compression(message) => return self.give_up(points, "unimplemented", &message),
                Verdict::Permanent { reason, message } => return self.give_up(points, reason, &message),
                Verdict::Retry { .. } | Verdict::Refused { .. } => {
                    let (after, error) = verdict.later();
                    let refused = matches!(verdict, Verdict::Refused { .. });
                    if self.counters.down(error, refused) {
                        let collector = self.targets.current().url();
                        let what = if refused { "refuses this agent" } else { "is away" };
                        tracing::warn!(collector, error, "collector {what}; trying again, samples wait");
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
        self.counters.acked(Place::Memory, points - rejected, rejected);
        self.counters.answered(begin.elapsed(), self.clock.now());
        self.targets.answered();
        self.pause = FIRST;
        if rejected > 0 && self.counters.news("rejected") {
            tracing::warn!(points = rejected, message, "collector refused some points");
        }
        if self.counters.up() {
            tracing::info!(collector = self.targets.current().url(), "collector takes samples");
        }
    }

    fn give_up(&self, points: u64, reason: &'static str, message: &str) -> Settled {
        self.counters.dropped(Place::Memory, points, reason);
        if self.counters.news(reason) {
            tracing::warn!(points, reason, message, "collector refused a request for good; its points are dropped");
        }
        Settled::Done
    }

    /// Whether it is time for the spool: at the end, and when the collector is away for long or memory fills up.
    fn spills(&self, ends: bool) -> bool {
        let Some((_, after)) = &self.keeper else { return false };
        let long = self.counters.away().is_some_and(|time| time >= *after);
        ends || Instant::now() >= self.keeps_from && (long || self.ring.is_half_full())
    }

    async fn keep(&mut self, frame: &Frame, points: u64) -> bool {
        let Some((keeper, _)) = &self.keeper else { return false };
        let kept = keeper.keep(frame.clone(), points).await;
        if !kept {
            self.keeps_from = Instant::now() + BROKEN;
        }
        kept
    }

    /// Sleeps; shutdown and the deadline end it, and a ring that fills up while there is somewhere else.
    async fn wait(&self, time: Duration, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) {
        let time = deadline.map_or(time, |d| time.min(d.saturating_duration_since(Instant::now())));
        let keeps = self.keeper.is_some() && Instant::now() >= self.keeps_from;
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
