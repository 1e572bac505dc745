//! Who may come in, and who is told to come back: a bounded number of requests is handled, a bounded number of bytes
//! waits, and what waits is called by its [`Rank`]. Nothing queues without a bound, and a refusal names a time.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::priority_class::Rank;
use fabriclens_core::byte_quota::{ByteQuota, Full, Held};
use fabriclens_core::endpoint::jitter;
use fabriclens_core::pressure::{Level, Pressure};

/// How long a request waits for its turn; less than agents wait for an answer, so that nothing is done in vain.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The same for what is late anyway.
const LATE_PATIENCE: Duration = Duration::from_secs(1);
/// Bounds of the time after which a sender may come back; late samples come after the others.
const SOONEST: Duration = Duration::from_secs(1);
const LATE_SOONEST: Duration = Duration::from_secs(5);
const LATEST: Duration = Duration::from_secs(60);
/// From one late request to the next that is taken while memory is short, if there is some: they wait on the disks of
/// their senders, which have an end, and memory may be short for days.
const TRICKLE: Duration = Duration::from_millis(250);
/// How soon those are asked back who were turned away by a collector that stops: the next one may be there by then.
const RESTART: Duration = Duration::from_secs(4);
/// Bytes of bodies that may be held in all, if requests are small; half of them of one caller.
const ROOM: usize = 64 << 20;
/// The same in largest requests.
const LARGEST: usize = 4;

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Others are before it.
    Turns,
    /// Bodies that wait take the room there is.
    Room,
    /// The process has nearly the memory it may have.
    Memory,
    /// There is no memory for more senders than are served.
    Senders,
    /// The collector stops.
    Stopping,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Turns, Self::Room, Self::Memory, Self::Senders, Self::Stopping];

    /// Label value.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "busy",
            Self::Room => "room",
            Self::Memory => "memory",
            Self::Senders => "senders",
            Self::Stopping => "stopping",
        }
    }
}

/// A request that is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// Why.
    pub reason: Reason,
    /// When to come back.
    pub after: Duration,
}

/// See the module.
pub struct Gate {
    slots: usize,
    room: Arc<ByteQuota>,
    pressure: Arc<Pressure>,
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: [VecDeque<oneshot::Sender<Turn>>; Rank::ALL.len()],
    closed: bool,
    /// When the last turn ended while others waited, and the mean time between two such.
    ended: Option<Instant>,
    pace: Duration,
    /// When a late request was last taken although memory was short.
    trickled: Option<Instant>,
    /// Until when those who were turned away are asked to stay away: each gets a time of its own.
    booked: Instant,
}

impl Gate {
    /// For `slots` requests at a time of at most so many bytes.
    pub fn new(slots: usize, message_size: usize, pressure: Arc<Pressure>) -> Arc<Self> {
        Arc::new(Self {
            slots,
            room: ByteQuota::new(ROOM.max(LARGEST * message_size)),
            pressure,
            state: Mutex::new(State {
                free: slots,
                waiting: Default::default(),
                closed: false,
                ended: None,
                pace: Duration::from_millis(1),
                trickled: None,
                booked: Instant::now(),
            }),
        })
    }

    /// From now on all are turned away; those who are in finish.
    pub fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.iter().map(VecDeque::len).sum()
    }

    /// Whether a request should be looked at for its rank: while there is plenty for all, ranks change nothing.
    pub fn tight(&self) -> bool {
        let s = self.state.lock();
        s.free <= self.slots / 2 || self.pressure.level() > Level::Calm
    }

    /// When who waited too long for something else than a turn may come back.
    pub fn busy(&self) -> Away {
        self.state.lock().away(Reason::Turns, Rank::Live)
    }

    /// A place for a body of this caller that is about to be read.
    ///
    /// # Errors
    /// [`Away`] when the collector stops or has no memory for more.
    pub fn body(self: &Arc<Self>, caller: IpAddr) -> Result<Body, Away> {
        let mut s = self.state.lock();
        if s.closed {
            return Err(Away { reason: Reason::Stopping, after: SOONEST + jitter(RESTART) });
        }
        if self.pressure.level() == Level::Full {
            return Err(s.away(Reason::Memory, Rank::Live));
        }
        Ok(Body { gate: self.clone(), held: self.room.of(caller) })
    }

    /// Waits for a turn; hold it until the request is answered.
    ///
    /// # Errors
    /// [`Away`] when others are before it for too long, or there is no memory for its rank.
    pub async fn turn(self: &Arc<Self>, rank: Rank) -> Result<Turn, Away> {
        let late = rank == Rank::Late;
        let called = {
            let mut s = self.state.lock();
            let most = match self.pressure.level() {
                Level::Calm => Rank::Late,
                Level::Raised if late && s.trickles() => Rank::Late,
                Level::Raised => Rank::Live,
                Level::High | Level::Full => Rank::Signals,
            };
            if rank > most {
                return Err(s.away(Reason::Memory, rank));
            }
            if late && self.room.is_short() {
                return Err(s.away(Reason::Room, rank));
            }
            // What is late leaves half of the turns to what is not.
            let free = if late { s.free.saturating_sub(self.slots / 2) } else { s.free };
            if free > 0 {
                s.free -= 1;
                return Ok(Turn(Some(self.clone())));
            }
            let (call, called) = oneshot::channel();
            s.waiting[rank as usize].push_back(call);
            called
        };
        let patience = if late { LATE_PATIENCE } else { PATIENCE };
        match tokio::time::timeout(patience, called).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(self.state.lock().away(Reason::Turns, rank)),
        }
    }

    /// Calls who is next. A turn that nobody takes any more goes to the one behind.
    fn pass(self: &Arc<Self>) {
        loop {
            let call = {
                let mut s = self.state.lock();
                match s.next(self.slots) {
                    Some(call) => call,
                    None => {
                        s.free += 1;
                        return;
                    }
                }
            };
            match call.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

impl State {
    /// Whether a late request is taken although memory is short.
    fn trickles(&mut self) -> bool {
        let due = self.trickled.is_none_or(|last| last.elapsed() >= TRICKLE);
        if due {
            self.trickled = Some(Instant::now());
        }
        due
    }

    /// Who waits longest in the first rank that may have a turn now.
    fn next(&mut self, slots: usize) -> Option<oneshot::Sender<Turn>> {
        let now = Instant::now();
        if let Some(before) = self.ended {
            self.pace = (self.pace * 7 + now.saturating_duration_since(before).min(LATEST)) / 8;
        }
        let open = if self.free >= slots / 2 { Rank::Late } else { Rank::Live };
        let next = self.waiting[..=open as usize].iter_mut().find_map(VecDeque::pop_front);
        self.ended = next.is_some().then_some(now);
        next
    }

    /// Each that is turned away gets the next free time at the pace at which requests are answered, so that thousands
    /// that come together do not come together again.
    fn away(&mut self, reason: Reason, rank: Rank) -> Away {
        let soonest = if rank == Rank::Late { LATE_SOONEST } else { SOONEST };
        let now = Instant::now();
        self.booked = self.booked.max(now) + self.pace;
        let wait = self.booked - now;
        // Beyond the longest wait there is no telling any more: spread over the last half of it.
        let after = if wait > LATEST / 2 { jitter(LATEST) } else { wait };
        self.booked = self.booked.min(now + LATEST);
        Away { reason, after: soonest / 2 + jitter(soonest) + after.min(LATEST) }
    }
}

/// A turn; the next one is called when it is dropped.
pub struct Turn(Option<Arc<Gate>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.pass();
        }
    }
}

/// The bytes of one body.
pub struct Body {
    gate: Arc<Gate>,
    held: Held,
}

impl Body {
    /// Room for more bytes.
    ///
    /// # Errors
    /// [`Away`] when all bodies together, or those of this caller, take what they may.
    pub fn take(&mut self, bytes: usize) -> Result<(), Away> {
        let taken = self.held.add(bytes);
        taken.map_err(|Full| self.gate.state.lock().away(Reason::Room, Rank::Live))
    }

    /// So many bytes are left of it, or have become of it.
    ///
    /// # Errors
    /// As of [`Body::take`].
    pub fn keep(&mut self, bytes: usize) -> Result<(), Away> {
        let kept = self.held.hold(bytes);
        kept.map_err(|Full| self.gate.state.lock().away(Reason::Room, Rank::Live))
    }

    /// Replaces the body by one of this size, unless the quota is short: then it stays as it was, and false is returned.
    pub fn try_keep(&mut self, bytes: usize) -> bool {
        !self.gate.room.is_short() && self.held.hold(bytes).is_ok()
    }
}

#[cfg(test)]
mod tests;
