//! RDMA against TCP: bytes of each, round-trip times of TCP, and whether the job ran over sockets.

use super::ReportContext;
use super::ports::{Aggregation, Counter, figure};
use crate::model::{Figure, Grade, Transport, Unit};
use fabriclens_promql::QueryError;
use std::collections::{HashMap, HashSet};

/// Minimum fraction of TCP bytes of a job over sockets.
const MOSTLY: f64 = 0.5;
/// Minimum TCP bytes of a job over sockets.
const WORTH: f64 = 1e9;

pub(super) fn transport(context: &ReportContext<'_>) -> Result<Transport, QueryError> {
    let rdma =
        context.ports.iter().flat_map(|p| [Counter::RdmaSent, Counter::RdmaReceived].map(|w| (p.grade, p.total(w))));
    let rdma = figure(Unit::Bytes, Aggregation::Sum, rdma);
    let tcp = tcp(context)?;
    let (all_rdma, all_tcp) = (total(&rdma), total(&tcp));
    let tcp_share = match (all_rdma, all_tcp) {
        (Some(rdma), Some(tcp)) if rdma + tcp > 0.0 => Some(tcp / (rdma + tcp)),
        _ => None,
    };
    let rails = context.ports.iter().filter(|p| p.total(Counter::RdmaSent).is_some()).count();
    let red_flag =
        tcp_share.zip(all_tcp).filter(|(share, bytes)| *share > MOSTLY && *bytes > WORTH).map(|(share, _)| {
            format!(
                "This job ran over sockets: {:.0} % of its bytes are TCP, while its hosts have {rails} RDMA ports. \
             Check that the library finds them and is allowed to use them (NCCL_IB_DISABLE, NCCL_IB_HCA, UCX_TLS).",
                share * 100.0
            )
        });
    Ok(Transport {
        rtt_median: rtt(context, 0.5)?,
        rtt_p99: rtt(context, 0.99)?,
        tcp_retransmits: host_wide(context, Unit::Count, Aggregation::Sum, "fabric_tcp_retransmits_total")?,
        rdma,
        tcp,
        tcp_share,
        red_flag,
    })
}

fn total(figure: &Figure) -> Option<f64> {
    figure.parts.iter().map(|p| p.value).reduce(|a, b| a + b)
}

fn grade_of_host(context: &ReportContext<'_>, host: &str) -> Grade {
    context.on.host(host).into()
}

/// TCP bytes to and from other hosts: of the job's cgroups if agents saw them, otherwise of its hosts.
fn tcp(context: &ReportContext<'_>) -> Result<Figure, QueryError> {
    let mut groups: HashMap<String, HashSet<String>> = HashMap::new();
    let range = format!("[{}ms]", context.source.end_ms - context.source.start_ms);
    let seen = format!("last_over_time({}{range})", context.source.selector("fabric_job_processes", ""));
    for s in context.source.at(&seen, context.source.end_ms)? {
        let l = |name| s.labels.get(name);
        let cluster =
            [l("cluster"), &context.job.cluster].iter().any(|c| c.is_empty()) || l("cluster") == context.job.cluster;
        if cluster && [l("job"), l("task")].iter().any(|name| context.job.has_name(name)) {
            groups.entry(l("host").to_owned()).or_default().insert(l("cgroup").to_owned());
        }
    }
    // A cgroup without a name is not distinguishable from the rest of the host.
    groups.values_mut().for_each(|g| _ = g.remove(""));
    groups.retain(|_, g| !g.is_empty());
    let mut values = Vec::new();
    for increase in context.source.increases("fabric_tcp_io_bytes_total")? {
        let (host, group) = (increase.labels.get("host"), increase.labels.get("cgroup"));
        if increase.labels.get("destination") == "local" {
            continue;
        }
        match groups.get(host) {
            Some(own) if own.contains(group) => {
                values.push((Grade::PerProcess, Some(increase.total + increase.beyond)))
            }
            Some(_) => {}
            None => values.push((grade_of_host(context, host), Some(increase.total))),
        }
    }
    let mut figure = figure(Unit::Bytes, Aggregation::Sum, values);
    let hosts = context.job.hosts.keys();
    for part in &mut figure.parts {
        let seen = |h: &&String| groups.contains_key(*h) == (part.grade == Grade::PerProcess);
        part.of = hosts.clone().filter(seen).count();
    }
    Ok(figure)
}

/// A quantile of the TCP round-trip times of all the job's hosts together.
fn rtt(context: &ReportContext<'_>, quantile: f64) -> Result<Figure, QueryError> {
    let mut buckets: HashMap<Grade, HashMap<String, f64>> = HashMap::new();
    let mut hosts: HashMap<Grade, HashSet<String>> = HashMap::new();
    for increase in context.source.increases("fabric_tcp_rtt_seconds_bucket")? {
        if increase.labels.get("destination") == "local" {
            continue;
        }
        let host = increase.labels.get("host");
        let grade = grade_of_host(context, host);
        *buckets.entry(grade).or_default().entry(increase.labels.get("le").to_owned()).or_default() += increase.total;
        hosts.entry(grade).or_default().insert(host.to_owned());
    }
    let of = |(grade, buckets): (Grade, HashMap<String, f64>)| (grade, in_buckets(&buckets, quantile));
    let mut figure = figure(Unit::Seconds, Aggregation::Most, buckets.into_iter().map(of));
    for part in &mut figure.parts {
        part.of = hosts.get(&part.grade).map_or(0, HashSet::len);
    }
    Ok(figure)
}

/// Quantile with linear interpolation within a bucket, as PromQL's `histogram_quantile`.
fn in_buckets(buckets: &HashMap<String, f64>, quantile: f64) -> Option<f64> {
    let bound = |le: &str| if le == "+Inf" { Some(f64::INFINITY) } else { le.parse().ok() };
    let mut sorted: Vec<(f64, f64)> = buckets.iter().filter_map(|(le, n)| Some((bound(le)?, *n))).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = sorted.last().map(|l| l.1).filter(|n| *n > 0.0)?;
    let rank = quantile * all;
    let at = sorted.iter().position(|(_, n)| *n >= rank)?;
    let (below, before) = at.checked_sub(1).map_or((0.0, 0.0), |n| sorted[n]);
    let (upper, upto) = sorted[at];
    match upper.is_infinite() || upto <= before {
        true => Some(below),
        false => Some(below + (upper - below) * (rank - before) / (upto - before)),
    }
}

fn host_wide(context: &ReportContext<'_>, unit: Unit, over: Aggregation, metric: &str) -> Result<Figure, QueryError> {
    let increases = context.source.increases(metric)?;
    Ok(figure(unit, over, increases.iter().map(|r| (grade_of_host(context, r.labels.get("host")), Some(r.total)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let b: HashMap<String, f64> =
            [("0.001", 50.0), ("0.002", 100.0), ("+Inf", 100.0)].map(|(l, n)| (l.into(), n)).into();
        assert_eq!(in_buckets(&b, 0.5), Some(0.001));
        assert_eq!(in_buckets(&b, 0.75), Some(0.0015));
        assert_eq!(in_buckets(&HashMap::new(), 0.5), None);
        assert_eq!(in_buckets(&[("+Inf".to_owned(), 0.0)].into(), 0.5), None, "no observations");
    }
}
