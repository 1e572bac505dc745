//! The fabric: two pods of eight hosts, eight rails, a leaf a pod and rail, four spines; 400 Gb/s everywhere.
//!
//! Flows share links max-min fairly every tick; where many send to one NIC, `dcqcn` says what comes through. Faults change
//! what a link may carry and what NICs count; jobs feel them through a barrier at the end of each all-reduce. It is a
//! model to show the product with, not evidence.

use super::dcqcn::{self, Member, STEP_S, Sender};
use super::{HOSTS, RAILS};

const POD: usize = 8;
const SPINES: usize = 4;
const LEAVES: usize = HOSTS / POD * RAILS;
/// 400 Gb/s in bytes a second.
pub const LINE: f64 = 50e9;
/// One full RoCE frame.
pub const FRAME: f64 = 4132.0;
/// mlx5 refreshes a pause well before its quanta end; about one frame in 8 µs of pause at 400 Gb/s.
const PAUSE_REFRESH_S: f64 = 8e-6;
/// Share of the line that data has, without what frames have around it.
const DATA: f64 = 0.96;
/// Bytes that each sender of an incast has for the one, over so many queue pairs that begin at the full rate, and seconds
/// until they all come again: as a shuffle does.
const MESSAGE: f64 = 8e6;
const PAIRS: f64 = 4.0;
const GAP_S: f64 = 200e-6;

/// What one NIC has counted since the start; frames, bytes and seconds as real numbers, cut when written.
#[derive(Clone, Default)]
pub struct Nic {
    pub tx_bytes: f64,
    pub rx_bytes: f64,
    pub rx_pause_s: f64,
    pub tx_pause_s: f64,
    pub ecn_marked: f64,
    pub cnp_sent: f64,
    pub cnp_handled: f64,
    pub out_of_sequence: f64,
    pub packet_seq_err: f64,
    pub adp_retrans: f64,
    pub ack_timeouts: f64,
    pub symbol_errors: f64,
    pub crc_errors: f64,
    pub corrected_bits: f64,
    pub storm_warnings: f64,
    pub link_downs: f64,
}

impl Nic {
    pub fn tx_packets(&self) -> f64 {
        self.tx_bytes / FRAME
    }
    pub fn rx_packets(&self) -> f64 {
        self.rx_bytes / FRAME
    }
    pub fn rx_pause_frames(&self) -> f64 {
        self.rx_pause_s / PAUSE_REFRESH_S
    }
    pub fn tx_pause_frames(&self) -> f64 {
        self.tx_pause_s / PAUSE_REFRESH_S
    }
}

/// A host's NIC.
pub type Port = (usize, usize);

/// What is wrong right now.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Every other host of the job sends to this NIC at once.
    Incast { job: usize, to: Port },
    /// This NIC keeps pausing its switch.
    Storm { nic: Port },
    /// Frames towards this NIC arrive broken.
    BadLink { nic: Port },
}

/// Work that runs on some hosts.
pub struct Job {
    pub user: &'static str,
    pub name: &'static str,
    pub hosts: Vec<usize>,
    /// Bytes each NIC sends to its ring neighbour in one all-reduce.
    volume: f64,
    compute_s: f64,
    /// Seconds of computing left; all-reduce runs once it is spent.
    thinking: f64,
}

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

/// What a tick did to a flow of a crowd.
struct Crowded {
    flow: usize,
    bytes: f64,
    marks: f64,
    cnps: f64,
}

/// The whole fabric.
pub struct Fabric {
    pub nics: Vec<Nic>,
    pub fault: Option<Fault>,
    pub jobs: Vec<Job>,
    flows: Vec<Flow>,
    /// Seconds since the messages of an incast were through.
    gap_s: f64,
}

/// Index of a NIC in [`Fabric::nics`].
pub fn index((host, rail): Port) -> usize {
    host * RAILS + rail
}

fn uplink(port: Port) -> usize {
    index(port)
}
fn downlink(port: Port) -> usize {
    HOSTS * RAILS + index(port)
}
fn leaf((host, rail): Port) -> usize {
    host / POD * RAILS + rail
}
fn to_spine(leaf: usize, spine: usize) -> usize {
    2 * HOSTS * RAILS + leaf * SPINES + spine
}
fn from_spine(leaf: usize, spine: usize) -> usize {
    2 * HOSTS * RAILS + (LEAVES + leaf) * SPINES + spine
}
const LINKS: usize = 2 * HOSTS * RAILS + 2 * LEAVES * SPINES;

impl Fabric {
    /// Three jobs: the second crosses the spines.
    pub fn new() -> Self {
        let job = |user, name, hosts: std::ops::Range<usize>, volume, compute_s| Job {
            user,
            name,
            hosts: hosts.collect(),
            volume,
            compute_s,
            thinking: 0.0,
        };
        Self {
            nics: vec![Nic::default(); HOSTS * RAILS],
            fault: None,
            jobs: vec![
                job("vision", "segment", 0..5, 18e9, 0.35),
                job("speech", "encode", 5..10, 14e9, 0.5),
                job("text", "pretrain", 10..16, 22e9, 0.25),
            ],
            flows: Vec::new(),
            gap_s: 0.0,
        }
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

    /// Advances by `dt` seconds.
    pub fn step(&mut self, dt: f64) {
        self.start_flows(dt);
        let mut pause = self.pauses();
        let (crowd, paused) = self.crowd(dt);
        crowd.iter().for_each(|c| pause[uplink(self.flows[c.flow].src)] = paused);
        let mut capacity: Vec<f64> = pause.iter().map(|p| LINE * DATA * (1.0 - p)).collect();
        for c in &crowd {
            self.flows[c.flow].path.iter().for_each(|l| capacity[*l] = (capacity[*l] - c.bytes / dt).max(0.0));
        }
        self.share(&capacity, &crowd);
        for f in &mut self.flows {
            let loss = match self.fault {
                Some(Fault::BadLink { nic }) if nic == f.dst => 0.35, // go-back-N sends a third twice
                _ => 0.0,
            };
            let sent = (f.rate * dt).min(f.left / (1.0 - loss));
            f.left -= sent * (1.0 - loss);
            let src = &mut self.nics[index(f.src)];
            src.tx_bytes += sent;
            if loss > 0.0 {
                src.packet_seq_err += 40.0 * dt;
                src.adp_retrans += 38.0 * dt;
                src.ack_timeouts += 2.0 * dt;
            }
            let dst = &mut self.nics[index(f.dst)];
            dst.rx_bytes += sent;
            if loss > 0.0 {
                dst.out_of_sequence += 40.0 * dt;
            }
        }
        for c in &crowd {
            let (src, dst) = (index(self.flows[c.flow].src), index(self.flows[c.flow].dst));
            self.nics[src].tx_bytes += c.bytes;
            self.nics[src].cnp_handled += c.cnps;
            self.nics[dst].rx_bytes += c.bytes;
            self.nics[dst].ecn_marked += c.marks;
            self.nics[dst].cnp_sent += c.cnps;
        }
        for (i, nic) in self.nics.iter_mut().enumerate() {
            nic.rx_pause_s += pause[i] * dt;
            nic.corrected_bits += 900.0 * dt; // a healthy PAM4 link corrects all the time
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
            _ => {}
        }
        let incast = matches!(self.fault, Some(Fault::Incast { .. }));
        self.flows.retain(|f| if f.ring { f.left > 1.0 } else { incast });
    }

    /// What comes through to a NIC that many send to, flow by flow, and the share of time for which their NICs were
    /// paused.
    fn crowd(&mut self, dt: f64) -> (Vec<Crowded>, f64) {
        let Some(Fault::Incast { to, .. }) = self.fault else { return (Vec::new(), 0.0) };
        let at: Vec<usize> = (0..self.flows.len()).filter(|i| self.flows[*i].dst == to).collect();
        let member = |i: &usize| {
            let f = &self.flows[*i];
            Member::new(f.sender, f.left, if f.ring { 1.0 } else { PAIRS })
        };
        let mut crowd: Vec<Member> = at.iter().map(member).collect();
        let ring: Vec<bool> = at.iter().map(|i| self.flows[*i].ring).collect();
        let steps = (dt / STEP_S).round().max(1.0);
        let mut paused = 0.0;
        for _ in 0..steps as usize {
            paused += dcqcn::step(&mut crowd, LINE * DATA);
            if crowd.iter().zip(&ring).any(|(m, ring)| !ring && m.left > 1.0) {
                continue;
            }
            self.gap_s += STEP_S;
            if self.gap_s >= GAP_S {
                self.gap_s = 0.0;
                let burst = crowd.iter_mut().zip(&ring).filter(|(_, ring)| !**ring);
                burst.for_each(|(m, _)| (m.left, m.sender) = (MESSAGE, Sender::default()));
            }
        }
        let mut through = Vec::new();
        for (flow, m) in at.into_iter().zip(crowd) {
            (self.flows[flow].left, self.flows[flow].sender) = (m.left, m.sender);
            through.push(Crowded { flow, bytes: m.through, marks: m.marks, cnps: m.told });
        }
        (through, paused / steps)
    }

    fn start_flows(&mut self, dt: f64) {
        for j in 0..self.jobs.len() {
            if self.flows.iter().any(|f| f.job == j && f.ring) {
                continue; // barrier: the all-reduce ends when its slowest flow ends
            }
            self.jobs[j].thinking -= dt;
            if self.jobs[j].thinking > 0.0 {
                continue;
            }
            self.jobs[j].thinking = self.jobs[j].compute_s;
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

    /// Share of the tick in which each link may not send because its far end pauses it.
    fn pauses(&self) -> Vec<f64> {
        let mut pause = vec![0.0_f64; LINKS];
        let mut hold = |link: usize, share: f64| pause[link] = pause[link].max(share);
        for f in &self.flows {
            match self.fault {
                Some(Fault::Storm { nic }) if nic == f.dst => {
                    // Back-pressure walks from the NIC that cannot drain to every sender.
                    for (hops, link) in f.path.iter().rev().enumerate() {
                        hold(*link, [0.99, 0.93, 0.6, 0.5][hops.min(3)]);
                    }
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

    /// Max-min fair rates of all but the crowd: fill the tightest link, freeze its flows, repeat.
    fn share(&mut self, capacity: &[f64], crowd: &[Crowded]) {
        let mut free = capacity.to_vec();
        let mut open = self.senders();
        for c in crowd {
            self.flows[c.flow].rate = 0.0;
            self.flows[c.flow].path.iter().for_each(|l| open[*l] -= 1);
        }
        let mut waiting: Vec<usize> = (0..self.flows.len()).filter(|i| crowd.iter().all(|c| c.flow != *i)).collect();
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
    fn a_storm_stops_its_own_job_and_pauses_its_senders() {
        let (calm, storm) = (run(None, 10), run(Some(Fault::Storm { nic: (12, 2) }), 10));
        let sent = |f: &Fabric, host: usize| f.nics[index((host, 5))].tx_bytes;
        assert!(sent(&storm, 14) < 0.2 * sent(&calm, 14), "other rails of the job wait at the barrier");
        assert!(sent(&storm, 2) > 0.9 * sent(&calm, 2), "a job in the other pod goes on");
        assert!(storm.nics[index((12, 2))].tx_pause_s > 9.0 && storm.nics[index((11, 2))].rx_pause_s > 8.0);
        assert_eq!(calm.nics.iter().map(|n| n.rx_pause_s).sum::<f64>(), 0.0);
    }

    #[test]
    fn bytes_sent_are_bytes_received_and_no_link_carries_more_than_its_line() {
        let f = run(Some(Fault::Incast { job: 1, to: (7, 3) }), 10);
        let (tx, rx): (f64, f64) = f.nics.iter().fold((0.0, 0.0), |a, n| (a.0 + n.tx_bytes, a.1 + n.rx_bytes));
        assert!((tx - rx).abs() < 1.0 && tx > 1e12);
        assert!(f.nics.iter().all(|n| n.rx_bytes <= LINE * 10.0 && n.tx_bytes <= LINE * 10.0));
        assert!(f.nics[index((7, 3))].cnp_sent > 1000.0);
    }

    #[test]
    fn an_incast_is_marked_and_slows_its_senders_before_it_pauses_them() {
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
        assert!((0.01..0.2).contains(&paused), "hiccups of pause: {paused}");
        let sends = sender.tx_bytes / calm.nics[index((5, 3))].tx_bytes;
        assert!(sends < 0.85, "senders slow down: {sends}");
        assert!(victim.tx_pause_s == 0.0 && victim.rx_bytes > 0.4 * 10.0 * LINE, "it takes what its link carries");
    }
}
