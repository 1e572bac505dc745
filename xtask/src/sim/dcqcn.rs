//! A crowd of senders before one link, in steps of 50 µs: a queue that marks what is sent on, senders that slow down when
//! they are told and then recover, and the pause that keeps the queue from overflowing until they did. `fabric` asks it
//! where more is sent to a NIC than its link carries.

use super::fabric::{FRAME, LINE};

/// A receiver tells each sender once at most in this time.
pub const STEP_S: f64 = 50e-6;
/// Bytes in the queue from which packets are marked, and from which all are.
const MARK: [f64; 2] = [0.4e6, 1.6e6];
/// Bytes at which the switch pauses those who send.
const PAUSE: f64 = 4e6;
/// How fast a sender's opinion of the congestion follows the notifications.
const GAIN: f64 = 1.0 / 16.0;
/// Steps without notification between two steps of recovery.
const RECOVERS: u32 = 2;
/// Bytes a second that a sender tries beyond its old rate at each step of recovery.
const MORE: f64 = LINE / 200.0;
/// No sender is slower.
const LEAST: f64 = LINE / 1000.0;

/// What a sender does about notifications (DCQCN): a cut at each, then back to the old rate by halves, then beyond.
#[derive(Clone, Copy)]
pub struct Sender {
    rate: f64,
    target: f64,
    alpha: f64,
    calm: u32,
}

impl Default for Sender {
    /// A queue pair begins at the full rate.
    fn default() -> Self {
        Self { rate: LINE, target: LINE, alpha: 1.0, calm: 0 }
    }
}

impl Sender {
    fn step(&mut self, told: bool) {
        self.alpha += GAIN * (f64::from(u8::from(told)) - self.alpha);
        if told {
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

/// One of the crowd.
#[derive(Clone, Copy)]
pub struct Member {
    pub sender: Sender,
    /// Queue pairs at that rate, which share the line.
    pairs: f64,
    /// Bytes that it still has to send.
    pub left: f64,
    /// Bytes of it in the queue.
    queued: f64,
    /// Bytes that came through, packets marked of these, and notifications: since the begin.
    pub through: f64,
    pub marks: f64,
    pub told: f64,
}

impl Member {
    /// One that has so many bytes to send, over so many queue pairs.
    pub fn new(sender: Sender, left: f64, pairs: f64) -> Self {
        Self { sender, pairs, left, queued: 0.0, through: 0.0, marks: 0.0, told: 0.0 }
    }
}

/// One step before a link of so many bytes a second; returns the share of it for which senders were paused.
pub fn step(crowd: &mut [Member], capacity: f64) -> f64 {
    let wants = |m: &Member| ((m.sender.rate * m.pairs).min(LINE) * STEP_S).min(m.left - m.queued);
    let (wanted, queued): (f64, f64) = crowd.iter().fold((0.0, 0.0), |(w, q), m| (w + wants(m), q + m.queued));
    let room = (PAUSE + capacity * STEP_S - queued).max(0.0);
    let taken = if wanted > room { room / wanted } else { 1.0 };
    let full = queued + wanted * taken;
    let sent = if full > 0.0 { (capacity * STEP_S / full).min(1.0) } else { 0.0 };
    let marked = ((full * (1.0 - sent) - MARK[0]) / (MARK[1] - MARK[0])).clamp(0.0, 1.0);
    for m in crowd {
        m.queued += wants(m) * taken;
        let through = m.queued * sent;
        m.queued -= through;
        m.left -= through;
        m.through += through;
        let marks = through / FRAME * marked;
        m.marks += marks;
        m.told += marks.min(m.pairs);
        m.sender.step(marks >= m.pairs);
    }
    1.0 - taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What so many senders of endless data come to in a second: share of the link used, marked, paused; last rates.
    fn second(senders: usize) -> (f64, f64, f64, Vec<f64>) {
        let mut crowd = vec![Member::new(Sender::default(), f64::INFINITY, 1.0); senders];
        let steps = (1.0 / STEP_S) as usize;
        let paused = (0..steps).map(|_| step(&mut crowd, LINE)).sum::<f64>() / steps as f64;
        let sum = |of: fn(&Member) -> f64| crowd.iter().map(of).sum::<f64>();
        let rates = crowd.iter().map(|m| m.sender.rate).collect();
        (sum(|m| m.through) / LINE, sum(|m| m.marks) / (sum(|m| m.through) / FRAME), paused, rates)
    }

    #[test]
    fn senders_share_the_link_by_marks_and_hardly_any_pause() {
        let (used, marked, paused, rates) = second(5);
        assert!((0.8..=1.0).contains(&used), "the link is used: {used}");
        assert!(marked > 0.0 && paused > 0.0 && paused < 0.01, "marked {marked}, paused {paused}");
        assert!(rates.iter().all(|rate| *rate < LINE / 2.0), "they slowed down: {rates:?}");
    }

    #[test]
    fn one_sender_alone_is_never_told() {
        let (used, marked, paused, _) = second(1);
        assert_eq!((used.round(), marked, paused), (1.0, 0.0, 0.0));
    }
}
