//! Answers probes: ACK 1 at once, ACK 2 when the NIC has sent ACK 1. Nothing else is sent, and no answer is longer than the probe.

use crate::bucket::Bucket;
use crate::message::{Kind, Message};
use crate::refusal::Refusal;
use fabriclens_kernel::datagrams::{Peer, Received, Route};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Probes a second of one sender that are answered.
const PER_SENDER: u32 = 200;
/// Probes a second that a port answers in all.
const IN_ALL: u32 = 4000;
/// Senders that are remembered.
const SENDERS: usize = 4096;
/// Time after which a sender is forgotten.
const IDLE: Duration = Duration::from_secs(10);
/// ACKs 1 that the NIC has not sent yet.
const UNSENT: usize = 128;

/// The responder of a port.
#[derive(Debug)]
pub struct Responder {
    all: Bucket,
    /// By sender without the queue pair, of which one sender may have many.
    senders: HashMap<Peer, Bucket>,
    swept: Duration,
    next: u64,
    /// Answers whose ACK 1 is being sent, the oldest first.
    unsent: VecDeque<(u64, Route, Message)>,
    hardware_time: bool,
}

impl Responder {
    /// A responder whose port has such a clock.
    pub fn new(hardware_time: bool, now: Duration) -> Self {
        Self {
            all: Bucket::new(IN_ALL, now),
            senders: HashMap::new(),
            swept: now,
            next: 0,
            unsent: VecDeque::new(),
            hardware_time,
        }
    }

    /// A probe has arrived; the route and the bytes of ACK 1, and the number that [`Self::sent`] takes.
    ///
    /// # Errors
    /// It is not answered.
    pub fn arrived(
        &mut self,
        probe: &Message,
        received: &Received,
        now: Duration,
    ) -> Result<(Route, Message, u64), Refusal> {
        self.admit(received.from, now)?;
        let route = Route {
            peer: received.from,
            // The prober accepts answers only from the queue pair that it probed.
            queue_pair: received.queue_pair,
            source_port: probe.source_port,
            traffic_class: received.traffic_class,
            service_level: received.service_level,
        };
        let ack = Message { kind: Kind::Arrived, hardware_time: self.hardware_time, t3: 0, t4: 0, ..*probe };
        let id = self.next;
        self.next = self.next.wrapping_add(1) & (u64::MAX >> 2);
        if self.unsent.len() >= UNSENT {
            // Its ACK 1 was never sent: the port is paused or the send failed.
            self.unsent.pop_front();
        }
        self.unsent.push_back((id, route, Message { kind: Kind::Times, t3: received.at, ..ack }));
        Ok((route, ack, id))
    }

    /// ACK 1 was sent; route and bytes of ACK 2.
    pub fn sent(&mut self, id: u64, at: u64) -> Option<(Route, Message)> {
        let index = self.unsent.iter().position(|entry| entry.0 == id)?;
        let (_, route, message) = self.unsent.remove(index)?;
        Some((route, Message { t4: at, ..message }))
    }

    fn admit(&mut self, from: Peer, now: Duration) -> Result<(), Refusal> {
        if now.saturating_sub(self.swept) >= IDLE {
            self.swept = now;
            self.senders.retain(|_, bucket| now.saturating_sub(bucket.used()) < IDLE);
        }
        let sender = Peer { queue_pair: 0, ..from };
        if self.senders.len() >= SENDERS && !self.senders.contains_key(&sender) {
            return Err(Refusal::PortLimit);
        }
        if !self.senders.entry(sender).or_insert_with(|| Bucket::new(PER_SENDER, now)).take(now) {
            return Err(Refusal::SenderLimit);
        }
        if self.all.take(now) { Ok(()) } else { Err(Refusal::PortLimit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::SIZE;
    use fabriclens_kernel::datagrams::LONGEST;

    fn received(host: u8) -> Received {
        let from = Peer { address: Some([10, 0, 0, host].into()), lid: 0, queue_pair: 9 };
        Received {
            at: 700,
            from,
            queue_pair: 33,
            traffic_class: 104,
            service_level: 0,
            payload: [0; LONGEST],
            length: SIZE,
        }
    }

    fn probe(counter: u64) -> Message {
        let kind = Kind::Probe;
        Message { kind, hardware_time: false, source_port: 0xc123, sequence: counter, t1: 5, t3: 0, t4: 0 }
    }

    #[test]
    fn a_probe_gets_both_acks_on_its_own_route() {
        let mut responder = Responder::new(true, Duration::ZERO);
        let (route, ack, id) = responder.arrived(&probe(1), &received(2), Duration::ZERO).unwrap();
        assert_eq!((route.peer, route.source_port, route.traffic_class), (received(2).from, 0xc123, 104));
        assert_eq!(route.queue_pair, 33, "answered from the queue pair that was probed");
        assert_eq!((ack.kind, ack.sequence, ack.t1, ack.t3, ack.hardware_time), (Kind::Arrived, 1, 5, 0, true));
        assert_eq!(responder.sent(id + 1, 900), None);
        let (again, times) = responder.sent(id, 900).unwrap();
        assert_eq!((again, times.kind, times.t3, times.t4), (route, Kind::Times, 700, 900));
        assert_eq!(responder.sent(id, 900), None, "once");
        assert!(ack.encode().len() <= SIZE && times.encode().len() <= SIZE);
    }

    #[test]
    fn probes_are_answered_at_a_bounded_rate() {
        let mut responder = Responder::new(false, Duration::ZERO);
        let of_second = |responder: &mut Responder, hosts: u32| {
            let mut refused = crate::refusal::Counts::default();
            let mut answered = 0;
            for step in 0..10_000 {
                let now = Duration::from_micros(100 * step);
                for host in 0..hosts {
                    match responder.arrived(&probe(step), &received(u8::try_from(host).unwrap()), now) {
                        Ok(_) => answered += 1,
                        Err(why) => refused.add(why),
                    }
                }
            }
            (answered, refused.get(Refusal::SenderLimit), refused.get(Refusal::PortLimit))
        };
        let (answered, sender, port) = of_second(&mut responder, 1);
        assert!((200..=251).contains(&answered) && sender > 9_000 && port == 0, "{answered} {sender} {port}");
        let mut responder = Responder::new(false, Duration::ZERO);
        let (answered, _, port) = of_second(&mut responder, 100);
        assert!((4000..=5001).contains(&answered) && port > 0, "{answered} {port}");
        assert_eq!(responder.unsent.len(), UNSENT);
    }

    #[test]
    fn senders_are_forgotten() {
        let mut responder = Responder::new(false, Duration::ZERO);
        let from = |number: u32| Received {
            from: Peer { address: Some(std::net::Ipv4Addr::from(number).into()), lid: 0, queue_pair: 1 },
            ..received(1)
        };
        let second = Duration::from_secs(1);
        for number in 0..5_000 {
            _ = responder.arrived(&probe(1), &from(number), second + Duration::from_micros(number.into()));
        }
        assert_eq!(responder.senders.len(), SENDERS);
        assert!(responder.arrived(&probe(1), &from(9_000), 20 * second).is_ok());
        assert_eq!(responder.senders.len(), 1);
    }
}
