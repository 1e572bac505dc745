//! The simulated fabric: two pods of eight hosts, eight rails, one leaf per pod and rail, four spines, 400 Gb/s links.
//!
//! In each step flows share the links max-min fairly; an incast is simulated by `dcqcn`. Faults change the capacity of links
//! and the counters of NICs; jobs slow down because each all-reduce ends with a barrier. The model demonstrates the product
//! and is no evidence of its accuracy.

use super::dcqcn::{self, Member, STEP_S, Sender};
use super::layout::{HOSTS, LINE, LINKS, Port, RAILS, SPINES, downlink, from_spine, index, leaf, to_spine, uplink};
use super::link::Link;
use super::nic::Nic;

/// Share of the line rate that carries data, without frame overhead.
const DATA: f64 = 0.96;
/// Incast, as in a shuffle: bytes per sender and message, queue pairs per sender (each starts at the full rate), and seconds
/// between two messages.
const MESSAGE: f64 = 8e6;
const PAIRS: f64 = 4.0;
const GAP_S: f64 = 200e-6;

/// The injected fault.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// All other hosts of the job send to this NIC at the same time.
    Incast { job: usize, to: Port },
    /// This NIC pauses its switch without end.
    Storm { nic: Port },
    /// Frames to this NIC arrive corrupted.
    BadLink { nic: Port },
    /// Frames from this spine to the leaf of this NIC arrive corrupted.
    BadTrunk { below: Port, spine: usize },
    /// This NIC drains its receive buffer at a share of the line rate.
    SlowReceiver { nic: Port, drain: f64 },
    /// The link of this NIC falls to a share of its rate, in both directions.
    SlowLink { nic: Port, rate: f64 },
}

/// A job that alternates computing and a ring all-reduce.
pub struct Job {
    pub user: &'static str,
    pub name: &'static str,
    pub hosts: Vec<usize>,
    /// Bytes that each NIC sends to its ring neighbor per all-reduce.
    volume: f64,
    compute_s: f64,
    /// Seconds of computing left before the next all-reduce.
    computing: f64,
    /// Seconds since the begin of the current all-reduce.
    reducing: f64,
}

/// An all-reduce that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllReduce {
    /// Index of the job.
    pub job: usize,
    /// Bytes that each NIC sent.
    pub bytes: f64,
    /// Time from the first byte to the barrier.
    pub seconds: f64,
}
/// Ended all-reduces that are kept for [`Fabric::take_all_reduces`].
const KEPT: usize = 1024;

struct Flow {
    job: usize,
    src: Port,
    dst: Port,
    left: f64,
    ring: bool,
    path: Vec<usize>,
    rate: f64,
    sender: Sender,
}

/// What one step moved of a flow of an incast.
struct IncastFlow {
    flow: usize,
    bytes: f64,
    marks: f64,
    cnps: f64,
    /// Bytes left in the queue.
    queued: f64,
}

/// The whole fabric.
pub struct Fabric {
    pub nics: Vec<Nic>,
    /// By the indices of `layout`.
    pub links: Vec<Link>,
    pub fault: Option<Fault>,
    pub jobs: Vec<Job>,
    flows: Vec<Flow>,
    /// Seconds since all messages of an incast arrived.
    gap_s: f64,
    all_reduces: Vec<AllReduce>,
}

impl Fabric {
    /// A fabric with three jobs, of which the second crosses the spines.
    pub fn new() -> Self {
        let job = |user, name, hosts: std::ops::Range<usize>, volume, compute_s| Job {
            user,
            name,
            hosts: hosts.collect(),
            volume,
            compute_s,
            computing: 0.0,
            reducing: 0.0,
        };
        Self {
            nics: vec![Nic::default(); HOSTS * RAILS],
            links: vec![Link::default(); LINKS],
            fault: None,
            jobs: vec![
                job("vision", "segment", 0..5, 18e9, 0.35),
                job("speech", "encode", 5..10, 14e9, 0.5),
                job("text", "pretrain", 10..16, 22e9, 0.25),
            ],
            flows: Vec::new(),
            gap_s: 0.0,
            all_reduces: Vec::new(),
        }
    }

    /// The all-reduces that have ended since the last call; at most the first [`KEPT`].
    pub fn take_all_reduces(&mut self) -> Vec<AllReduce> {
        std::mem::take(&mut self.all_reduces)
    }

    fn flow(&self, job: usize, src: Port, dst: Port, left: f64, ring: bool) -> Flow {
        let mut path = vec![uplink(src)];
        if leaf(src) != leaf(dst) {
            let spine = (src.0 * 7 + src.1 * 3 + dst.0) % SPINES;
            path.extend([to_spine(leaf(src), spine), from_spine(leaf(dst), spine)]);
        }
        path.push(downlink(dst));
        Flow { job, src, dst, left, ring, path, rate: 0.0, sender: Sender::default() }
    }

    /// Rate of the link of a NIC, as a share of the line rate.
    pub fn link_rate(&self, port: Port) -> f64 {
        match self.fault {
            Some(Fault::SlowLink { nic, rate }) if nic == port => rate,
            _ => 1.0,
        }
    }

    /// Advances by `dt` seconds.
    pub fn step(&mut self, dt: f64) {
        self.links.iter_mut().for_each(|link| link.queue = 0.0);
        self.start_flows(dt);
        let mut pause = self.pauses();
        let (incast, paused) = self.incast(dt);
        // The queue is at the last link; the switches before it pause each other up to the senders.
        let paused_links = incast.iter().flat_map(|c| self.flows[c.flow].path.split_last().map_or(&[][..], |(_, p)| p));
        paused_links.for_each(|l| pause[*l] = paused);
        let mut capacity: Vec<f64> = pause.iter().map(|p| LINE * DATA * (1.0 - p)).collect();
        if let Some(Fault::SlowLink { nic, rate }) = self.fault {
            [uplink(nic), downlink(nic)].iter().for_each(|l| capacity[*l] *= rate);
        }
        for c in &incast {
            self.flows[c.flow].path.iter().for_each(|l| capacity[*l] = (capacity[*l] - c.bytes / dt).max(0.0));
        }
        self.share(&capacity, &incast);
        let corrupts = self.corrupting_link();
        for f in &mut self.flows {
            let corrupted = corrupts.is_some_and(|link| f.path.contains(&link));
            let loss = if corrupted { 0.35 } else { 0.0 }; // go-back-N sends a third twice
            let sent = (f.rate * dt).min(f.left / (1.0 - loss));
            f.left -= sent * (1.0 - loss);
            let src = &mut self.nics[index(f.src)];
            src.tx_bytes += sent;
            f.path.iter().for_each(|l| self.links[*l].bytes += sent);
            if loss > 0.0 {
                src.packet_seq_err += 40.0 * dt;
                src.adp_retrans += 38.0 * dt;
                src.ack_timeouts += 2.0 * dt;
            }
            let dst = &mut self.nics[index(f.dst)];
            dst.rx_bytes += sent;
            dst.delivered += sent * (1.0 - loss);
            if loss > 0.0 {
                dst.out_of_sequence += 40.0 * dt;
            }
        }
        for c in &incast {
            let path = &self.flows[c.flow].path;
            path.iter().for_each(|l| self.links[*l].bytes += c.bytes);
            if let Some(last) = path.last() {
                self.links[*last].marks += c.marks;
                self.links[*last].queue += c.queued;
            }
            let (src, dst) = (index(self.flows[c.flow].src), index(self.flows[c.flow].dst));
            self.nics[src].tx_bytes += c.bytes;
            self.nics[src].cnp_handled += c.cnps;
            self.nics[dst].rx_bytes += c.bytes;
            self.nics[dst].delivered += c.bytes;
            self.nics[dst].ecn_marked += c.marks;
            self.nics[dst].cnp_sent += c.cnps;
        }
        for (i, nic) in self.nics.iter_mut().enumerate() {
            nic.rx_pause_s += pause[i] * dt;
            nic.corrected_bits += 900.0 * dt; // a healthy PAM4 link corrects all the time
        }
        for (link, pause) in self.links.iter_mut().zip(&pause) {
            link.pause_s += pause * dt;
        }
        if let Some(link) = corrupts {
            self.links[link].crc_errors += 40.0 * dt;
        }
        match self.fault {
            Some(Fault::Storm { nic }) => {
                let n = &mut self.nics[index(nic)];
                n.tx_pause_s += 0.99 * dt;
                n.storm_warnings += 2.0 * dt;
            }
            Some(Fault::BadLink { nic }) => {
                let n = &mut self.nics[index(nic)];
                n.symbol_errors += 220.0 * dt;
                n.crc_errors += 40.0 * dt;
                n.corrected_bits += 4e6 * dt;
            }
            Some(Fault::SlowReceiver { nic, .. }) => self.nics[index(nic)].tx_pause_s += pause[downlink(nic)] * dt,
            _ => {}
        }
        let keeps_sending = matches!(self.fault, Some(Fault::Incast { .. }));
        let before = self.reducing();
        self.flows.retain(|f| if f.ring { f.left > 1.0 } else { keeps_sending });
        let after = self.reducing();
        for (n, job) in self.jobs.iter_mut().enumerate().filter(|(n, _)| before[*n]) {
            job.reducing += dt;
            if !after[n] {
                let seconds = std::mem::take(&mut job.reducing);
                if self.all_reduces.len() < KEPT {
                    self.all_reduces.push(AllReduce { job: n, bytes: job.volume, seconds });
                }
            }
        }
    }

    /// Whether each job is in an all-reduce.
    fn reducing(&self) -> Vec<bool> {
        let mut reducing = vec![false; self.jobs.len()];
        self.flows.iter().filter(|f| f.ring).for_each(|f| reducing[f.job] = true);
        reducing
    }

    /// The link whose frames arrive corrupted.
    fn corrupting_link(&self) -> Option<usize> {
        match self.fault {
            Some(Fault::BadLink { nic }) => Some(downlink(nic)),
            Some(Fault::BadTrunk { below, spine }) => Some(from_spine(leaf(below), spine)),
            _ => None,
        }
    }

    /// Simulates the flows of an incast; gives them and the share of time in which their senders were paused.
    fn incast(&mut self, dt: f64) -> (Vec<IncastFlow>, f64) {
        let Some(Fault::Incast { to, .. }) = self.fault else { return (Vec::new(), 0.0) };
        let at: Vec<usize> = (0..self.flows.len()).filter(|i| self.flows[*i].dst == to).collect();
        let member = |i: &usize| {
            let f = &self.flows[*i];
            Member::new(f.sender, f.left, if f.ring { 1.0 } else { PAIRS })
        };
        let mut members: Vec<Member> = at.iter().map(member).collect();
        let ring: Vec<bool> = at.iter().map(|i| self.flows[*i].ring).collect();
        let steps = (dt / STEP_S).round().max(1.0);
        let mut paused = 0.0;
        for _ in 0..steps as usize {
            paused += dcqcn::step(&mut members, LINE * DATA);
            if members.iter().zip(&ring).any(|(m, ring)| !ring && m.left > 1.0) {
                continue;
            }
            self.gap_s += STEP_S;
            if self.gap_s >= GAP_S {
                self.gap_s = 0.0;
                let burst = members.iter_mut().zip(&ring).filter(|(_, ring)| !**ring);
                burst.for_each(|(m, _)| (m.left, m.sender) = (MESSAGE, Sender::default()));
            }
        }
        let mut through = Vec::new();
        for (flow, m) in at.into_iter().zip(members) {
            (self.flows[flow].left, self.flows[flow].sender) = (m.left, m.sender);
            through.push(IncastFlow { flow, bytes: m.through, marks: m.marks, cnps: m.cnps, queued: m.queued });
        }
        (through, paused / steps)
    }

    fn start_flows(&mut self, dt: f64) {
        for j in 0..self.jobs.len() {
            if self.flows.iter().any(|f| f.job == j && f.ring) {
                continue; // barrier: the all-reduce ends when its slowest flow ends
            }
            self.jobs[j].computing -= dt;
            if self.jobs[j].computing > 0.0 {
                continue;
            }
            self.jobs[j].computing = self.jobs[j].compute_s;
            let (hosts, volume) = (self.jobs[j].hosts.clone(), self.jobs[j].volume);
            for (i, &h) in hosts.iter().enumerate() {
                let next = hosts[(i + 1) % hosts.len()];
                let ring = (0..RAILS).map(|r| self.flow(j, (h, r), (next, r), volume, true)).collect::<Vec<_>>();
                self.flows.extend(ring);
            }
        }
        if let Some(Fault::Incast { job, to }) = self.fault
            && !self.flows.iter().any(|f| !f.ring)
        {
            let burst: Vec<Flow> = self.jobs[job]
                .hosts
                .iter()
                .filter(|h| **h != to.0)
                .map(|h| self.flow(job, (*h, to.1), to, MESSAGE, false))
                .collect();
            self.flows.extend(burst);
        }
    }

    /// Share of the step in which each link is paused by its far end.
    fn pauses(&self) -> Vec<f64> {
        let mut pause = vec![0.0_f64; LINKS];
        let mut hold = |link: usize, share: f64| pause[link] = pause[link].max(share);
        for f in &self.flows {
            match self.fault {
                Some(Fault::Storm { nic }) if nic == f.dst => {
                    // Back-pressure spreads from the NIC that cannot drain to every sender.
                    for (hops, link) in f.path.iter().rev().enumerate() {
                        hold(*link, [0.99, 0.93, 0.6, 0.5][hops.min(3)]);
                    }
                }
                // With one flow to the NIC, each hop up to the sender passes what the NIC drains.
                Some(Fault::SlowReceiver { nic, drain }) if nic == f.dst => {
                    f.path.iter().for_each(|link| hold(*link, 1.0 - drain));
                }
                _ => {}
            }
        }
        pause
    }

    fn senders(&self) -> Vec<usize> {
        let mut n = vec![0; LINKS];
        self.flows.iter().flat_map(|f| &f.path).for_each(|l| n[*l] += 1);
        n
    }

    /// Max-min fair rates of all flows outside the incast: fill the tightest link, freeze its flows, repeat.
    fn share(&mut self, capacity: &[f64], incast: &[IncastFlow]) {
        let mut free = capacity.to_vec();
        let mut open = self.senders();
        for c in incast {
            self.flows[c.flow].rate = 0.0;
            self.flows[c.flow].path.iter().for_each(|l| open[*l] -= 1);
        }
        let mut waiting: Vec<usize> = (0..self.flows.len()).filter(|i| incast.iter().all(|c| c.flow != *i)).collect();
        while !waiting.is_empty() {
            let tightest = (0..LINKS)
                .filter(|l| open[*l] > 0)
                .min_by(|a, b| (free[*a] / open[*a] as f64).total_cmp(&(free[*b] / open[*b] as f64)));
            let Some(link) = tightest else { break };
            let rate = (free[link] / open[link] as f64).max(0.0);
            waiting.retain(|&i| {
                let f = &mut self.flows[i];
                let here = f.path.contains(&link);
                if here {
                    f.rate = rate;
                    for l in &f.path {
                        free[*l] -= rate;
                        open[*l] -= 1;
                    }
                }
                !here
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(fault: Option<Fault>, seconds: usize) -> Fabric {
        let mut f = Fabric::new();
        f.fault = fault;
        (0..seconds * 10).for_each(|_| f.step(0.1));
        f
    }

    #[test]
    fn a_storm_stops_its_job_and_pauses_its_senders() {
        let (calm, storm) = (run(None, 10), run(Some(Fault::Storm { nic: (12, 2) }), 10));
        let sent = |f: &Fabric, host: usize| f.nics[index((host, 5))].tx_bytes;
        assert!(sent(&storm, 14) < 0.2 * sent(&calm, 14), "other rails of the job wait at the barrier");
        assert!(sent(&storm, 2) > 0.9 * sent(&calm, 2), "a job in the other pod is not affected");
        assert!(storm.nics[index((12, 2))].tx_pause_s > 9.0 && storm.nics[index((11, 2))].rx_pause_s > 8.0);
        assert_eq!(calm.nics.iter().map(|n| n.rx_pause_s).sum::<f64>(), 0.0);
    }

    #[test]
    fn a_slow_receiver_paces_its_sender_by_pause() {
        let slow = run(Some(Fault::SlowReceiver { nic: (7, 1), drain: 0.125 }), 10);
        let (nic, sender) = (&slow.nics[index((7, 1))], &slow.nics[index((6, 1))]);
        assert!((0.5..0.9).contains(&(nic.tx_pause_s / 10.0)), "{}", nic.tx_pause_s);
        assert!((nic.tx_pause_s - sender.rx_pause_s).abs() < 1e-9);
        assert!(nic.rx_bytes < 0.13 * LINE * 10.0 && nic.rx_bytes > 0.05 * LINE * 10.0);
    }

    #[test]
    fn a_slow_link_slows_its_job_without_pause() {
        let (calm, slow) = (run(None, 10), run(Some(Fault::SlowLink { nic: (13, 6), rate: 0.25 }), 10));
        let got = |f: &Fabric, host: usize| f.nics[index((host, 0))].delivered;
        assert!(got(&slow, 10) < 0.6 * got(&calm, 10) && got(&slow, 1) > 0.99 * got(&calm, 1));
        assert_eq!(slow.nics.iter().map(|n| n.rx_pause_s).sum::<f64>(), 0.0);
    }

    #[test]
    fn a_bad_trunk_is_counted_at_one_port_of_a_leaf() {
        let (calm, bad) = (run(None, 10), run(Some(Fault::BadTrunk { below: (8, 2), spine: 3 }), 10));
        let counts: Vec<usize> = (0..LINKS).filter(|l| bad.links[*l].crc_errors > 0.0).collect();
        assert_eq!(counts, [from_spine(leaf((8, 2)), 3)]);
        assert_eq!(bad.nics.iter().map(|n| n.crc_errors + n.symbol_errors).sum::<f64>(), 0.0, "hosts count none");
        let (sender, receiver) = (&bad.nics[index((7, 2))], &bad.nics[index((8, 2))]);
        assert!(sender.packet_seq_err > 0.0 && receiver.out_of_sequence > 0.0);
        let got = |f: &Fabric, host: usize| f.nics[index((host, 0))].delivered;
        assert!(got(&bad, 6) < 0.95 * got(&calm, 6) && got(&bad, 1) > 0.99 * got(&calm, 1));
    }

    #[test]
    fn nics_and_switches_count_the_same_at_each_end_of_a_link() {
        for fault in [None, Some(Fault::Incast { job: 1, to: (7, 3) }), Some(Fault::Storm { nic: (12, 2) })] {
            let f = run(fault, 10);
            for port in super::super::layout::ports() {
                let (nic, up, down) = (&f.nics[index(port)], &f.links[uplink(port)], &f.links[downlink(port)]);
                let pairs = [
                    (nic.tx_bytes, up.bytes),
                    (nic.rx_bytes, down.bytes),
                    (nic.rx_pause_s, up.pause_s),
                    (nic.tx_pause_s, down.pause_s),
                    (nic.ecn_marked, down.marks),
                ];
                assert!(pairs.iter().all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs()), "{port:?} {fault:?} {pairs:?}");
            }
        }
        let incast = run(Some(Fault::Incast { job: 1, to: (7, 3) }), 10);
        let trunk = &incast.links[to_spine(leaf((9, 3)), 3)];
        assert!(trunk.pause_s > 0.0 && trunk.marks == 0.0, "the spine pauses the leaf of a sender");
    }

    #[test]
    fn bytes_are_conserved_and_line_rates_hold() {
        let f = run(Some(Fault::Incast { job: 1, to: (7, 3) }), 10);
        let (tx, rx): (f64, f64) = f.nics.iter().fold((0.0, 0.0), |a, n| (a.0 + n.tx_bytes, a.1 + n.rx_bytes));
        assert!((tx - rx).abs() < 1.0 && tx > 1e12);
        assert!(f.nics.iter().all(|n| n.rx_bytes <= LINE * 10.0 && n.tx_bytes <= LINE * 10.0));
        assert!(f.nics[index((7, 3))].cnp_sent > 1000.0);
    }

    #[test]
    fn an_incast_marks_before_it_pauses() {
        let (calm, incast) = (run(None, 10), run(Some(Fault::Incast { job: 1, to: (7, 3) }), 10));
        let (victim, sender) = (&incast.nics[index((7, 3))], &incast.nics[index((5, 3))]);
        let marked = victim.ecn_marked / victim.rx_packets();
        println!(
            "marked {marked} paused {} sends {} rx {}",
            sender.rx_pause_s / 10.0,
            sender.tx_bytes / calm.nics[index((5, 3))].tx_bytes,
            victim.rx_bytes / 10.0 / LINE
        );
        assert!(marked > 0.3, "most packets are marked: {marked}");
        let paused = sender.rx_pause_s / 10.0;
        assert!((0.01..0.2).contains(&paused), "short pauses: {paused}");
        let sends = sender.tx_bytes / calm.nics[index((5, 3))].tx_bytes;
        assert!(sends < 0.85, "senders slow down: {sends}");
        assert!(
            victim.tx_pause_s == 0.0 && victim.rx_bytes > 0.4 * 10.0 * LINE,
            "it receives at a good part of the line rate"
        );
    }
}
