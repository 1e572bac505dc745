//! Bounds the work of ingest: a limited number of requests is handled at a time, a limited number of bytes waits, and
//! waiting requests are served by [`PriorityClass`]. Rejections carry a retry delay.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::priority_class::PriorityClass;
use fabriclens_core::byte_quota::{ByteQuota, Full, Lease};
use fabriclens_core::endpoint::jitter;
use fabriclens_core::pressure::{Level, Pressure};

/// Longest wait for a permit; shorter than the timeout of agents, so that no work is done in vain.
pub const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait of late samples.
const LATE_PERMIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Bounds of the retry delay; late samples retry later than others.
const MIN_RETRY: Duration = Duration::from_secs(1);
const LATE_MIN_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_secs(60);
/// Interval at which one late request is accepted while memory is short. Late samples wait on the disks of agents,
/// which are bounded, and memory may be short for days.
const LATE_INTERVAL: Duration = Duration::from_millis(250);
/// Retry delay when the collector stops; its successor may be ready by then.
const RESTART_DELAY: Duration = Duration::from_secs(4);
/// Bytes of bodies that may be held if requests are small; half of it by one caller.
const BODY_BYTES: usize = 64 << 20;
/// The same as a multiple of the largest request.
const LARGEST_BODIES: usize = 4;

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All permits are in use.
    Permits,
    /// Waiting bodies use up the quota.
    Bodies,
    /// The process is near its memory limit.
    Memory,
    /// No memory for more senders.
    Senders,
    /// The collector is stopping.
    Stopping,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Permits, Self::Bodies, Self::Memory, Self::Senders, Self::Stopping];

    /// Value of the `reason` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permits => "busy",
            Self::Bodies => "room",
            Self::Memory => "memory",
            Self::Senders => "senders",
            Self::Stopping => "stopping",
        }
    }
}

/// A rejected request, which may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Reason.
    pub reason: Reason,
    /// Time until the sender may retry.
    pub after: Duration,
}

/// Hands out permits to handle requests, by priority class.
pub struct Gate {
    slots: usize,
    bodies: Arc<ByteQuota>,
    pressure: Arc<Pressure>,
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: [VecDeque<oneshot::Sender<Permit>>; PriorityClass::ALL.len()],
    closed: bool,
    /// When the last permit was returned while requests waited, and the mean time between two such returns.
    ended: Option<Instant>,
    pace: Duration,
    /// When a late request was last accepted although memory was short.
    late_accepted: Option<Instant>,
    /// Time up to which retries of rejected senders are scheduled; each gets its own slot.
    scheduled: Instant,
}

impl Gate {
    /// Creates a gate for `slots` concurrent requests of at most `message_size` bytes.
    pub fn new(slots: usize, message_size: usize, pressure: Arc<Pressure>) -> Arc<Self> {
        Arc::new(Self {
            slots,
            bodies: ByteQuota::new(BODY_BYTES.max(LARGEST_BODIES * message_size)),
            pressure,
            state: Mutex::new(State {
                free: slots,
                waiting: Default::default(),
                closed: false,
                ended: None,
                pace: Duration::from_millis(1),
                late_accepted: None,
                scheduled: Instant::now(),
            }),
        })
    }

    /// Rejects all further requests; permits in use stay valid.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.iter().map(VecDeque::len).sum()
    }

    /// Whether requests must be inspected for their priority class; while permits are plentiful all are equal.
    pub fn tight(&self) -> bool {
        let s = self.state.lock();
        s.free <= self.slots / 2 || self.pressure.level() > Level::Normal
    }

    /// Rejection of a request that waited too long for something other than a permit.
    pub fn busy(&self) -> Rejection {
        self.state.lock().reject(Reason::Permits, PriorityClass::Live)
    }

    /// Starts to account for a body of this caller.
    ///
    /// # Errors
    /// [`Rejection`] if the collector stops or memory is full.
    pub fn body(self: &Arc<Self>, caller: IpAddr) -> Result<BodyLease, Rejection> {
        let mut s = self.state.lock();
        if s.closed {
            return Err(Rejection { reason: Reason::Stopping, after: MIN_RETRY + jitter(RESTART_DELAY) });
        }
        if self.pressure.level() == Level::Full {
            return Err(s.reject(Reason::Memory, PriorityClass::Live));
        }
        Ok(BodyLease { gate: self.clone(), held: self.bodies.of(caller) })
    }

    /// Waits for a permit, which must be held until the request is answered.
    ///
    /// # Errors
    /// [`Rejection`] if the wait is too long, or memory is too short for the priority class.
    pub async fn permit(self: &Arc<Self>, class: PriorityClass) -> Result<Permit, Rejection> {
        let late = class == PriorityClass::Late;
        let receiver = {
            let mut s = self.state.lock();
            let most = match self.pressure.level() {
                Level::Normal => PriorityClass::Late,
                Level::Raised if late && s.accepts_late() => PriorityClass::Late,
                Level::Raised => PriorityClass::Live,
                Level::High | Level::Full => PriorityClass::Signals,
            };
            if class > most {
                return Err(s.reject(Reason::Memory, class));
            }
            if late && self.bodies.is_short() {
                return Err(s.reject(Reason::Bodies, class));
            }
            // Late samples leave half of the permits to others.
            let free = if late { s.free.saturating_sub(self.slots / 2) } else { s.free };
            if free > 0 {
                s.free -= 1;
                return Ok(Permit(Some(self.clone())));
            }
            let (sender, receiver) = oneshot::channel();
            s.waiting[class as usize].push_back(sender);
            receiver
        };
        let timeout = if late { LATE_PERMIT_TIMEOUT } else { PERMIT_TIMEOUT };
        match tokio::time::timeout(timeout, receiver).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.state.lock().reject(Reason::Permits, class)),
        }
    }

    /// Passes a returned permit to the next request; if its client has gone, to the one after it.
    fn pass(self: &Arc<Self>) {
        loop {
            let next = {
                let mut s = self.state.lock();
                match s.next(self.slots) {
                    Some(next) => next,
                    None => {
                        s.free += 1;
                        return;
                    }
                }
            };
            match next.send(Permit(Some(self.clone()))) {
                Ok(()) => return,
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

impl State {
    /// Whether a late request is due although memory is short.
    fn accepts_late(&mut self) -> bool {
        let due = self.late_accepted.is_none_or(|last| last.elapsed() >= LATE_INTERVAL);
        if due {
            self.late_accepted = Some(Instant::now());
        }
        due
    }

    /// Returns the longest waiting request of the highest class that may run.
    fn next(&mut self, slots: usize) -> Option<oneshot::Sender<Permit>> {
        let now = Instant::now();
        if let Some(before) = self.ended {
            self.pace = (self.pace * 7 + now.saturating_duration_since(before).min(MAX_RETRY)) / 8;
        }
        let open = if self.free >= slots / 2 { PriorityClass::Late } else { PriorityClass::Live };
        let next = self.waiting[..=open as usize].iter_mut().find_map(VecDeque::pop_front);
        self.ended = next.is_some().then_some(now);
        next
    }

    /// Schedules the retry of a rejected sender: each gets the next slot at the rate at which requests are answered, so
    /// that thousands that came together do not return together.
    fn reject(&mut self, reason: Reason, class: PriorityClass) -> Rejection {
        let min_retry = if class == PriorityClass::Late { LATE_MIN_RETRY } else { MIN_RETRY };
        let now = Instant::now();
        self.scheduled = self.scheduled.max(now) + self.pace;
        let wait = self.scheduled - now;
        // Beyond the longest delay the schedule is meaningless; spreads retries over its last half.
        let after = if wait > MAX_RETRY / 2 { jitter(MAX_RETRY) } else { wait };
        self.scheduled = self.scheduled.min(now + MAX_RETRY);
        Rejection { reason, after: min_retry / 2 + jitter(min_retry) + after.min(MAX_RETRY) }
    }
}

/// A permit to handle one request; dropping it passes it on.
pub struct Permit(Option<Arc<Gate>>);

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.pass();
        }
    }
}

/// Bytes held by one request body.
pub struct BodyLease {
    gate: Arc<Gate>,
    held: Lease,
}

impl BodyLease {
    /// Adds bytes to the body.
    ///
    /// # Errors
    /// [`Rejection`] if the quota of all bodies, or of this caller, is used up.
    pub fn take(&mut self, bytes: usize) -> Result<(), Rejection> {
        let taken = self.held.add(bytes);
        taken.map_err(|Full| self.gate.state.lock().reject(Reason::Bodies, PriorityClass::Live))
    }

    /// Sets the bytes of the body.
    ///
    /// # Errors
    /// [`Rejection`], as for [`BodyLease::take`].
    pub fn keep(&mut self, bytes: usize) -> Result<(), Rejection> {
        let kept = self.held.hold(bytes);
        kept.map_err(|Full| self.gate.state.lock().reject(Reason::Bodies, PriorityClass::Live))
    }

    /// Sets the bytes of the body unless the quota is short; returns whether it did.
    pub fn try_keep(&mut self, bytes: usize) -> bool {
        !self.gate.bodies.is_short() && self.held.hold(bytes).is_ok()
    }
}

#[cfg(test)]
mod tests;
