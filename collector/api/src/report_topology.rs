//! What a report needs of the topology: leaf switches of hosts, and the links that a job's traffic may take.

use fabriclens_correlate::Topology;
use fabriclens_correlate::topology::{Link, LinkEnd, Provenance, Role};
use fabriclens_jobs::Job;
use fabriclens_report::{Leaves, Link as ReportLink, LinkEnd as ReportEnd};
use std::collections::HashSet;

/// Leaf switches of hosts.
pub(super) fn leaves(topology: &Topology) -> Leaves {
    let mut leaves = Leaves::new();
    for (host, leaf) in cables(topology).flat_map(|link| hosts(topology, link)) {
        let [host, leaf] = [host, leaf].map(|end| topology.nodes[end.node].name.clone());
        leaves.entry(host).or_default().insert(leaf);
    }
    leaves
}

/// Cables of the job's devices, and those from their leaf switches to other switches.
pub(super) fn links(topology: &Topology, job: &Job) -> Vec<ReportLink> {
    let is_jobs = |host: &LinkEnd| {
        let device = host.port.split_once('/').map_or(&*host.port, |(device, _)| device);
        let devices = job.hosts.get(&topology.nodes[host.node].name).map(|host| &host.devices);
        devices.is_some_and(|devices| devices.is_empty() || devices.iter().any(|own| own == device))
    };
    let own = |link: &Link| hosts(topology, link).find(|(host, _)| is_jobs(host)).map(|(_, leaf)| leaf.node);
    let leaves: HashSet<usize> = cables(topology).filter_map(own).collect();
    let between = |link: &Link| {
        link.ends.iter().all(|end| is_switch(topology, end)) && link.ends.iter().any(|end| leaves.contains(&end.node))
    };
    let wanted = cables(topology).filter(|link| own(link).is_some() || between(link));
    wanted.map(|link| report_link(topology, link)).collect()
}

/// A link as reports name it.
pub(super) fn report_link(topology: &Topology, link: &Link) -> ReportLink {
    let end = |end: &LinkEnd| ReportEnd {
        node: topology.nodes[end.node].name.clone(),
        port: (!end.is_unknown()).then(|| end.port.clone()),
        is_switch: is_switch(topology, end),
    };
    ReportLink { ends: link.ends.each_ref().map(end) }
}

/// Links that are known; those inferred from rails do not count.
fn cables(topology: &Topology) -> impl Iterator<Item = &Link> {
    topology.links.iter().filter(|link| link.known != Provenance::Inferred)
}

fn is_switch(topology: &Topology, end: &LinkEnd) -> bool {
    topology.nodes[end.node].role != Role::Host
}

/// Host and switch of a link, if it has one of each.
fn hosts<'a>(topology: &'a Topology, link: &'a Link) -> impl Iterator<Item = (&'a LinkEnd, &'a LinkEnd)> {
    let [a, b] = &link.ends;
    let pairs = [(a, b), (b, a)].into_iter();
    pairs.filter(move |(host, leaf)| !is_switch(topology, host) && is_switch(topology, leaf))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::topology::Node;
    use fabriclens_jobs::{HostAllocation, JobKey, JobRecord, Source};

    fn job(host: &str, devices: &[&str]) -> Job {
        let devices = devices.iter().map(|device| (*device).to_owned()).collect();
        let record = JobRecord {
            start_ns: Some(1),
            hosts: [(host.to_owned(), HostAllocation { devices, pids: Vec::new() })].into(),
            ..JobRecord::default()
        };
        Job::from_records(&JobKey { cluster: String::new(), id: "1".into() }, 1, &[(Source::Http, record)].into())
    }

    #[test]
    fn links_are_those_of_the_jobs_devices_and_their_leaves() {
        let node = |(name, role): &(&str, Role)| Node { name: (*name).to_owned(), role: *role };
        let nodes = [
            ("h1", Role::Host),
            ("h2", Role::Host),
            ("leaf1", Role::Leaf),
            ("leaf2", Role::Leaf),
            ("spine", Role::Spine),
        ];
        let end = |node, port: &str| LinkEnd { node, port: port.to_owned() };
        let mut cables = vec![
            Link::new([end(0, "mlx5_0/1"), end(2, "swp1")], None),
            Link::new([end(3, "swp1"), end(0, "mlx5_1/1")], None),
            Link::new([end(1, "mlx5_0/1"), end(3, "swp2")], None),
            Link::new([end(2, "swp9"), end(4, "Ethernet0")], None),
            Link::new([end(4, "Ethernet4"), end(3, "swp9")], None),
            Link::new([end(1, "mlx5_1/1"), end(2, "swp2")], None),
        ];
        cables[5].known = Provenance::Inferred;
        let topology = Topology::new(nodes.iter().map(node).collect(), cables);
        let of = |job: &Job| -> Vec<String> {
            let name = |end: &ReportEnd| {
                format!(
                    "{} {}{}",
                    end.node,
                    end.port.as_deref().unwrap_or_default(),
                    if end.is_switch { "!" } else { "" }
                )
            };
            links(&topology, job).iter().map(|link| link.ends.each_ref().map(name).join(" - ")).collect()
        };
        let own = ["h1 mlx5_0/1 - leaf1 swp1!", "leaf1 swp9! - spine Ethernet0!"];
        assert_eq!(of(&job("h1", &["mlx5_0"])), own);
        assert_eq!(of(&job("h1", &[])).len(), 4, "all devices of the host, on two leaves");
        assert_eq!(of(&job("h2", &[])), ["h2 mlx5_0/1 - leaf2 swp2!", "spine Ethernet4! - leaf2 swp9!"]);
        assert_eq!(leaves(&topology)["h2"], HashSet::from(["leaf2".to_owned()]));
    }
}
