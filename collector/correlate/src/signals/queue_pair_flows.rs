//! Flows of the queue pairs of a few ports, from the series that agents export: the other end of each, and its source port.
//! Read for ports whose losses or slowness the rules of paths must place.

use crate::model::routes::update::{FlowName, PortName};
use crate::signals::queue_pairs::{HostPort, INFO, OMITTED, QueuePairIndex, QueuePairSeries, any, one_of, place};
use fabriclens_model::{Labels, Read, ReadError};
use std::collections::{BTreeMap, BTreeSet};

/// Queue pairs of a port by their number: from that port to the port at the other end.
pub type QueuePairFlows = BTreeMap<u32, FlowName>;

/// Flows of the connected queue pairs of some ports at an instant (Unix ms), by port. A queue pair is left out if the other end
/// is unknown or ambiguous, because numbers are not unique across hosts. A port has none if its agent exports only some of its
/// queue pairs: a loss would be attributed to the wrong one.
///
/// # Errors
/// [`ReadError`] if the store cannot be read, or the answer is too large.
pub fn queue_pair_flows(
    read: &dyn Read,
    ports: &BTreeSet<HostPort>,
    time_ms: i64,
) -> Result<BTreeMap<HostPort, QueuePairFlows>, ReadError> {
    flows(read, ports, time_ms, false)
}

/// The same, also of ports whose agent exports only some of their queue pairs.
///
/// # Errors
/// [`ReadError`] if the store cannot be read, or the answer is too large.
pub fn known_queue_pair_flows(
    read: &dyn Read,
    ports: &BTreeSet<HostPort>,
    time_ms: i64,
) -> Result<BTreeMap<HostPort, QueuePairFlows>, ReadError> {
    flows(read, ports, time_ms, true)
}

fn flows(
    read: &dyn Read,
    ports: &BTreeSet<HostPort>,
    time_ms: i64,
    some_suffice: bool,
) -> Result<BTreeMap<HostPort, QueuePairFlows>, ReadError> {
    let series = QueuePairSeries::at(read, time_ms);
    let of_ports = |name| -> Result<Vec<Labels>, ReadError> {
        let mut all = series.standing(name, vec![one_of("host", ports.iter().map(|(host, _)| host.as_str()))?])?;
        all.retain(|labels| ports.contains(&place(labels)));
        Ok(all)
    };
    let partial: BTreeSet<HostPort> =
        if some_suffice { BTreeSet::new() } else { of_ports(OMITTED)?.iter().map(place).collect() };
    let mut own = of_ports(INFO)?;
    own.retain(|labels| !partial.contains(&place(labels)));
    if own.is_empty() {
        return Ok(BTreeMap::new());
    }
    let jobs = one_of("job", own.iter().map(|labels| labels.get("job")))?;
    let others = series.standing(INFO, vec![jobs, any("local", &own, "remote")?, any("remote", &own, "local")?])?;
    let mut all: BTreeMap<HostPort, QueuePairFlows> = BTreeMap::new();
    let (same, other) = (QueuePairIndex::of(&own), QueuePairIndex::of(&others));
    for pair in &own {
        let job = |one: &&&Labels| one.get("job") == pair.get("job");
        let places = |ends: &[&Labels]| ends.iter().filter(job).map(|end| place(end)).collect::<BTreeSet<_>>();
        let (same, mut other) = (places(same.same(pair)), places(other.other(pair)));
        let from = place(pair);
        // Both numbers may be equal.
        other.remove(&from);
        let ([Some(to), None], 1) = ([other.pop_first(), other.pop_first()], same.len()) else { continue };
        let Ok(number) = pair.get("local").parse() else { continue };
        let source_port = pair.get("source_port").parse().ok();
        let flow = FlowName { from: port(&from), to: port(&to), source_port };
        all.entry(from).or_default().insert(number, flow);
    }
    Ok(all)
}

fn port((node, port): &HostPort) -> PortName {
    PortName { node: node.clone(), port: port.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Memory, Series, stale};

    const NOW: i64 = 1_000_000;

    fn series(name: &str, host: &str, more: &[(&str, &str)]) -> Series {
        let own = [("__name__", name), ("device", "mlx5_0"), ("port", "1"), ("host", host)];
        let labels = Labels::new(own.into_iter().chain(more.iter().copied()));
        Series { labels, times: vec![NOW - 60_000, NOW - 30_000], values: vec![1.0; 2] }
    }

    fn pair(host: &str, job: &str, [local, remote]: [&str; 2], source_port: &str) -> Series {
        series(INFO, host, &[("job", job), ("local", local), ("remote", remote), ("source_port", source_port)])
    }

    /// Queue pairs of `a-1` and `b.2`: host, number, other host, source port.
    fn flows(all: Vec<Series>) -> Vec<(String, u32, String, Option<u16>)> {
        let ports = ["a-1", "b.2"].map(|host| (host.to_owned(), "mlx5_0/1".to_owned()));
        let found = queue_pair_flows(&Memory(all), &BTreeSet::from(ports), NOW).unwrap();
        let rows = found.into_iter().flat_map(|((host, _), pairs)| {
            pairs.into_iter().map(move |(number, flow)| (host.clone(), number, flow.to.node, flow.source_port))
        });
        rows.collect()
    }

    fn row(host: &str, number: u32, to: &str, source_port: Option<u16>) -> (String, u32, String, Option<u16>) {
        (host.to_owned(), number, to.to_owned(), source_port)
    }

    #[test]
    fn both_ends_name_the_flow_and_its_source_port() {
        let all = vec![
            pair("a-1", "7", ["10", "20"], "50000"),
            pair("b.2", "7", ["20", "10"], "50000"),
            pair("a-1", "7", ["11", "21"], ""),
            pair("c", "7", ["21", "11"], ""),
            pair("bx2", "7", ["30", "31"], "50001"),
        ];
        let want = [row("a-1", 10, "b.2", Some(50000)), row("a-1", 11, "c", None), row("b.2", 20, "a-1", Some(50000))];
        assert_eq!(flows(all), want, "and bx2 is another host");
    }

    #[test]
    fn unknown_and_ambiguous_ends_are_left_out() {
        let own = || vec![pair("a-1", "7", ["10", "20"], "50000")];
        let with = |more: Vec<Series>| flows(own().into_iter().chain(more).collect());
        let other = |host: &str, job: &str| pair(host, job, ["20", "10"], "50000");
        assert_eq!(with(vec![]), []);
        assert_eq!(with(vec![other("c", "8")]), [], "of another job");
        assert_eq!(with(vec![other("c", "7"), other("d", "8")]), [row("a-1", 10, "c", Some(50000))]);
        assert_eq!(with(vec![other("c", "7"), other("d", "7")]), []);
        assert_eq!(with(vec![other("c", "7"), pair("b.2", "7", ["10", "20"], "50000")]), [], "whose is c's?");
        let gone = Series { values: vec![1.0, stale()], ..other("c", "7") };
        assert_eq!(with(vec![gone]), []);
        assert_eq!(with(vec![other("c", "7"), series(OMITTED, "a-1", &[])]), [], "a-1 has others as well");
    }
}
