//! Queue pairs of user processes by job, the other ends of those that are connected, and where somebody has bound
//! counters to queue pairs their sums by job: which jobs use RDMA, and who talks to whom.
//!
//! The kernel asks the device for each queue pair, so the list is made at a pace that follows its cost
//! ([`crate::workload::background`]), and what it shows may be some minutes old on a host with tens of thousands.

use super::{Period, Sampler, Spec};
use crate::batch::{Batch, SampleError, chain};
use crate::subject::Subject;
use crate::workload::background::Background;
use crate::workload::by_job::{ByJob, Owner, parts};
use fabriclens_catalog::Source;
use fabriclens_catalog::metrics::job::{JOB_QUEUE_PAIRS, QUEUE_PAIR_INFO, QUEUE_PAIRS_OMITTED};
use fabriclens_kernel::{CallError, CmId, Qp, QpCounter};
use fabriclens_wire::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// See the module.
pub const SPEC: Spec = Spec {
    name: "queue_pairs",
    source: Source::Other,
    period: Period::Slow,
    default: true,
    needs: "the host's PID namespace",
    applies: |subject| subject.port().is_some_and(|port| port.link.is_some()),
    open,
};

/// Queue pairs of a port that are told one by one.
const MOST: usize = 512;
/// How long the first list, and any later one, is waited for. What is not there by then is told by the next sample.
const FIRST: Duration = Duration::from_millis(1500);
const LATER: Duration = Duration::from_millis(50);
/// Types that have one other end each.
const CONNECTED: &[&str] = &["RC", "UC", "XRC_INI", "XRC_TGT"];
/// States in which they know it.
const READY: &[&str] = &["RTR", "RTS", "SQD", "SQE"];

/// One answer of the kernel, with what was found out of its processes.
struct List {
    qps: Vec<Qp>,
    ids: Vec<CmId>,
    counters: Vec<QpCounter>,
    owners: HashMap<u32, Owner>,
}

fn open(subject: &Subject) -> Result<Box<dyn Sampler>, SampleError> {
    let link = subject.port().and_then(|port| port.link.clone());
    let link = link.ok_or_else(|| SampleError::Absent("netlink does not know this port".into()))?;
    // Sockets of its own: the device's are for its counters.
    let calls = subject.roots.calls();
    let call = move || -> Result<List, CallError> {
        let qps = calls.rdma_qps(Some(&link))?;
        let ids = calls.rdma_cm_ids(Some(&link)).unwrap_or_default();
        let counters = calls.rdma_qp_counters(Some(&link)).unwrap_or_default();
        Ok(List { qps, ids, counters, owners: HashMap::new() })
    };
    Ok(Box::new(QueuePairs {
        subject: subject.clone(),
        call: Background::new(call),
        list: None,
        by_job: ByJob::default(),
        asked: false,
    }))
}

impl List {
    /// Finds out whose the processes are.
    fn find_owners(&mut self, subject: &Subject) {
        let of_counters = self.counters.iter().filter_map(|counter| counter.pid);
        let pids: BTreeSet<u32> = self.qps.iter().filter_map(|qp| qp.pid).chain(of_counters).collect();
        if !pids.is_empty() {
            // At the start, jobs are looked for at the same time.
            subject.jobs.wait(FIRST);
        }
        let owner = |pid| (pid, subject.jobs.of_process(subject.roots.proc(), pid));
        self.owners = pids.into_iter().map(owner).collect();
    }
}

struct QueuePairs {
    subject: Subject,
    call: Background<Result<List, CallError>>,
    list: Option<List>,
    by_job: ByJob,
    asked: bool,
}

impl Sampler for QueuePairs {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let patience = if self.asked { LATER } else { FIRST };
        self.asked = true;
        let answer = self.call.poll(patience);
        match answer.map_err(|e| SampleError::Failed(format!("starting a thread: {}", chain(&e))))? {
            Some(Ok(mut list)) => {
                list.find_owners(&self.subject);
                let owner = |counter: &QpCounter| owner(counter, &list);
                self.by_job.add(&self.subject, &list.counters, owner);
                self.list = Some(list);
            }
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        if let Some(list) = &self.list {
            counts(list, out);
            pairs(list, out);
            self.by_job.tell(out);
        }
        out.note = match (self.call.waiting(), self.call.took) {
            (Some(since), _) => format!("the list is under way for {} ms", since.as_millis()),
            (None, Some(took)) => format!("the list takes {} µs", took.as_micros()),
            (None, None) => String::new(),
        };
        Ok(())
    }
}

/// Whose a counter is: that of its process, or of the first of its queue pairs whose process is known.
fn owner(counter: &QpCounter, list: &List) -> Option<Owner> {
    let of_qp = || list.qps.iter().filter(|qp| counter.qps.contains(&qp.lqpn)).find_map(|qp| qp.pid);
    list.owners.get(&counter.pid.or_else(of_qp)?).cloned()
}

fn counts(list: &List, out: &mut Batch) {
    let nobody: Owner = None;
    // Told also when there is none: that a job uses no RDMA is worth knowing.
    let mut counts: BTreeMap<&Owner, u64> = BTreeMap::from([(&nobody, 0)]);
    for pid in list.qps.iter().filter_map(|qp| qp.pid) {
        *counts.entry(list.owners.get(&pid).unwrap_or(&nobody)).or_default() += 1;
    }
    for (owner, count) in counts {
        let (scheduler, job, cluster) = parts(owner);
        let labels = [("cluster", cluster), ("job", job), ("scheduler", scheduler)];
        out.fact(&JOB_QUEUE_PAIRS, &labels, Value::Int(count));
    }
}

fn pairs(list: &List, out: &mut Batch) {
    let peers: HashMap<u32, IpAddr> = list
        .ids
        .iter()
        .filter_map(|id| Some((id.lqpn?, id.destination?.ip())))
        .filter(|(_, ip)| !ip.is_unspecified())
        .collect();
    let connected = |qp: &&Qp| {
        let (kind, state) = (CONNECTED.contains(&&*qp.kind), READY.contains(&&*qp.state));
        kind && state && qp.rqpn.is_some_and(|remote| remote > 0)
    };
    let mut qps: Vec<&Qp> = list.qps.iter().filter(connected).filter(|qp| qp.pid.is_some()).collect();
    // The same ones at each sample.
    qps.sort_unstable_by_key(|qp| qp.lqpn);
    for qp in qps.iter().take(MOST) {
        let (Some(pid), Some(remote)) = (qp.pid, qp.rqpn) else { continue };
        let (scheduler, job, _) = list.owners.get(&pid).map_or(("", "", ""), parts);
        let peer = peers.get(&qp.lqpn).map(IpAddr::to_string).unwrap_or_default();
        let labels = [
            ("job", job),
            ("local", &qp.lqpn.to_string()),
            ("peer", &peer),
            ("pid", &pid.to_string()),
            ("remote", &remote.to_string()),
            ("scheduler", scheduler),
            ("type", &qp.kind),
        ];
        out.fact(&QUEUE_PAIR_INFO, &labels, Value::Int(1));
    }
    out.fact(&QUEUE_PAIRS_OMITTED, &[], Value::Int(qps.len().saturating_sub(MOST) as u64));
}
