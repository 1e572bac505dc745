//! Queue pairs of user processes by job, their remote ends, and totals per job of counters bound to queue pairs: shows
//! which jobs use RDMA, and with which peers. RoCE v2 ports export the source port of each, if the driver's rule is known
//! ([`crate::source_port`]).
//!
//! The kernel queries the device for each queue pair, so the list is made at a rate that its cost determines
//! ([`crate::background`]); on a host with tens of thousands it may be some minutes old.

use crate::background::Background;
use crate::queue_pair_totals::{Owner, QueuePairTotals, parts};
use crate::sampler::{Period, Sampler, Spec};
use crate::source_port::SourcePortRule;
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::discover::transport;
use fabriclens_agent_host::inventory::Transport;
use fabriclens_base::error_chain::with_causes;
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::job::{JOB_QUEUE_PAIRS, QUEUE_PAIR_INFO, QUEUE_PAIRS_OMITTED};
use fabriclens_kernel::{CallError, CmId, Qp, QpCounter};
use fabriclens_wire::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "queue_pairs",
    source: CounterSource::Other,
    period: Period::Slow,
    default: true,
    needs: "the host's PID namespace",
    applies: |target| target.port().is_some_and(|port| port.link.is_some()),
    open,
};

/// Limit of queue pairs per port that are exported individually.
const MOST: usize = 512;
/// Longest wait for a list. A list that is not ready by then is exported by the next sample.
const FIRST: Duration = Duration::from_millis(1500);
const LATER: Duration = Duration::from_millis(50);
/// Types with exactly one remote end.
const CONNECTED: &[&str] = &["RC", "UC", "XRC_INI", "XRC_TGT"];
/// States in which the remote end is known.
const READY: &[&str] = &["RTR", "RTS", "SQD", "SQE"];

/// Answer of the kernel, with the jobs of its processes.
#[derive(Default)]
struct List {
    qps: Vec<Qp>,
    /// `None` if the kernel does not list them.
    ids: Option<Vec<CmId>>,
    counters: Vec<QpCounter>,
    owners: HashMap<u32, Owner>,
}

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let link = target.port().and_then(|port| port.link.clone());
    let link = link.ok_or_else(|| SampleError::Absent("netlink does not know this port".into()))?;
    // Separate sockets: those of the device are for its counters.
    let calls = target.roots.calls();
    let call = move || -> Result<List, CallError> {
        let qps = calls.rdma_qps(Some(&link))?;
        let ids = calls.rdma_cm_ids(Some(&link)).ok();
        let counters = calls.rdma_qp_counters(Some(&link)).unwrap_or_default();
        Ok(List { qps, ids, counters, owners: HashMap::new() })
    };
    Ok(Box::new(QueuePairs {
        rule: None,
        target: target.clone(),
        call: Background::new("queue pairs", call),
        list: None,
        by_job: QueuePairTotals::default(),
        asked: false,
    }))
}

/// Rule for the source ports of a port's queue pairs; `None` if the port is not RoCE v2.
fn rule(target: &SamplingTarget) -> Option<SourcePortRule> {
    let device = target.device.as_ref()?;
    // Read anew: a port gets its version 2 GIDs with its addresses.
    let now = target.port().map(|port| transport(device, &port.dir, port.link_layer))?;
    (now == Transport::RoceV2).then(|| SourcePortRule::of(target.family(CounterSource::HwCounters)))
}

impl List {
    /// Looks up the jobs of the processes.
    fn find_owners(&mut self, target: &SamplingTarget) {
        let of_counters = self.counters.iter().filter_map(|counter| counter.pid);
        let pids: BTreeSet<u32> = self.qps.iter().filter_map(|qp| qp.pid).chain(of_counters).collect();
        if !pids.is_empty() {
            // At startup, the sampler of jobs runs at the same time.
            target.jobs.wait(FIRST);
        }
        let owner = |pid| (pid, target.jobs.of_process(target.roots.proc(), pid));
        self.owners = pids.into_iter().map(owner).collect();
    }
}

struct QueuePairs {
    rule: Option<SourcePortRule>,
    target: SamplingTarget,
    call: Background<Result<List, CallError>>,
    list: Option<List>,
    by_job: QueuePairTotals,
    asked: bool,
}

impl Sampler for QueuePairs {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let patience = if self.asked { LATER } else { FIRST };
        self.asked = true;
        let answer = self.call.poll(patience);
        match answer.map_err(|e| SampleError::Failed(format!("starting a thread: {}", with_causes(&e))))? {
            Some(Ok(mut list)) => {
                list.find_owners(&self.target);
                self.rule = rule(&self.target);
                let owner = |counter: &QpCounter| owner(counter, &list);
                self.by_job.add(&self.target, &list.counters, owner);
                self.list = Some(list);
            }
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        if let Some(list) = &self.list {
            counts(list, out);
            pairs(list, self.rule, out);
            self.by_job.tell(out);
        }
        out.note = match (self.call.waiting(), self.call.took) {
            (Some(since), _) => format!("the list has been running for {} ms", since.as_millis()),
            (None, Some(took)) => format!("the list takes {} µs", took.as_micros()),
            (None, None) => String::new(),
        };
        if let Some(SourcePortRule::Unknown(why)) = self.rule {
            out.note.push_str(&format!("; source ports unknown: {why}"));
        }
        Ok(())
    }
}

/// Owner of a counter: the job of its process, or of the first of its queue pairs with a known process.
fn owner(counter: &QpCounter, list: &List) -> Option<Owner> {
    let of_qp = || list.qps.iter().filter(|qp| counter.qps.contains(&qp.lqpn)).find_map(|qp| qp.pid);
    list.owners.get(&counter.pid.or_else(of_qp)?).cloned()
}

fn counts(list: &List, out: &mut Batch) {
    let no_owner: Owner = None;
    // Also exported if there are none: a job without RDMA is of interest.
    let mut counts: BTreeMap<&Owner, u64> = BTreeMap::from([(&no_owner, 0)]);
    for pid in list.qps.iter().filter_map(|qp| qp.pid) {
        *counts.entry(list.owners.get(&pid).unwrap_or(&no_owner)).or_default() += 1;
    }
    for (owner, count) in counts {
        let (scheduler, job, cluster) = parts(owner);
        let labels = [("cluster", cluster), ("job", job), ("scheduler", scheduler)];
        out.fact(&JOB_QUEUE_PAIRS, &labels, Value::Int(count));
    }
}

fn pairs(list: &List, rule: Option<SourcePortRule>, out: &mut Batch) {
    let peers: HashMap<u32, IpAddr> = list
        .ids
        .iter()
        .flatten()
        .filter_map(|id| Some((id.lqpn?, id.destination?.ip())))
        .filter(|(_, ip)| !ip.is_unspecified())
        .collect();
    // The connection manager sets a flow label.
    let managed: HashSet<u32> = list.ids.iter().flatten().filter_map(|id| id.lqpn).collect();
    let labeled = |lqpn: u32| list.ids.is_none() || managed.contains(&lqpn);
    let connected = |qp: &&Qp| {
        let (kind, state) = (CONNECTED.contains(&&*qp.kind), READY.contains(&&*qp.state));
        kind && state && qp.rqpn.is_some_and(|remote| remote > 0)
    };
    let mut qps: Vec<&Qp> = list.qps.iter().filter(connected).filter(|qp| qp.pid.is_some()).collect();
    // Sorted, so that each sample exports the same ones.
    qps.sort_unstable_by_key(|qp| qp.lqpn);
    for qp in qps.iter().take(MOST) {
        let (Some(pid), Some(remote)) = (qp.pid, qp.rqpn) else { continue };
        let (scheduler, job, _) = list.owners.get(&pid).map_or(("", "", ""), parts);
        let peer = peers.get(&qp.lqpn).map(IpAddr::to_string).unwrap_or_default();
        let source_port = rule.and_then(|rule| rule.source_port(qp.lqpn, remote, labeled(qp.lqpn)));
        let labels = [
            ("job", job),
            ("local", &qp.lqpn.to_string()),
            ("peer", &peer),
            ("pid", &pid.to_string()),
            ("remote", &remote.to_string()),
            ("scheduler", scheduler),
            ("source_port", &source_port.map(|port| port.to_string()).unwrap_or_default()),
            ("type", &qp.kind),
        ];
        out.fact(&QUEUE_PAIR_INFO, &labels, Value::Int(1));
    }
    out.fact(&QUEUE_PAIRS_OMITTED, &[], Value::Int(qps.len().saturating_sub(MOST) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_host::inventory::{Device, LinkLayer, Port};
    use fabriclens_agent_host::no_calls::NoCalls;
    use fabriclens_agent_host::roots::Roots;
    use fabriclens_agent_workload::Key;
    use std::sync::Arc;

    fn qp(lqpn: u32, pid: Option<u32>) -> Qp {
        Qp {
            device: "mlx5_0".into(),
            port: Some(1),
            lqpn,
            rqpn: Some(lqpn + 1),
            kind: "RC".into(),
            state: "RTS".into(),
            pid,
            comm: None,
        }
    }

    fn exported(list: &List) -> Vec<(&'static str, u64, String)> {
        let mut batch = Batch::default();
        counts(list, &mut batch);
        pairs(list, None, &mut batch);
        let one = |(column, value): &(fabriclens_wire::Column, Value)| {
            let Value::Int(count) = value else { panic!("{value:?}") };
            let labels: Vec<String> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (column.metric.name, *count, labels.join(","))
        };
        batch.facts.iter().map(one).collect()
    }

    #[test]
    fn only_connected_user_pairs_are_listed() {
        let kernels = qp(1, None);
        let reset = Qp { state: "INIT".into(), ..qp(2, Some(7)) };
        let datagram = Qp { kind: "UD".into(), ..qp(3, Some(7)) };
        let alone = Qp { rqpn: Some(0), ..qp(4, Some(7)) };
        let owners = HashMap::from([(7, Some((Key::new("slurm", "5"), "west".into())))]);
        let list = List { qps: vec![kernels, reset, datagram, alone, qp(5, Some(7))], owners, ..List::default() };
        let all = exported(&list);
        let info = "job=5,local=5,pid=7,remote=6,scheduler=slurm,type=RC".to_owned();
        let want = [
            ("fabric.job.queue_pairs", 0, String::new()),
            ("fabric.job.queue_pairs", 4, "cluster=west,job=5,scheduler=slurm".into()),
            ("fabric.queue_pair.info", 1, info),
            ("fabric.queue_pair.omitted", 0, String::new()),
        ];
        assert_eq!(all, want);
    }

    #[test]
    fn pairs_beyond_the_limit_are_only_counted() {
        let many = MOST as u32 + 10;
        let list = List { qps: (0..many).rev().map(|lqpn| qp(lqpn + 1, Some(7))).collect(), ..List::default() };
        let all = exported(&list);
        assert_eq!((all[0].0, all[0].1), ("fabric.job.queue_pairs", many.into()));
        let last = all.last().map(|(name, count, _)| (*name, *count));
        assert_eq!((all.len(), last), (MOST + 2, Some(("fabric.queue_pair.omitted", 10))));
        assert!(all[1].2.contains("local=1,"), "{}", all[1].2);
    }

    #[test]
    fn source_port_follows_the_rule_unless_a_flow_label_may_be_set() {
        let id = CmId {
            device: "mlx5_0".into(),
            port: Some(1),
            lqpn: Some(0x11),
            state: "CONNECT".into(),
            pid: Some(7),
            source: None,
            destination: None,
        };
        let ports = |ids: Option<Vec<CmId>>, rule: Option<SourcePortRule>| {
            let pair = Qp { rqpn: Some(0x12), ..qp(0x11, Some(7)) };
            let mut batch = Batch::default();
            pairs(&List { qps: vec![pair], ids, ..List::default() }, rule, &mut batch);
            let label = batch.facts[0].0.labels.iter().find(|(name, _)| &**name == "source_port");
            label.map(|(_, port)| port.to_string())
        };
        let (mlx5, rxe) = (Some(SourcePortRule::FlowLabel), Some(SourcePortRule::OwnNumber));
        let known = |port: &str| Some(port.to_owned());
        assert_eq!([ports(Some(vec![]), mlx5), ports(Some(vec![]), rxe)], [known("49458"), known("57236")]);
        assert_eq!([ports(Some(vec![id.clone()]), mlx5), ports(Some(vec![id]), rxe)], [None, known("57236")]);
        assert_eq!(ports(None, mlx5), None, "the connection manager may have set a label");
        assert_eq!(ports(Some(vec![]), None), None, "not RoCE v2");
    }

    #[test]
    fn only_ports_with_version_2_gids_have_source_ports() {
        let dir = tempfile::tempdir().unwrap();
        let rule_with = |gids: &[&str], link_layer| {
            let types = dir.path().join("gid_attrs/types");
            let _ = std::fs::remove_dir_all(&types);
            std::fs::create_dir_all(&types).unwrap();
            gids.iter().enumerate().for_each(|(slot, gid)| std::fs::write(types.join(slot.to_string()), gid).unwrap());
            let port = Port {
                number: 1,
                link_layer,
                transport: Transport::Roce,
                netdev: None,
                link: None,
                dir: dir.path().to_owned(),
            };
            let device =
                Device { dir: dir.path().to_owned(), ports: vec![port], ..Device::bare("mlx5_0", "mlx5_core") };
            let roots = Arc::new(Roots::with_calls(dir.path().to_owned(), Arc::new(NoCalls)));
            rule(&SamplingTarget::of_device(&roots, &Arc::from("h"), &Arc::new(device))[1])
        };
        let both = ["IB/RoCE v1\n", "RoCE v2\n"];
        assert_eq!(rule_with(&both, LinkLayer::Ethernet), Some(SourcePortRule::FlowLabel));
        assert_eq!(rule_with(&both[..1], LinkLayer::Ethernet), None);
        assert_eq!(rule_with(&both, LinkLayer::InfiniBand), None);
    }
}
