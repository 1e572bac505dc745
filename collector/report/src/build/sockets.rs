//! Host pairs connected over TCP, from the address pairs that agents report for the job's connections. The local
//! addresses of the job's sockets identify their host, so no address configuration is needed.

use super::ReportContext;
use super::observed_pairs::ObservedPairs;
use crate::model::{Grade, Over, Pair, Unit};
use crate::render::words::value;
use fabriclens_base::escape::{promql_string, regex};
use fabriclens_promql::{QueryError, Sample};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Lookback for the peer series; agents report them every 30 s or less often.
const BACK: &str = "[10m]";
/// Pairs with less than this fraction of the bytes of the busiest pair are bootstrap connections and are dropped.
const SMALL: f64 = 0.01;
/// A pair is slow if its round-trip time exceeds the median by this factor and by this many seconds.
const SLOW: (f64, f64) = (3.0, 100e-6);
/// Minimum number of pairs for an outlier.
const MANY: usize = 3;

/// TCP traffic between two hosts.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct PairTraffic {
    bytes: f64,
    rtt: Option<f64>,
}

pub(super) fn observed_pairs(context: &ReportContext<'_>) -> Result<ObservedPairs, QueryError> {
    let names = std::iter::once(&context.job.id).chain(&context.job.aliases);
    let names: Vec<String> = names.map(|name| regex(name)).collect();
    let named = format!("job=~{}", promql_string(&names.join("|")));
    let latest = |metric: &str| -> Result<Vec<Sample>, QueryError> {
        let promql = format!("last_over_time({}{BACK})", context.source.selector(metric, &named));
        let mut all = context.source.at(&promql, context.source.end_ms)?;
        all.retain(|s| mine(context, s));
        Ok(all)
    };
    let io = latest("fabric_job_tcp_peer_io_bytes_total")?;
    if io.is_empty() {
        return Ok(ObservedPairs::default());
    }
    let rtts = latest("fabric_job_tcp_peer_rtt_seconds")?;
    let omitted = latest("fabric_job_tcp_peer_omitted")?;
    let (pair_traffic, unmatched) = pair_traffic(&io, &rtts);
    let cut: BTreeSet<String> =
        omitted.iter().filter(|s| s.value > 0.0).map(|s| s.labels.get("host").to_owned()).collect();
    let most = pair_traffic.values().map(|t| t.bytes).fold(0.0, f64::max);
    let all = pair_traffic.len();
    let mut kept: Vec<((String, String), PairTraffic)> =
        pair_traffic.into_iter().filter(|(_, t)| t.bytes >= most * SMALL).collect();
    kept.sort_by_key(|(_, t)| Reverse(t.bytes as u64));
    let moved: f64 = kept.iter().map(|(_, t)| t.bytes).sum();
    let mut text = match kept.len() {
        0 => "TCP connections, none of them between known hosts of the job".to_owned(),
        pairs => format!("TCP connections with at least {} between {pairs} pairs of hosts", value(moved, Unit::Bytes)),
    };
    if all > kept.len() {
        text.push_str(&format!(" (and {} with less than a hundredth of the busiest)", all - kept.len()));
    }
    let slow = slow(&kept);
    let pair = |((a, b), t): ((String, String), PairTraffic)| {
        let (bytes, rtt_seconds) = (Some(t.bytes), t.rtt);
        Pair { a, b, over: Over::Tcp, grade: Grade::PerProcess, bytes, rtt_seconds }
    };
    Ok(ObservedPairs { text, pairs: kept.into_iter().map(pair).collect(), unmatched, cut, slow })
}

fn mine(context: &ReportContext<'_>, s: &Sample) -> bool {
    let (cluster, job) = (s.labels.get("cluster"), s.labels.get("job"));
    context.job.has_name(job)
        && (cluster.is_empty() || context.job.cluster.is_empty() || cluster == context.job.cluster)
}

/// Traffic by host pair, and the number of unmatched address pairs. Addresses of several hosts, such as those of local
/// bridges, identify no host and are ignored.
fn pair_traffic(io: &[Sample], rtts: &[Sample]) -> (BTreeMap<(String, String), PairTraffic>, usize) {
    let mut owners: HashMap<&str, Option<&str>> = HashMap::new();
    for s in io {
        let host = s.labels.get("host");
        let owner = owners.entry(s.labels.get("local")).or_insert(Some(host));
        *owner = owner.filter(|other| *other == host);
    }
    let key = |s: &Sample| ["host", "local", "peer"].map(|name| s.labels.get(name).to_owned());
    let rtts: HashMap<[String; 3], f64> = rtts.iter().map(|s| (key(s), s.value)).collect();
    let mut of_addresses: BTreeMap<[&str; 4], PairTraffic> = BTreeMap::new();
    let mut unmatched = 0;
    for s in io {
        let [host, local, peer] = ["host", "local", "peer"].map(|name| s.labels.get(name));
        let (Some(Some(_)), Some(Some(other))) = (owners.get(local), owners.get(peer)) else {
            unmatched += 1;
            continue;
        };
        if *other == host {
            continue;
        }
        let ends = if host < *other { [host, other, local, peer] } else { [other, host, peer, local] };
        let traffic = of_addresses.entry(ends).or_default();
        // Both ends report the same bytes.
        traffic.bytes = traffic.bytes.max(s.value);
        traffic.rtt = largest(traffic.rtt, rtts.get(&key(s)).copied());
    }
    let mut all: BTreeMap<(String, String), PairTraffic> = BTreeMap::new();
    for ([a, b, ..], of) in of_addresses {
        let traffic = all.entry((a.to_owned(), b.to_owned())).or_default();
        traffic.bytes += of.bytes;
        traffic.rtt = largest(traffic.rtt, of.rtt);
    }
    (all, unmatched)
}

fn largest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Pairs with an outlying round-trip time, slowest first.
fn slow(pairs: &[((String, String), PairTraffic)]) -> Vec<String> {
    let mut known: Vec<(f64, &(String, String))> = pairs.iter().filter_map(|(p, t)| Some((t.rtt?, p))).collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((median, _)) = known.get(known.len() / 2).filter(|_| known.len() >= MANY) else { return Vec::new() };
    let limit = (median * SLOW.0).max(median + SLOW.1);
    let text = |(rtt, (a, b)): &(f64, &(String, String))| {
        let (rtt, median) = (value(*rtt, Unit::Seconds), value(*median, Unit::Seconds));
        format!("{a} to {b} (round trip {rtt}, the median of pairs is {median})")
    };
    known.iter().take_while(|(rtt, _)| *rtt > limit).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Labels;

    fn sample(host: &str, local: &str, peer: &str, value: f64) -> Sample {
        Sample { labels: Labels::new([("host", host), ("local", local), ("peer", peer)]), time_ms: 0, value }
    }

    #[test]
    fn addresses_of_several_hosts_identify_no_host() {
        let io = [
            sample("a", "10.0.0.1", "10.0.0.2", 100.0),
            sample("b", "10.0.0.2", "10.0.0.1", 90.0),
            // A second rail whose other end was not reported.
            sample("a", "10.1.0.1", "10.0.0.2", 7.0),
            sample("a", "10.0.0.1", "192.0.2.1", 1e9),
            sample("a", "172.17.0.1", "172.17.0.2", 5.0),
            sample("b", "172.17.0.1", "172.17.0.2", 5.0),
            sample("b", "10.0.0.2", "172.17.0.1", 5.0),
        ];
        let rtts = [sample("a", "10.0.0.1", "10.0.0.2", 1e-4), sample("b", "10.0.0.2", "10.0.0.1", 2e-4)];
        let (all, unmatched) = pair_traffic(&io, &rtts);
        let pair = ("a".to_owned(), "b".to_owned());
        assert_eq!(all, BTreeMap::from([(pair, PairTraffic { bytes: 107.0, rtt: Some(2e-4) })]));
        assert_eq!(unmatched, 4);
    }

    #[test]
    fn slow_pairs_need_other_pairs_for_comparison() {
        let pair = |b: &str, rtt| (("a".to_owned(), b.to_owned()), PairTraffic { bytes: 1.0, rtt: Some(rtt) });
        let some = [pair("b", 1e-4), pair("c", 9e-4), pair("d", 1.5e-4)];
        assert_eq!(slow(&some), ["a to c (round trip 900 µs, the median of pairs is 150 µs)"]);
        assert!(slow(&some[..2]).is_empty() && slow(&[pair("b", 1e-5), pair("c", 1e-5), pair("d", 9e-5)]).is_empty());
    }
}
