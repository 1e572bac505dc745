//! Delivers what the spool holds, beside live samples and at a pace: a random time after the collector is back, one
//! request at a time, no more bytes a second than configured, and no more of the collector's time than [`SHARE`].

use crate::config::{Compression, Spool};
use crate::counters::{Counters, Place, State};
use crate::frame::Frame;
use crate::response::Verdict;
use crate::spool::Request;
use crate::spool_task::Keeper;
use crate::targets::Targets;
use crate::{ASKED, FIRST, LONGEST, jitter, spread};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Of the time, the part in which a request is under way: a collector that is busy answers slowly and is asked less.
const SHARE: u32 = 4;
/// How often is looked whether the collector is back, and whether a spool that cannot be read or opened can be.
const LOOK: Duration = Duration::from_secs(1);
const BROKEN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Backfill {
    pub(crate) keeper: Keeper,
    pub(crate) counters: Arc<Counters>,
    pub(crate) targets: Targets,
    pub(crate) timeout: Duration,
    pub(crate) spool: Spool,
    /// The receiver does not know how requests are compressed.
    pub(crate) plain: bool,
}

impl Backfill {
    /// Never ends.
    pub(crate) async fn run(mut self) {
        while !self.keeper.is_open() {
            sleep(BROKEN).await;
            self.keeper.reopen().await;
        }
        let (mut fresh, mut pause) = (true, FIRST);
        loop {
            if self.counters.accounts().spooled == 0 {
                self.keeper.filled().await;
            } else if self.counters.state() != State::Up {
                fresh = true;
                sleep(LOOK).await;
            } else if std::mem::take(&mut fresh) {
                sleep(spread(self.spool.jitter)).await;
            } else {
                let rest = match self.keeper.next().await {
                    Ok(Some(request)) => self.deliver(request, &mut pause).await,
                    Ok(None) => LOOK,
                    Err(()) => BROKEN,
                };
                sleep(rest).await;
            }
        }
    }

    /// Sends one request; returns how long to rest then.
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
        let (verdict, lost) = self.send(frame, points).await;
        match verdict {
            Verdict::Retry { .. } | Verdict::Refused { .. } => {
                let (after, message) = verdict.later();
                tracing::debug!(message, "a request of the spool is not taken now");
                self.counters.retried();
                let wait = after.map_or_else(|| jitter(*pause), |asked| asked.min(ASKED));
                *pause = (*pause * 2).min(LONGEST);
                return wait;
            }
            Verdict::Compression(_) if compressed => {
                self.plain = true;
                return Duration::ZERO;
            }
            Verdict::Taken { rejected, message } => {
                let lost = lost.min(points);
                let rejected = rejected.min(points - lost);
                if rejected > 0 && self.counters.news("rejected") {
                    tracing::warn!(points = rejected, message, "collector refused some points of the spool");
                }
                let settle = move |counters: &Counters| {
                    counters.acked(Place::Spool, points - rejected - lost, rejected);
                    if lost > 0 {
                        counters.dropped(Place::Spool, lost, "too_large");
                    }
                };
                self.keeper.done(request, settle).await;
            }
            Verdict::TooLarge(message) => self.give_up(request, "too_large", &message).await,
            Verdict::Compression(message) => self.give_up(request, "unimplemented", &message).await,
            Verdict::Permanent { reason, message } => self.give_up(request, reason, &message).await,
        }
        *pause = FIRST;
        let paced = Duration::from_secs_f64(bytes as f64 / self.spool.rate as f64);
        paced.saturating_sub(begin.elapsed()).max(begin.elapsed() * (SHARE - 1))
    }

    /// Sends a request, in parts where it is too large: this collector may take less than the one it was made for. What all
    /// answers mean together, and the points of parts that are too large and are no more to be parted. Where a part is to
    /// be sent again all is: what is stored already counts once.
    async fn send(&mut self, frame: Frame, all: u64) -> (Verdict, u64) {
        let (mut rejected, mut lost, mut told) = (0, 0, String::new());
        let mut parts = vec![(frame, all)];
        while let Some((frame, points)) = parts.pop() {
            let verdict = self.targets.current().send(frame.clone(), self.timeout).await;
            self.counters.sent(points, frame.bytes.len() as u64, &verdict);
            match verdict {
                Verdict::Taken { rejected: more, message } => {
                    rejected += more;
                    told = if more > 0 { message } else { told };
                }
                Verdict::TooLarge(message) => match frame.halves() {
                    Some([first, second]) => {
                        let of_first = first.points().min(points);
                        parts.extend([(second, points - of_first), (first, of_first)]);
                    }
                    None if points == all => return (Verdict::TooLarge(message), 0),
                    None => {
                        lost += points;
                        if self.counters.news("too_large") {
                            tracing::warn!(
                                points,
                                message,
                                "what the spool holds is too large; its points are dropped"
                            );
                        }
                    }
                },
                other => return (other, lost),
            }
        }
        (Verdict::Taken { rejected, message: told }, lost)
    }

    async fn give_up(&self, request: Request, reason: &'static str, message: &str) {
        let points = request.points;
        if self.counters.news(reason) {
            tracing::warn!(
                points,
                reason,
                message,
                "collector refused a request of the spool for good; its points are dropped"
            );
        }
        self.keeper.done(request, move |counters| counters.dropped(Place::Spool, points, reason)).await;
    }
}
