//! Peers of jobs over TCP: bytes and round-trip time of established connections, by job and address pair. The kernel
//! lists connections by socket diagnosis with their cgroup, which identifies the job.
//!
//! The list is as long as the host has connections, so it is made at a rate that its cost determines
//! ([`crate::background`]). Connections between two lists are missed: bytes are a lower bound, useful to find peers;
//! `tcp_traffic` counts all of them. Sockets of other network namespaces (pods with their own) are not listed, nor are
//! jobs with cgroups of version 1 only.

use crate::background::Background;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_workload::{Jobs, Key};
use fabriclens_base::error_chain::with_causes;
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::job::{TCP_PEER_IO, TCP_PEER_RTT, TCP_PEERS_OMITTED};
use fabriclens_kernel::{CallError, TcpSocket};
use fabriclens_wire::Value;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcp_peers",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "Linux 5.7 and control groups of version 2",
    applies: SamplingTarget::is_host,
    open,
};

/// Limit of exported address pairs per job, those with most bytes, and of the host.
const OF_JOB: usize = 128;
const OF_HOST: usize = 512;
/// Limit of address pairs kept per job; pairs without a connection are removed first.
const KEPT: usize = 16_384;
/// Longest wait for a list. A list that is not ready by then is exported by the next sample.
const FIRST: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_millis(50);

/// Local and remote address.
type Pair = (IpAddr, IpAddr);

/// Traffic between two addresses.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct PairTraffic {
    bytes: u64,
    /// Sum and number of the round-trip times of current connections.
    rtts: (Duration, u32),
    connections: u32,
}

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    // Separate sockets: those of the host are for its counters.
    let calls = target.roots.calls();
    Ok(Box::new(TcpPeers {
        jobs: Arc::clone(&target.jobs),
        call: Background::new("tcp peers", move || calls.tcp_sockets()),
        totals: PairTotals::default(),
        asked: false,
    }))
}

struct TcpPeers {
    jobs: Arc<Jobs>,
    call: Background<Result<Vec<TcpSocket>, CallError>>,
    totals: PairTotals,
    asked: bool,
}

impl Sampler for TcpPeers {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let patience = if self.asked { LATER } else { FIRST };
        self.asked = true;
        let answer = self.call.poll(patience);
        match answer.map_err(|e| SampleError::Failed(format!("starting a thread: {}", with_causes(&e))))? {
            Some(Ok(sockets)) => {
                if !sockets.is_empty() && sockets.iter().all(|socket| socket.cgroup.is_none()) {
                    let why = "the kernel does not tell the control groups of sockets; Linux 5.7 does";
                    return Err(SampleError::Absent(why.into()));
                }
                self.totals.add(&sockets, |group| self.jobs.of_group(group));
            }
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        self.totals.keep(|key| self.jobs.runs(key));
        self.totals.tell(|key| self.jobs.cluster(key), out);
        if let Some(took) = self.call.took {
            out.note = format!("the list takes {} µs", took.as_micros());
        }
        Ok(())
    }
}

/// Totals that outlive connections.
#[derive(Debug, Default)]
struct PairTotals {
    /// Bytes of each connection in the last list.
    last: HashMap<u64, u64>,
    of: BTreeMap<Key, BTreeMap<Pair, PairTraffic>>,
}

impl PairTotals {
    /// Adds the growth of connections; `job` returns the job of a cgroup.
    fn add(&mut self, sockets: &[TcpSocket], job: impl Fn(u64) -> Option<Key>) {
        for talk in self.of.values_mut().flat_map(BTreeMap::values_mut) {
            (talk.rtts, talk.connections) = ((Duration::ZERO, 0), 0);
        }
        let mut last = HashMap::with_capacity(self.last.len());
        for socket in sockets {
            let Some(key) = socket.cgroup.and_then(&job) else { continue };
            let pairs = self.of.entry(key).or_default();
            let talk = pairs.entry((socket.local.ip(), socket.remote.ip())).or_default();
            talk.connections += 1;
            if let Some(rtt) = socket.rtt {
                talk.rtts = (talk.rtts.0 + rtt, talk.rtts.1 + 1);
            }
            if let Some([acked, received]) = socket.transferred {
                let bytes = acked.saturating_add(received);
                let before = self.last.get(&socket.cookie).copied().unwrap_or(0);
                talk.bytes = talk.bytes.saturating_add(bytes.saturating_sub(before));
                last.insert(socket.cookie, bytes);
            }
        }
        self.last = last;
        for pairs in self.of.values_mut().filter(|pairs| pairs.len() > KEPT) {
            pairs.retain(|_, talk| talk.connections > 0);
        }
    }

    /// Removes jobs that have ended.
    fn keep(&mut self, runs: impl Fn(&Key) -> bool) {
        self.of.retain(|key, _| runs(key));
    }

    fn tell(&self, cluster: impl Fn(&Key) -> String, out: &mut Batch) {
        let mut room = OF_HOST;
        for (key, pairs) in &self.of {
            let mut most: Vec<(&Pair, &PairTraffic)> = pairs.iter().collect();
            most.sort_by_key(|(pair, talk)| (std::cmp::Reverse(talk.bytes), **pair));
            most.truncate(OF_JOB.min(room));
            room -= most.len();
            let cluster = cluster(key);
            for ((local, peer), talk) in &most {
                let (local, peer) = (local.to_string(), peer.to_string());
                let labels = [
                    ("cluster", &*cluster),
                    ("job", &key.job),
                    ("local", &local),
                    ("peer", &peer),
                    ("scheduler", key.scheduler),
                ];
                out.fact(&TCP_PEER_IO, &labels, Value::Int(talk.bytes));
                let rtt = (talk.rtts.1 > 0).then(|| talk.rtts.0.as_secs_f64() / f64::from(talk.rtts.1));
                out.fact_if(&TCP_PEER_RTT, &labels, rtt.map(Value::Float));
            }
            let labels = [("cluster", &*cluster), ("job", &key.job), ("scheduler", key.scheduler)];
            out.fact(&TCP_PEERS_OMITTED, &labels, Value::Int((pairs.len() - most.len()) as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(cookie: u64, peer: u8, group: u64, moved: u64) -> TcpSocket {
        TcpSocket {
            cookie,
            local: "10.0.0.1:5000".parse().unwrap(),
            remote: ([10, 0, 1, peer], 41000).into(),
            cgroup: Some(group),
            transferred: Some([moved, 1]),
            rtt: Some(Duration::from_micros(100 * cookie)),
        }
    }

    fn seven(group: u64) -> Option<Key> {
        (group == 7).then(|| Key::new("slurm", "7"))
    }

    fn exported(totals: &PairTotals) -> Vec<String> {
        let mut batch = Batch::default();
        totals.tell(|_| "west".into(), &mut batch);
        let label = |column: &fabriclens_wire::Column, name: &str| {
            column.labels.iter().find(|(n, _)| **n == *name).map_or_else(String::new, |(_, value)| value.to_string())
        };
        let one = |(c, value): &(fabriclens_wire::Column, Value)| {
            let value = match value {
                Value::Int(n) => n.to_string(),
                Value::Float(f) => format!("{f:.6}"),
                other => panic!("{other:?}"),
            };
            format!("{} {} {} {value}", c.metric.name.rsplit_once('.').unwrap().1, label(c, "job"), label(c, "peer"))
        };
        batch.facts.iter().map(one).collect()
    }

    #[test]
    fn growth_of_a_jobs_connections_adds_up() {
        let mut totals = PairTotals::default();
        totals.add(&[socket(1, 2, 7, 99), socket(3, 2, 7, 9), socket(4, 3, 8, 9)], seven);
        assert_eq!(exported(&totals), ["io 7 10.0.1.2 110", "rtt 7 10.0.1.2 0.000200", "omitted 7  0"]);
        // One has closed, one has grown, one is new: no total decreases.
        totals.add(&[socket(3, 2, 7, 19), socket(5, 4, 7, 999)], seven);
        let want = ["io 7 10.0.1.4 1000", "rtt 7 10.0.1.4 0.000500", "io 7 10.0.1.2 120", "rtt 7 10.0.1.2 0.000300"];
        assert_eq!(exported(&totals)[..4], want);
        totals.add(&[], seven);
        assert_eq!(
            exported(&totals),
            ["io 7 10.0.1.4 1000", "io 7 10.0.1.2 120", "omitted 7  0"],
            "idle, not forgotten"
        );
        totals.keep(|_| false);
        assert!(exported(&totals).is_empty());
    }

    #[test]
    fn too_many_are_counted() {
        let mut totals = PairTotals::default();
        let many: Vec<TcpSocket> = (0..200).map(|n| socket(n.into(), n, 7, 1000 - u64::from(n))).collect();
        totals.add(&many, seven);
        let all = exported(&totals);
        let ios: Vec<&String> = all.iter().filter(|line| line.starts_with("io")).collect();
        assert_eq!((ios.len(), &**ios[0]), (OF_JOB, "io 7 10.0.1.0 1001"));
        assert_eq!(all.last().unwrap(), "omitted 7  72");
    }
}
