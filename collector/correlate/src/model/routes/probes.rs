//! Probes: their results by link and host, in windows that are complete before they count.
//!
//! A probe that is lost is known later than one that is answered. A window counts once results of a later one
//! have come for long enough, so that losses are neither missed nor seen without the answers beside them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Length of a window, nanoseconds: at a probe per second and port, a link between switches is met a few times.
const WINDOW_NS: i64 = 5_000_000_000;
/// How much later the results of a window may come, nanoseconds: the time-out of a probe, and the delay of its report.
const LATE_NS: i64 = 10_000_000_000;
/// Turn-round of a responder, relative to the median of its window, from which its host is busy: such probes say nothing of the
/// network.
const BUSY_TURN: f64 = 10.0;
/// Turn-round of a responder from which its answer is late, nanoseconds: a thread that finds no free CPU waits for a time slice of the
/// scheduler (3 ms on Linux), one that finds a free CPU only for its wake-up, which takes microseconds.
pub const LATE_TURN_NS: f64 = 3e6;
/// Time of a TCP twin from which it was sent again, nanoseconds: the shortest time-out of retransmission is 200 ms.
const SENT_AGAIN_NS: f64 = 1e8;
/// Time beyond the shortest round trip from which a probe is delayed, nanoseconds. Queues of a fabric that marks are drained
/// within a tenth of it.
pub const DELAYED_NS: f64 = 2e6;
/// Probes of a window that were not delayed, from which a link is known to be prompt.
const PROMPT: u32 = 4;
/// Ends of probes over a link that are told apart.
const ENDS: usize = 8;
/// Newest windows whose answered probes are kept one by one if some were delayed, and the most of a window.
pub const DETAILED: usize = 6;
const DETAILS: usize = 32_768;
/// Windows that are kept: a minute of baseline before the longest window.
const KEPT: usize = 60;

/// A probe's result with its path there and back, by egress ports.
#[derive(Clone, Debug)]
pub struct Probe {
    /// When it was sent, Unix nanoseconds.
    pub sent_ns: i64,
    /// Prober's and responder's port.
    pub ends: [usize; 2],
    /// Egress ports there and back.
    pub links: Arc<[usize]>,
    /// Egress ports by which it crossed a cable for the second time, in the other direction, as bits by their places in `links`.
    pub second: u32,
    /// Time on the network, nanoseconds; `None` if it was lost.
    pub rtt_ns: Option<f64>,
    /// The responder's time, nanoseconds.
    pub turn_ns: Option<f64>,
}

impl Probe {
    /// Whether the cable behind an egress port, by its place in `links`, was crossed in the other direction before.
    pub fn is_second(&self, at: usize) -> bool {
        at < 32 && self.second & 1 << at != 0
    }
}

/// The result of the TCP twin of a probe. Its way is another, so it tells of its two ports only.
#[derive(Clone, Copy, Debug)]
pub struct TcpProbe {
    /// When it was sent, Unix nanoseconds.
    pub sent_ns: i64,
    /// Prober's and responder's port.
    pub ends: [usize; 2],
    /// Time with the responder's, nanoseconds; `None` if it was lost.
    pub rtt_ns: Option<f64>,
}

/// TCP twins between two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Twins {
    /// Answered ones.
    pub answered: u32,
    /// Lost ones, also those that arrived only after they were sent again.
    pub lost: u32,
}

impl Twins {
    /// Adds the twins of another window.
    pub fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.lost += other.lost;
    }
}

/// What responders took for their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turns {
    /// Answers.
    pub answered: u32,
    /// Of these, how many took [`LATE_TURN_NS`] or longer.
    pub late: u32,
    /// Their times, nanoseconds, summed up.
    pub sum_ns: f64,
}

impl Turns {
    fn add(&mut self, turn_ns: f64) {
        self.merge(&Self { answered: 1, late: (turn_ns >= LATE_TURN_NS).into(), sum_ns: turn_ns });
    }

    /// Adds other answers.
    pub fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.late += other.late;
        self.sum_ns += other.sum_ns;
    }

    /// Mean time of an answer, nanoseconds; 0 without answers.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / f64::from(self.answered.max(1))
    }
}

/// Probes over one link in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkProbes {
    /// Answered ones.
    pub answered: u32,
    /// Their round trips beyond the shortest ever seen over as many links, nanoseconds, summed up.
    pub delay_ns: f64,
    /// Answered ones that were delayed by [`DELAYED_NS`] or longer.
    pub delayed: u32,
    /// Answered ones that had crossed the same cable in the other direction before.
    pub second: u32,
    /// Lost ones.
    pub lost: u32,
    /// Probing and responding ports of the answered ones, the first few.
    pub ends: Vec<usize>,
}

impl LinkProbes {
    fn add_ends(&mut self, ends: [usize; 2]) {
        for end in ends {
            if self.ends.len() < ENDS && !self.ends.contains(&end) {
                self.ends.push(end);
            }
        }
    }

    /// Adds what was seen in another window.
    pub fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.delay_ns += other.delay_ns;
        self.delayed += other.delayed;
        self.second += other.second;
        self.lost += other.lost;
        other.ends.iter().for_each(|end| self.add_ends([*end; 2]));
    }
}

/// Probes of a span of time. All of its results are known.
#[derive(Clone, Debug, Default)]
pub struct ProbeWindow {
    /// First instant, Unix nanoseconds.
    pub begin_ns: i64,
    /// Answered probes.
    pub answered: u32,
    /// By egress port.
    pub links: HashMap<usize, LinkProbes>,
    /// What responders took, by port.
    pub turns: HashMap<usize, Turns>,
    /// Lost probes, by time.
    pub lost: Vec<Probe>,
    /// Answered probes, by time, if some were delayed and this is one of the newest windows; not of busy responders. Their
    /// round trips are those beyond the shortest over as many links.
    pub details: Vec<Probe>,
    /// Instants of answered probes over links over which others of this window were lost, by egress port.
    pub answered_ns: BTreeMap<usize, Vec<i64>>,
    /// TCP twins, by prober's and responder's port.
    pub twins: HashMap<[usize; 2], Twins>,
}

impl ProbeWindow {
    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        WINDOW_NS as f64 / 1e9
    }

    /// Whether it ends before an instant, Unix nanoseconds.
    pub fn ends_before(&self, time_ns: i64) -> bool {
        self.begin_ns + WINDOW_NS <= time_ns
    }
}

/// Results that wait for their window to be complete, and complete windows.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    waiting: BTreeMap<i64, Vec<Probe>>,
    twins: BTreeMap<i64, HashMap<[usize; 2], Twins>>,
    closed: VecDeque<Arc<ProbeWindow>>,
    /// Shortest round trip by number of links.
    shortest_ns: HashMap<usize, f64>,
    /// Egress ports of links over which [`PROMPT`] probes of some window were not delayed.
    prompt: HashSet<usize>,
    /// Begin of the newest closed window.
    closed_ns: Option<i64>,
}

impl Probes {
    /// Takes a result. One that comes after its window was closed is dropped.
    pub fn take(&mut self, probe: Probe) {
        let Some(begin_ns) = self.open_window(probe.sent_ns) else { return };
        if let Some(rtt_ns) = probe.rtt_ns {
            let shortest = self.shortest_ns.entry(probe.links.len()).or_insert(rtt_ns);
            *shortest = shortest.min(rtt_ns);
        }
        self.waiting.entry(begin_ns).or_default().push(probe);
    }

    /// Takes the result of a TCP twin; like [`Probes::take`].
    pub fn take_twin(&mut self, TcpProbe { sent_ns, ends, rtt_ns }: TcpProbe) {
        let Some(begin_ns) = self.open_window(sent_ns) else { return };
        let twins = self.twins.entry(begin_ns).or_default().entry(ends).or_default();
        match rtt_ns {
            Some(rtt_ns) if rtt_ns < SENT_AGAIN_NS => twins.answered += 1,
            _ => twins.lost += 1,
        }
    }

    /// Begin of the window of an instant; `None` if that is closed.
    fn open_window(&self, sent_ns: i64) -> Option<i64> {
        let begin_ns = sent_ns.div_euclid(WINDOW_NS) * WINDOW_NS;
        self.closed_ns.is_none_or(|closed| begin_ns > closed).then_some(begin_ns)
    }

    /// Closes the windows whose results are all known at an instant, Unix nanoseconds.
    pub fn close(&mut self, now_ns: i64) {
        while let Some(entry) = self.waiting.first_entry().filter(|e| e.key() + WINDOW_NS + LATE_NS <= now_ns) {
            let (begin_ns, probes) = entry.remove_entry();
            let mut window = self.window(begin_ns, probes);
            let later = self.twins.split_off(&(begin_ns + 1));
            window.twins = std::mem::replace(&mut self.twins, later).remove(&begin_ns).unwrap_or_default();
            let is_prompt = |probes: &LinkProbes| probes.answered - probes.delayed >= PROMPT;
            self.prompt.extend(window.links.iter().filter(|(_, probes)| is_prompt(probes)).map(|(link, _)| *link));
            let old = self.closed.len().checked_sub(DETAILED).and_then(|at| self.closed.get_mut(at));
            if let Some(old) = old.filter(|old| !old.details.is_empty()) {
                Arc::make_mut(old).details = Vec::new();
            }
            self.closed.push_back(Arc::new(window));
            self.closed_ns = Some(begin_ns);
            if self.closed.len() > KEPT {
                self.closed.pop_front();
            }
        }
    }

    fn window(&self, begin_ns: i64, mut probes: Vec<Probe>) -> ProbeWindow {
        probes.sort_by_key(|probe| probe.sent_ns);
        let (each, mut is_delayed) = (probes.len().div_ceil(DETAILS).max(1), false);
        let mut window = ProbeWindow { begin_ns, ..ProbeWindow::default() };
        let lossy: HashSet<usize> =
            probes.iter().filter(|p| p.rtt_ns.is_none()).flat_map(|p| p.links.iter().copied()).collect();
        let busy_ns = BUSY_TURN * median(probes.iter().filter_map(|probe| probe.turn_ns).collect());
        for (at, probe) in probes.into_iter().enumerate() {
            let Some(rtt_ns) = probe.rtt_ns else {
                probe.links.iter().for_each(|link| window.links.entry(*link).or_default().lost += 1);
                window.lost.push(probe);
                continue;
            };
            let shortest = self.shortest_ns.get(&probe.links.len()).copied().unwrap_or(rtt_ns);
            let is_busy = probe.turn_ns.is_some_and(|turn_ns| turn_ns > busy_ns);
            window.answered += u32::from(!is_busy);
            for (at, link) in probe.links.iter().enumerate() {
                if lossy.contains(link) {
                    window.answered_ns.entry(*link).or_default().push(probe.sent_ns);
                }
                if !is_busy {
                    let of_link = window.links.entry(*link).or_default();
                    of_link.answered += 1;
                    of_link.delay_ns += rtt_ns - shortest;
                    of_link.delayed += u32::from(rtt_ns - shortest >= DELAYED_NS);
                    of_link.second += u32::from(probe.is_second(at));
                    of_link.add_ends(probe.ends);
                }
            }
            is_delayed |= !is_busy && rtt_ns - shortest >= DELAYED_NS;
            if let Some(turn_ns) = probe.turn_ns {
                window.turns.entry(probe.ends[1]).or_default().add(turn_ns);
            }
            if !is_busy && at % each == 0 {
                window.details.push(Probe { rtt_ns: Some(rtt_ns - shortest), ..probe });
            }
        }
        if !is_delayed {
            window.details = Vec::new();
        }
        window
    }

    /// Complete windows that lie within a span, Unix nanoseconds, the oldest first.
    pub fn within(&self, [from_ns, to_ns]: [i64; 2]) -> impl Iterator<Item = &Arc<ProbeWindow>> {
        self.closed.iter().filter(move |w| w.begin_ns >= from_ns && w.begin_ns + WINDOW_NS <= to_ns)
    }

    /// The newest of the complete windows that lie within a span, Unix nanoseconds: at most so many, the oldest first.
    pub fn newest_within(&self, span_ns: [i64; 2], count: usize) -> Vec<&Arc<ProbeWindow>> {
        let mut windows: Vec<&Arc<ProbeWindow>> = self.within(span_ns).collect();
        windows.drain(..windows.len().saturating_sub(count));
        windows
    }

    /// The newest complete windows, at most so many, the oldest first.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = &Arc<ProbeWindow>> {
        self.closed.iter().skip(self.closed.len().saturating_sub(count))
    }

    /// Whether probes over the link behind an egress port were once not delayed.
    pub fn was_prompt(&self, egress: usize) -> bool {
        self.prompt.contains(&egress)
    }

    /// Results since an instant, Unix nanoseconds, whose windows are not complete.
    pub fn waiting(&self, since_ns: i64) -> impl Iterator<Item = &Probe> {
        self.waiting.values().flatten().filter(move |probe| probe.sent_ns >= since_ns)
    }

    /// Drops what is known of these ports.
    pub(super) fn forget(&mut self, ports: &HashSet<usize>) {
        let over = |probe: &Probe| probe.links.iter().chain(&probe.ends).any(|port| ports.contains(port));
        self.waiting.values_mut().for_each(|probes| probes.retain(|probe| !over(probe)));
        self.twins.values_mut().for_each(|of| of.retain(|ends, _| !ends.iter().any(|end| ports.contains(end))));
        self.prompt.retain(|port| !ports.contains(port));
        if !self.closed.is_empty() {
            self.closed.clear();
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn probe(second: i64, rtt_ns: Option<f64>) -> Probe {
        Probe {
            sent_ns: second * S,
            ends: [0, 9],
            links: Arc::new([0, 4, 9, 5]),
            second: 0,
            rtt_ns,
            turn_ns: rtt_ns.map(|_| 3e3),
        }
    }

    #[test]
    fn windows_count_when_all_results_are_known() {
        let mut probes = Probes::default();
        (0..5).for_each(|second| probes.take(probe(second, Some(4000.0 + 100.0 * second as f64))));
        probes.take(probe(3, None));
        probes.close(14 * S);
        assert_eq!(probes.newest(9).count(), 0, "a probe of second 4 may still be found lost");
        probes.close(15 * S);
        let window = probes.newest(9).next().unwrap().clone();
        assert_eq!(
            window.links[&4],
            LinkProbes { answered: 5, delay_ns: 1000.0, lost: 1, ends: vec![0, 9], ..LinkProbes::default() }
        );
        let turns = Turns { answered: 5, late: 0, sum_ns: 15e3 };
        assert_eq!((window.turns[&9], window.lost.len(), window.answered_ns[&5].len()), (turns, 1, 5));
        probes.take(probe(2, None));
        probes.close(60 * S);
        assert_eq!(probes.newest(9).count(), 1, "too late: its window was judged");
        assert_eq!(probes.within([0, 5 * S]).count(), 1);
        assert_eq!(probes.within([S, 60 * S]).count(), 0, "it began before");
    }

    #[test]
    fn a_busy_responder_says_nothing_of_links() {
        let mut probes = Probes::default();
        (0..5).for_each(|second| probes.take(probe(second, Some(4000.0))));
        let busy = Probe { turn_ns: Some(31e3), ..probe(4, Some(90_000.0)) };
        probes.take(busy);
        probes.close(15 * S);
        let window = probes.newest(1).next().unwrap().clone();
        assert_eq!((window.links[&4].answered, window.links[&4].delay_ns), (5, 0.0));
        assert_eq!(window.turns[&9].answered, 6, "its host is seen to be busy");
    }
}
