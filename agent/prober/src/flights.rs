//! Probes in flight, and what their answers tell.
//!
//! T1 the prober posts the probe; T2 its NIC has sent it; T3 it arrives; T4 the responder's NIC has sent ACK 1; T5 ACK 1
//! arrives; T6 both ACKs are handled. Network round trip = (T5 - T2) - (T4 - T3), delay of the prober's host = (T6 - T1) -
//! (T5 - T2), of the responder's = T4 - T3. T1 and T6 are of the prober's host, T2 and T5 of its NIC, T3 and T4 of the
//! responder's NIC: only differences of one clock are used.

use crate::message::{Kind, Message};
use crate::refusal::Refusal;
use fabriclens_kernel::datagrams::Peer;
use fabriclens_probe_plan::Target;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a probe without an answer is lost. Long, because a host that is short of CPU answers late, which is its
/// delay and no loss.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a probe is remembered, so that late and repeated answers are told apart.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Most probes that are remembered.
const MOST: usize = 8192;
/// Difference that two clocks may have over one probe.
const CLOCKS_NS: u64 = 100_000;
/// A prober that did not run for so long cannot tell whether an answer was lost.
pub const STALL: Duration = Duration::from_millis(100);

/// A probe that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its target.
    pub target: Arc<Target>,
    /// UDP source port, if known.
    pub source_port: Option<u16>,
    /// When it was sent, Unix nanoseconds.
    pub sent_ns: u64,
    /// What came back; `None`: lost.
    pub answer: Option<Answer>,
    /// Delay of the prober's own host, nanoseconds.
    pub own_ns: u64,
}

/// What the answers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Time on the network, nanoseconds.
    pub rtt_ns: u64,
    /// Delay of the responder's host, nanoseconds.
    pub turn_ns: u64,
    /// Whether the responder's times are its NIC's.
    pub hardware_time: bool,
}

/// Why a probe ended without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// This host did not run for too long while the probe was in flight.
    Stalled,
    /// ACK 1 came and ACK 2 did not: the probe was not lost, but its times are not known.
    HalfAnswered,
    /// The NIC did not send it in time: the port is paused or its queue does not drain.
    Unsent,
}

/// End of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With an outcome.
    Outcome(Outcome),
    /// Without one.
    Discard(Discard),
}

#[derive(Clone, Debug)]
struct Flight {
    target: Arc<Target>,
    peer: Peer,
    t1: Duration,
    sent_ns: u64,
    source_port: Option<u16>,
    t2: Option<u64>,
    t5: Option<u64>,
    /// T3, T4, and whether they are the NIC's.
    times: Option<(u64, u64, bool)>,
    stalled: Duration,
    is_over: bool,
    timed_out: bool,
}

/// All probes of a port that are in flight or ended a short time ago.
#[derive(Debug)]
pub struct Flights {
    run: u32,
    /// Whether the own times are the NIC's.
    hardware_time: bool,
    /// Counter of the first entry.
    first: u32,
    entries: VecDeque<Flight>,
    /// Entries before this one have ended.
    oldest: usize,
}

impl Flights {
    /// None yet. `run`: random number of this run, of which 30 bits are used.
    pub fn new(run: u32, hardware_time: bool) -> Self {
        Self { run: run & u32::MAX >> 2, hardware_time, first: 0, entries: VecDeque::new(), oldest: 0 }
    }

    /// Begins a probe; `None` if too many are in flight.
    pub fn begin(&mut self, target: Arc<Target>, peer: Peer, now: Duration, sent_ns: u64) -> Option<Message> {
        if self.entries.len() >= MOST {
            return None;
        }
        let counter = self.first.wrapping_add(u32::try_from(self.entries.len()).ok()?);
        self.entries.push_back(Flight {
            target,
            peer,
            t1: now,
            sent_ns,
            source_port: None,
            t2: None,
            t5: None,
            times: None,
            stalled: Duration::ZERO,
            is_over: false,
            timed_out: false,
        });
        Some(Message {
            kind: Kind::Probe,
            hardware_time: false,
            source_port: 0,
            sequence: u64::from(self.run) << 32 | u64::from(counter),
            t1: nanoseconds(now),
            t3: 0,
            t4: 0,
        })
    }

    /// Takes back the last probe, which could not be posted.
    pub fn take_back(&mut self) {
        self.entries.pop_back();
        self.oldest = self.oldest.min(self.entries.len());
    }

    /// The NIC has sent a probe. Returns its end, if its answers came before.
    ///
    /// # Errors
    /// The times are impossible.
    pub fn sent(
        &mut self,
        sequence: u64,
        at: u64,
        source_port: Option<u16>,
        now: Duration,
    ) -> Result<Option<End>, Refusal> {
        let Some(flight) = self.entries.get_mut(index(self.first, sequence)).filter(|flight| !flight.is_over) else {
            return Ok(None);
        };
        (flight.t2, flight.source_port) = (Some(at), source_port);
        finish(flight, self.hardware_time, now).transpose()
    }

    /// An answer has arrived. Returns the end of the probe, if this was the last that it waited for.
    ///
    /// # Errors
    /// The answer is refused. The probe goes on, unless its times are impossible.
    pub fn answered(&mut self, message: &Message, from: &Peer, at: u64, now: Duration) -> Result<Option<End>, Refusal> {
        if (message.sequence >> 32) as u32 != self.run {
            return Err(Refusal::OtherRun);
        }
        let at_index = index(self.first, message.sequence);
        if at_index > usize::try_from(u32::MAX / 2).unwrap_or(usize::MAX) {
            return Err(Refusal::Late);
        }
        let flight = self.entries.get_mut(at_index).ok_or(Refusal::Forged)?;
        if *from != flight.peer || message.t1 != nanoseconds(flight.t1) {
            return Err(Refusal::Forged);
        }
        if flight.timed_out {
            return Err(Refusal::Late);
        }
        match message.kind {
            Kind::Arrived if flight.t5.is_none() => flight.t5 = Some(at),
            Kind::Times if flight.times.is_none() => {
                flight.times = Some((message.t3, message.t4, message.hardware_time));
            }
            Kind::Probe => return Err(Refusal::Malformed),
            _ => return Err(Refusal::Repeated),
        }
        finish(flight, self.hardware_time, now).transpose()
    }

    /// This thread did not run for so long.
    pub fn stalled(&mut self, pause: Duration) {
        self.entries.range_mut(self.oldest..).filter(|flight| !flight.is_over).for_each(|f| f.stalled += pause);
    }

    /// Ends the probes whose time is over, and forgets old ones.
    pub fn expire(&mut self, now: Duration, mut each: impl FnMut(End)) {
        while let Some(flight) = self.entries.get_mut(self.oldest) {
            if !flight.is_over {
                if now.saturating_sub(flight.t1) < TIMEOUT {
                    break;
                }
                (flight.is_over, flight.timed_out) = (true, true);
                each(time_out(flight));
            }
            self.oldest += 1;
        }
        while self.oldest > 0 && self.entries.front().is_some_and(|f| now.saturating_sub(f.t1) >= REMEMBERED) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
            self.oldest -= 1;
        }
    }

    /// When the next probe is over.
    pub fn next_end(&self) -> Option<Duration> {
        self.entries.get(self.oldest).map(|flight| flight.t1 + TIMEOUT)
    }
}

fn index(first: u32, sequence: u64) -> usize {
    usize::try_from((sequence as u32).wrapping_sub(first)).unwrap_or(usize::MAX)
}

/// Nanoseconds of a time of the host.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn time_out(flight: &Flight) -> End {
    if flight.stalled >= STALL {
        return End::Discard(Discard::Stalled);
    }
    if flight.t2.is_none() {
        return End::Discard(Discard::Unsent);
    }
    if flight.t5.is_some() {
        return End::Discard(Discard::HalfAnswered);
    }
    End::Outcome(Outcome {
        target: Arc::clone(&flight.target),
        source_port: flight.source_port,
        sent_ns: flight.sent_ns,
        answer: None,
        own_ns: nanoseconds(flight.stalled),
    })
}

/// End of a probe, once all its times are known. `own_hardware`: whether T2 and T5 are the NIC's.
fn finish(flight: &mut Flight, own_hardware: bool, now: Duration) -> Option<Result<End, Refusal>> {
    let (t2, t5, (t3, t4, hardware_time)) = (flight.t2?, flight.t5?, flight.times?);
    flight.is_over = true;
    let elapsed = nanoseconds(now.saturating_sub(flight.t1));
    let times = || {
        let away = t5.checked_sub(t2)?;
        let turn_ns = t4.checked_sub(t3)?;
        let own_ns = elapsed.saturating_sub(away);
        // A host stamps a datagram somewhere within the time for which it handles it. A round trip that is shorter than that
        // cannot be told from none.
        let blur = if own_hardware && hardware_time { 0 } else { own_ns.saturating_add(turn_ns) };
        let rtt_ns = away.saturating_add(blur).checked_sub(turn_ns)?.saturating_sub(blur);
        let longest = elapsed + elapsed / 100 + CLOCKS_NS;
        (away <= longest).then_some((Answer { rtt_ns, turn_ns, hardware_time }, own_ns))
    };
    Some(times().ok_or(Refusal::Impossible).map(|(answer, own_ns)| {
        End::Outcome(Outcome {
            target: Arc::clone(&flight.target),
            source_port: flight.source_port,
            sent_ns: flight.sent_ns,
            answer: Some(answer),
            own_ns,
        })
    }))
}

#[cfg(test)]
mod tests;
