//! Incast at one link in steps of 50 µs: a queue with ECN marking, senders with DCQCN, and PFC pause that keeps the queue from
//! overflowing until the senders have slowed down. `fabric` uses it for a NIC that receives more than its link carries.

use super::layout::{FRAME, LINE};

/// Step in seconds; a receiver sends each sender at most one CNP per step.
pub const STEP_S: f64 = 50e-6;
/// Queue sizes in bytes at which marking starts and at which every packet is marked.
const MARK: [f64; 2] = [0.4e6, 1.6e6];
/// Queue size in bytes at which the switch pauses the senders.
const PAUSE: f64 = 4e6;
/// DCQCN gain `g`: weight of the newest step in the congestion estimate.
const GAIN: f64 = 1.0 / 16.0;
/// Steps without CNP between two rate increases.
const RECOVERS: u32 = 2;
/// Additive increase in bytes per second at each rate increase.
const MORE: f64 = LINE / 200.0;
/// Minimum rate in bytes per second.
const LEAST: f64 = LINE / 1000.0;

/// DCQCN sender: cuts its rate at each CNP, returns to the old rate by halves, then increases it.
#[derive(Clone, Copy)]
pub struct Sender {
    rate: f64,
    target: f64,
    alpha: f64,
    calm: u32,
}

impl Default for Sender {
    /// A queue pair starts at the line rate.
    fn default() -> Self {
        Self { rate: LINE, target: LINE, alpha: 1.0, calm: 0 }
    }
}

impl Sender {
    fn step(&mut self, notified: bool) {
        self.alpha += GAIN * (f64::from(u8::from(notified)) - self.alpha);
        if notified {
            (self.target, self.calm) = (self.rate, 0);
            self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(LEAST);
            return;
        }
        self.calm += 1;
        if self.calm.is_multiple_of(RECOVERS) {
            self.target = (self.target + MORE).min(LINE);
            self.rate = f64::midpoint(self.rate, self.target);
        }
    }
}

/// A sender of the incast.
#[derive(Clone, Copy)]
pub struct Member {
    pub sender: Sender,
    /// Queue pairs at that rate; together they are limited by the line rate.
    pairs: f64,
    /// Bytes left to send.
    pub left: f64,
    /// Bytes in the queue.
    pub queued: f64,
    /// Bytes delivered, packets marked and CNPs since the start.
    pub through: f64,
    pub marks: f64,
    pub cnps: f64,
}

impl Member {
    /// A sender with bytes to send over a number of queue pairs.
    pub fn new(sender: Sender, left: f64, pairs: f64) -> Self {
        Self { sender, pairs, left, queued: 0.0, through: 0.0, marks: 0.0, cnps: 0.0 }
    }
}

/// Simulates one step at a link with a capacity in bytes per second; gives the share of it in which senders were paused.
pub fn step(members: &mut [Member], capacity: f64) -> f64 {
    let wants = |m: &Member| ((m.sender.rate * m.pairs).min(LINE) * STEP_S).min(m.left - m.queued);
    let (wanted, queued): (f64, f64) = members.iter().fold((0.0, 0.0), |(w, q), m| (w + wants(m), q + m.queued));
    let room = (PAUSE + capacity * STEP_S - queued).max(0.0);
    let taken = if wanted > room { room / wanted } else { 1.0 };
    let full = queued + wanted * taken;
    let sent = if full > 0.0 { (capacity * STEP_S / full).min(1.0) } else { 0.0 };
    let marked = ((full * (1.0 - sent) - MARK[0]) / (MARK[1] - MARK[0])).clamp(0.0, 1.0);
    for m in members {
        m.queued += wants(m) * taken;
        let through = m.queued * sent;
        m.queued -= through;
        m.left -= through;
        m.through += through;
        let marks = through / FRAME * marked;
        m.marks += marks;
        m.cnps += marks.min(m.pairs);
        m.sender.step(marks >= m.pairs);
    }
    1.0 - taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a second of endless senders: share of the link used, share of packets marked, share of time paused, last rates.
    fn second(senders: usize) -> (f64, f64, f64, Vec<f64>) {
        let mut members = vec![Member::new(Sender::default(), f64::INFINITY, 1.0); senders];
        let steps = (1.0 / STEP_S) as usize;
        let paused = (0..steps).map(|_| step(&mut members, LINE)).sum::<f64>() / steps as f64;
        let sum = |of: fn(&Member) -> f64| members.iter().map(of).sum::<f64>();
        let rates = members.iter().map(|m| m.sender.rate).collect();
        (sum(|m| m.through) / LINE, sum(|m| m.marks) / (sum(|m| m.through) / FRAME), paused, rates)
    }

    #[test]
    fn senders_share_the_link_with_little_pause() {
        let (used, marked, paused, rates) = second(5);
        assert!((0.8..=1.0).contains(&used), "the link is used: {used}");
        assert!(marked > 0.0 && paused > 0.0 && paused < 0.01, "marked {marked}, paused {paused}");
        assert!(rates.iter().all(|rate| *rate < LINE / 2.0), "they slowed down: {rates:?}");
    }

    #[test]
    fn a_single_sender_gets_no_cnp() {
        let (used, marked, paused, _) = second(1);
        assert_eq!((used.round(), marked, paused), (1.0, 0.0, 0.0));
    }
}
