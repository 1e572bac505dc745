//! Delivers the spool in parallel with live samples, at a limited rate: after a random delay once the collector is
//! back, one request at a time, at most the configured bytes per second and [`SHARE`] of the collector's time.

use crate::backoff::{ASKED, FIRST, LONGEST, jitter, spread};
use crate::config::{Compression, Spool};
use crate::counters::{Buffer, Counters, State};
use crate::frame::Frame;
use crate::response::ResponseClass;
use crate::spool::Request;
use crate::spool_task::SpoolTask;
use crate::targets::Targets;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Divisor of the time share in which a request is in flight: a busy collector answers slowly and gets fewer requests.
const SHARE: u32 = 4;
/// Interval at which the collector's state, or an unusable spool, is checked again.
const LOOK: Duration = Duration::from_secs(1);
const BROKEN: Duration = Duration::from_secs(10);

/// Task that delivers the spool.
#[derive(Debug)]
pub(crate) struct Backfill {
    pub(crate) spool_task: SpoolTask,
    pub(crate) counters: Arc<Counters>,
    pub(crate) targets: Targets,
    pub(crate) timeout: Duration,
    pub(crate) spool: Spool,
    /// Requests are sent uncompressed, because the receiver does not support the compression of the spool.
    pub(crate) plain: bool,
}

impl Backfill {
    /// Runs until the uplink ends.
    pub(crate) async fn run(mut self) {
        while !self.spool_task.is_open() {
            sleep(BROKEN).await;
            self.spool_task.reopen().await;
        }
        let (mut fresh, mut pause) = (true, FIRST);
        loop {
            if self.counters.accounts().spooled == 0 {
                self.spool_task.filled().await;
            } else if self.counters.state() != State::Up {
                fresh = true;
                sleep(LOOK).await;
            } else if std::mem::take(&mut fresh) {
                sleep(spread(self.spool.jitter)).await;
            } else {
                let rest = match self.spool_task.next().await {
                    Ok(Some(request)) => self.deliver(request, &mut pause).await,
                    Ok(None) => LOOK,
                    Err(()) => BROKEN,
                };
                sleep(rest).await;
            }
        }
    }

    /// Sends one request; returns the pause until the next.
    async fn deliver(&mut self, mut request: Request, pause: &mut Duration) -> Duration {
        let (begin, points, bytes) = (Instant::now(), request.points, request.payload.len());
        let mut frame = Frame::kept(std::mem::take(&mut request.payload), request.encoding);
        if self.plain {
            frame = match frame.plain() {
                Ok(frame) => frame,
                Err(error) => {
                    self.give_up(request, "spool_damaged", &error.to_string()).await;
                    return Duration::ZERO;
                }
            };
        }
        let compressed = frame.compression != Compression::None;
        let (class, lost) = self.send(frame, points).await;
        match class {
            ResponseClass::Retry { .. } | ResponseClass::Refused { .. } => {
                let (after, message) = class.later();
                tracing::debug!(message, "collector rejects a spooled request for now");
                self.counters.retried();
                let wait = after.map_or_else(|| jitter(*pause), |asked| asked.min(ASKED));
                *pause = (*pause * 2).min(LONGEST);
                return wait;
            }
            ResponseClass::Compression(_) if compressed => {
                self.plain = true;
                return Duration::ZERO;
            }
            ResponseClass::Accepted { rejected, message } => {
                let lost = lost.min(points);
                let rejected = rejected.min(points - lost);
                if rejected > 0 && self.counters.news("rejected") {
                    tracing::warn!(points = rejected, message, "collector rejected some points of a spooled request");
                }
                let settle = move |counters: &Counters| {
                    counters.acked(Buffer::Spool, points - rejected - lost, rejected);
                    if lost > 0 {
                        counters.dropped(Buffer::Spool, lost, "too_large");
                    }
                };
                self.spool_task.done(request, settle).await;
            }
            ResponseClass::TooLarge(message) => self.give_up(request, "too_large", &message).await,
            ResponseClass::Compression(message) => self.give_up(request, "unimplemented", &message).await,
            ResponseClass::Permanent { reason, message } => self.give_up(request, reason, &message).await,
        }
        *pause = FIRST;
        let paced = Duration::from_secs_f64(bytes as f64 / self.spool.rate as f64);
        paced.saturating_sub(begin.elapsed()).max(begin.elapsed() * (SHARE - 1))
    }

    /// Sends a request; halves it as long as it is too large, since this collector may accept less than the one that it
    /// was encoded for. Returns the combined response and the points lost in parts that are too large and indivisible.
    /// If one part must be retried, all are sent again: the collector deduplicates samples.
    async fn send(&mut self, frame: Frame, all: u64) -> (ResponseClass, u64) {
        let (mut rejected, mut lost, mut rejection) = (0, 0, String::new());
        let mut parts = vec![(frame, all)];
        while let Some((frame, points)) = parts.pop() {
            let class = self.targets.current().send(frame.clone(), self.timeout).await;
            self.counters.sent(points, frame.bytes.len() as u64, &class);
            match class {
                ResponseClass::Accepted { rejected: more, message } => {
                    rejected += more;
                    rejection = if more > 0 { message } else { rejection };
                }
                ResponseClass::TooLarge(message) => match frame.halves() {
                    Some([first, second]) => {
                        let of_first = first.points().min(points);
                        parts.extend([(second, points - of_first), (first, of_first)]);
                    }
                    None if points == all => return (ResponseClass::TooLarge(message), 0),
                    None => {
                        lost += points;
                        if self.counters.news("too_large") {
                            tracing::warn!(points, message, "spooled request is too large; its points are dropped");
                        }
                    }
                },
                other => return (other, lost),
            }
        }
        (ResponseClass::Accepted { rejected, message: rejection }, lost)
    }

    async fn give_up(&self, request: Request, reason: &'static str, message: &str) {
        let points = request.points;
        if self.counters.news(reason) {
            tracing::warn!(
                points,
                reason,
                message,
                "collector rejected a spooled request permanently; its points are dropped"
            );
        }
        self.spool_task.done(request, move |counters| counters.dropped(Buffer::Spool, points, reason)).await;
    }
}
