//! Flows of the connected queue pairs of the job, and of the jobs that ran at the same time. Bounded: a fleet has millions.

use super::ReportContext;
use fabriclens_correlate::topology::port_name;
use fabriclens_correlate::{FlowName, PortName, QueuePairIndex};
use fabriclens_jobs::{Attribution, Job};
use fabriclens_model::Labels;
use fabriclens_promql::{QueryError, Sample};
use std::collections::{BTreeSet, HashSet};

/// Queue pairs that are read, of this job and of all others.
const QUEUE_PAIRS: [usize; 2] = [65_536, 32_768];
/// Flows of a job that are looked up, and of all others.
const FLOWS: [usize; 2] = [16_384, 8_192];
/// Hosts of a query.
const BATCH: usize = 16;

/// Flows by job.
pub(super) struct Flows {
    /// The job of the report first, then the concurrent ones in their order.
    pub of_job: Vec<HashSet<FlowName>>,
    /// Hosts whose queue pairs were not read or not kept: of the job, and of others.
    pub unread: [usize; 2],
}

/// Reads the flows of the job and of `concurrent` jobs, which are in the order of the occupancy after the job itself.
pub(super) fn flows(context: &ReportContext<'_>, concurrent: &[&Job]) -> Result<Flows, QueryError> {
    let mut all = Flows { of_job: Vec::new(), unread: [0; 2] };
    let mut left = (QUEUE_PAIRS, FLOWS);
    for (n, job) in std::iter::once(&context.job).chain(concurrent).enumerate() {
        let side = usize::from(n > 0);
        let mut bound = Bound { pairs: left.0[side], unread: 0 };
        // Only other jobs' flows that the job may meet count, so the hosts of a job without a flow of this one are not read.
        let flows = match n > 0 && all.of_job[0].is_empty() {
            true => HashSet::new(),
            false => of_job(context, (n, job), &mut bound)?,
        };
        left.0[side] = bound.pairs;
        all.unread[side] += bound.unread;
        let mut kept: Vec<FlowName> = flows.into_iter().collect();
        if kept.len() > left.1[side] {
            kept.sort_by_cached_key(key);
            let dropped: BTreeSet<String> = kept.drain(left.1[side]..).map(|flow| flow.from.node).collect();
            all.unread[side] += dropped.len();
        }
        left.1[side] -= kept.len();
        all.of_job.push(kept.into_iter().collect());
    }
    Ok(all)
}

/// Order of flows: by sender, receiver, source port.
pub(super) fn key(flow: &FlowName) -> (String, String, String, String, Option<u16>) {
    let FlowName { from, to, source_port } = flow;
    (from.node.clone(), from.port.clone(), to.node.clone(), to.port.clone(), *source_port)
}

/// What may still be read.
struct Bound {
    pairs: usize,
    unread: usize,
}

/// Flows of a job at the end of the time in which both ran, or in the middle: connections close before a job ends.
fn of_job(
    context: &ReportContext<'_>,
    (n, job): (usize, &Job),
    bound: &mut Bound,
) -> Result<HashSet<FlowName>, QueryError> {
    let source = &context.source;
    let ms = |ns: i64| ns / 1_000_000;
    let start = source.start_ms.max(ms(job.start_ns));
    let end = job.end_ns.map_or(source.end_ms, |end| ms(end).min(source.end_ms)).max(start);
    let hosts: Vec<&str> = job.hosts.keys().map(String::as_str).collect();
    for at in [end, start.midpoint(end)] {
        let mut pairs: Vec<Sample> = Vec::new();
        let mut unread = 0;
        for batch in hosts.chunks(BATCH) {
            if pairs.len() >= bound.pairs {
                unread += batch.len();
                continue;
            }
            let of_hosts = source.beside(batch.iter().copied());
            pairs.extend(of_hosts.at(&of_hosts.selector("fabric_queue_pair_info", ""), at)?);
        }
        pairs.retain(|pair| belongs(context, (n, job), &pair.labels));
        if !pairs.is_empty() || unread > 0 {
            bound.pairs = bound.pairs.saturating_sub(pairs.len());
            bound.unread = unread;
            return Ok(joined(&pairs));
        }
    }
    Ok(HashSet::new())
}

/// Whether a queue pair belongs to a job, by its position in the occupancy; on shared hosts only if it carries the job's label.
pub(super) fn belongs(context: &ReportContext<'_>, (n, job): (usize, &Job), labels: &Labels) -> bool {
    let (host, device) = (labels.get("host"), labels.get("device"));
    let is_alone = context.on.allocation(n, host) == Attribution::Exclusive;
    context.on.on_device(host, device).any(|other| other == n) && (is_alone || job.has_name(labels.get("job")))
}

/// Flows from each queue pair to its other end. Numbers are unique per adapter only: ambiguous ones are left out.
fn joined(pairs: &[Sample]) -> HashSet<FlowName> {
    let ends = QueuePairIndex::of(pairs.iter().map(|pair| &pair.labels));
    let places = |ends: &[&Labels]| -> BTreeSet<(String, String)> {
        ends.iter().map(|labels| (labels.get("host").to_owned(), port_name(labels))).collect()
    };
    let mut flows = HashSet::new();
    for Sample { labels, .. } in pairs {
        let from = (labels.get("host").to_owned(), port_name(labels));
        let mut others = places(ends.other(labels));
        // Both numbers may be equal.
        others.remove(&from);
        let ([Some(to), None], 1) = ([others.pop_first(), others.pop_first()], places(ends.same(labels)).len()) else {
            continue;
        };
        let [from, to] = [from, to].map(|(node, port)| PortName { node, port });
        flows.insert(FlowName { from, to, source_port: labels.get("source_port").parse().ok() });
    }
    flows
}
