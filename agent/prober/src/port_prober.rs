//! Probes from one port and answers those of others.

use crate::bucket::Bucket;
use crate::flights::{Discard, End, Flights, Outcome, STALL};
use crate::message::{Kind, Message};
use crate::refusal::Refusal;
use crate::responder::Responder;
use crate::schedule::{Due, Schedule};
use crate::stats::PortStats;
use crate::throttle::Throttle;
use fabriclens_kernel::datagrams::{Completion, DatagramPort, Peer, PortLost, Received, Route, SendError, SourcePorts};
use fabriclens_probe_plan::{ProbeResult, ProbeTransport, ProbedPort, Target, address};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a completion: the answer to "shall it stop".
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Probes that are sent between two looks at completions.
const BURST: usize = 16;

/// Kinds of datagrams by the upper two bits of the number that the port gets.
const ARRIVED: u64 = 1 << 62;
const TIMES: u64 = 2 << 62;
const KIND: u64 = 3 << 62;

/// Clocks of the prober.
pub trait Time {
    /// Time since the start; never goes back.
    fn now(&self) -> Duration;
    /// Unix nanoseconds.
    fn unix_ns(&self) -> u64;
}

/// What a step needs of its surroundings.
pub struct Surroundings<'a> {
    /// Clocks.
    pub time: &'a dyn Time,
    /// Takes a token of the host's budget; false if it is used up.
    pub budget: &'a dyn Fn(Duration) -> bool,
    /// Takes a result of a target.
    pub found: &'a mut dyn FnMut(&Target, ProbeResult),
}

/// Prober and responder of one port.
#[derive(Debug)]
pub struct PortProber {
    flights: Flights,
    responder: Responder,
    schedule: Schedule,
    throttle: Throttle,
    budget: Bucket,
    completions: Vec<Completion>,
    /// End of the last step.
    last: Duration,
    source_ports: SourcePorts,
    hardware_time: bool,
    /// Sums since the start.
    pub stats: PortStats,
}

impl PortProber {
    /// A prober of an open port. `run`: random number of this run. `per_second`: most probes a second. Its sums go on from
    /// `stats`.
    pub fn new(port: &dyn DatagramPort, run: u32, per_second: u32, stats: PortStats, now: Duration) -> Self {
        let facts = port.facts();
        Self {
            flights: Flights::new(run, facts.hardware_time),
            responder: Responder::new(facts.hardware_time, now),
            schedule: Schedule::default(),
            throttle: Throttle::new(now),
            budget: Bucket::new(per_second, now),
            completions: Vec::new(),
            last: now,
            source_ports: facts.source_ports,
            hardware_time: facts.hardware_time,
            stats,
        }
    }

    /// Replaces the targets.
    pub fn set_targets(&mut self, targets: impl IntoIterator<Item = Arc<Target>>, now: Duration) {
        self.schedule.set(targets, now);
    }

    /// Waits for datagrams, handles them, ends probes that are over, and sends those that are due.
    ///
    /// # Errors
    /// The port cannot be used any more.
    pub fn step(&mut self, port: &mut dyn DatagramPort, around: &mut Surroundings<'_>) -> Result<(), PortLost> {
        let now = around.time.now();
        let next = [self.schedule.next(), self.flights.next_end()].into_iter().flatten().min();
        let wait = next.map_or(LONGEST_WAIT, |at| at.saturating_sub(now).min(LONGEST_WAIT));
        let mut completions = std::mem::take(&mut self.completions);
        let polled = port.poll(wait, &mut completions);
        let now = around.time.now();
        // Longer than it asked for: the host had no CPU for this thread, or it was stopped.
        let pause = now.saturating_sub(self.last).saturating_sub(wait);
        if pause >= STALL {
            self.flights.stalled(pause);
            self.throttle.stalled();
        }
        for completion in completions.drain(..) {
            self.handle(port, completion, around);
        }
        self.completions = completions;
        polled?;
        let mut ends = Vec::new();
        self.flights.expire(now, |end| ends.push(end));
        ends.into_iter().for_each(|end| self.end(end, around));
        self.send_due(port, around);
        self.throttle.tick(now);
        self.stats.share = self.throttle.share();
        self.last = around.time.now();
        Ok(())
    }

    fn handle(&mut self, port: &mut dyn DatagramPort, completion: Completion, around: &mut Surroundings<'_>) {
        match completion {
            Completion::Sent { id, at, .. } if id & KIND == ARRIVED => {
                if let Some((route, times)) = self.responder.sent(id & !KIND, at) {
                    self.stats.answered += 1;
                    // If the queue is full, the prober knows that its probe arrived, and discards it.
                    _ = port.send(&route, &times.encode(), TIMES);
                }
            }
            Completion::Sent { id, .. } if id & KIND == TIMES => {}
            Completion::Sent { id, at, source_port } => {
                // The number of a run has 30 bits, so that it fits.
                let ended = self.flights.sent(id, at, source_port, around.time.now());
                self.ended(ended, around);
            }
            Completion::Received(received) => {
                if let Err(refusal) = self.receive(port, &received, around) {
                    self.stats.refused.add(refusal);
                }
            }
        }
    }

    fn receive(
        &mut self,
        port: &mut dyn DatagramPort,
        received: &Received,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Refusal> {
        let message = Message::decode(received.bytes().ok_or(Refusal::Malformed)?)?;
        let now = around.time.now();
        if message.kind == Kind::Probe {
            let (route, ack, id) = self.responder.arrived(&message, received, now)?;
            _ = port.send(&route, &ack.encode(), ARRIVED | id);
            return Ok(());
        }
        let ended = self.flights.answered(&message, &received.from, received.at, now)?;
        self.ended(Ok(ended), around);
        Ok(())
    }

    fn ended(&mut self, ended: Result<Option<End>, Refusal>, around: &mut Surroundings<'_>) {
        match ended {
            Ok(Some(end)) => self.end(end, around),
            Ok(None) => {}
            Err(refusal) => self.stats.refused.add(refusal),
        }
    }

    fn end(&mut self, end: End, around: &mut Surroundings<'_>) {
        match end {
            End::Outcome(outcome) => {
                self.throttle.ended(outcome.own_ns);
                let result = self.result(&outcome);
                self.stats.add(outcome.target.class, &result);
                (around.found)(&outcome.target, result);
            }
            End::Discard(why) => self.stats.discard(match why {
                Discard::Stalled => "own_host_stalled",
                Discard::HalfAnswered => "half_answered",
                Discard::Unsent => {
                    self.throttle.undrained();
                    "not_sent"
                }
            }),
        }
    }

    fn result(&self, outcome: &Outcome) -> ProbeResult {
        let answer = outcome.answer;
        let is_hardware = self.hardware_time && answer.is_none_or(|answer| answer.hardware_time);
        let transport = if is_hardware { ProbeTransport::Rdma } else { ProbeTransport::RdmaSoftwareTime };
        ProbeResult {
            pair: 0,
            source_port: outcome.source_port.map_or(0, u32::from),
            sent_ns: outcome.sent_ns,
            rtt_ns: answer.map(|answer| answer.rtt_ns),
            turn_ns: answer.map(|answer| answer.turn_ns),
            own_ns: outcome.own_ns,
            transport: transport as i32,
        }
    }

    fn send_due(&mut self, port: &mut dyn DatagramPort, around: &mut Surroundings<'_>) {
        for _ in 0..BURST {
            let now = around.time.now();
            let Some(due) = self.schedule.take(now, self.throttle.share()) else { return };
            let Some(route) = self.route(&due) else {
                self.stats.discard("no_route");
                continue;
            };
            if !self.budget.take(now) || !(around.budget)(now) {
                self.stats.discard("limit");
                continue;
            }
            self.send(port, &due, &route, around);
        }
    }

    fn send(&mut self, port: &mut dyn DatagramPort, due: &Due, route: &Route, around: &Surroundings<'_>) {
        let (now, unix_ns) = (around.time.now(), around.time.unix_ns());
        let Some(probe) = self.flights.begin(Arc::clone(&due.target), route.peer, now, unix_ns) else {
            self.stats.discard("limit");
            return;
        };
        let probe = Message { source_port: due.source_port, hardware_time: self.hardware_time, ..probe };
        if let Err(error) = port.send(route, &probe.encode(), probe.sequence) {
            self.flights.take_back();
            self.stats.discard(match error {
                SendError::Full => {
                    self.throttle.undrained();
                    "not_sent"
                }
                SendError::Refused(_) => "not_sent",
                SendError::Resolving | SendError::Unreachable => "no_route",
            });
        }
    }

    fn route(&self, due: &Due) -> Option<Route> {
        let to = due.target.to.as_ref()?;
        let source_port = if self.source_ports == SourcePorts::Unknown { 0 } else { due.source_port };
        Some(Route {
            peer: peer(to)?,
            queue_pair: 0,
            source_port,
            traffic_class: u8::try_from(due.target.traffic_class).ok()?,
            service_level: u8::try_from(due.target.service_level).ok()?,
        })
    }
}

/// The queue pair that answers; `None` if the port answers no RDMA probes.
fn peer(port: &ProbedPort) -> Option<Peer> {
    let address = address(&port.address);
    let lid = u16::try_from(port.lid).ok()?;
    let is_reachable = port.queue_pair != 0 && (address.is_some() || lid != 0);
    is_reachable.then_some(Peer { address, lid: if address.is_some() { 0 } else { lid }, queue_pair: port.queue_pair })
}

#[cfg(test)]
mod tests;
