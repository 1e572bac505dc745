//! Sentences and cells about paths of flows.

use super::words;
use crate::model::{FlowCount, LinkFlows, Path, Paths};

/// Time after the job's end from which on it is said that paths may have changed, seconds.
const LATER: u64 = 60;

/// Flows over a link: `12`, `up to 3` or `12 to 15`.
pub(super) fn link_flows(LinkFlows { flows, one_of }: LinkFlows) -> String {
    match (flows, one_of) {
        (flows, 0) => flows.to_string(),
        (0, one_of) => format!("up to {one_of}"),
        (flows, one_of) => format!("{flows} to {}", flows + one_of),
    }
}

/// Hosts and switches with the ports by which packets leave: `h1 mlx5_0/1, leaf1 3, h2`.
pub(super) fn path(path: &Path) -> String {
    let last = path.ports.len().saturating_sub(1);
    let port = |(at, port): (usize, &crate::model::PathPort)| match port.port.as_str() {
        _ if at == last => port.node.clone(),
        // `?PEER` stands for an unknown port.
        unknown if unknown.starts_with('?') => format!("{} ?", port.node),
        known => format!("{} {known}", port.node),
    };
    path.ports.iter().enumerate().map(port).collect::<Vec<_>>().join(", ")
}

/// How many paths are known, how, and what the links between switches carry.
pub(super) fn sentences(paths: &Paths) -> Vec<String> {
    let Paths {
        flows, known, one_of, sources, unknown, unread_hosts, other_unread_hosts, later_seconds, shared, ..
    } = paths;
    let list = |counts: &[FlowCount]| {
        counts.iter().map(|count| format!("{} {}", count.flows, count.text)).collect::<Vec<_>>().join(", ")
    };
    let mut head = format!("The job's queue pairs make {flows} flows; the path of {known} is known");
    if !sources.is_empty() {
        head += &format!(" ({})", list(sources));
    }
    let mut lines = vec![head + "."];
    if *one_of > 0 {
        lines.push(format!(
            "{one_of} flows take one of several paths: which links between switches they share is not known."
        ));
    }
    if !unknown.is_empty() {
        let reasons: Vec<String> = unknown.iter().map(|count| format!("{}: {}", count.flows, count.text)).collect();
        lines.push(format!("Not known, by the number of flows: {}.", reasons.join("; ")));
    }
    for (hosts, of) in [(unread_hosts, "this job"), (other_unread_hosts, "other jobs")] {
        if *hosts > 0 {
            lines.push(format!("The queue pairs of {hosts} hosts of {of} were not read: there are too many."));
        }
    }
    if *later_seconds >= LATER {
        let later = words::duration(*later_seconds as f64);
        lines.push(format!("Paths are those of {later} after the job's end; routes may have changed since."));
    }
    if shared.is_empty() && *known > 0 {
        lines.push(
            "No link between switches is known to carry flows of several ports of the job, or of other jobs.".into(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PathPort;

    #[test]
    fn flows_and_paths_are_words() {
        let of = |flows, one_of| link_flows(LinkFlows { flows, one_of });
        assert_eq!([of(12, 0), of(0, 3), of(12, 3), of(0, 0)], ["12", "up to 3", "12 to 15", "0"]);
        let port = |(node, port): (&str, &str)| PathPort { node: node.into(), port: port.into() };
        let ports = [("h1", "mlx5_0/1"), ("leaf1", "3"), ("switch 10.0.0.1", "?leaf2"), ("h2", "mlx5_0/1")].map(port);
        let ports = ports.to_vec();
        assert_eq!(path(&Path { ports, known: String::new() }), "h1 mlx5_0/1, leaf1 3, switch 10.0.0.1 ?, h2");
    }
}
