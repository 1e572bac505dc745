//! Which links of the fabric, in each direction, traced paths cross.

use std::collections::HashMap;

use fabriclens_correlate::{PortName, Role, Topology};
use serde::Serialize;

/// How long a traced path counts, nanoseconds: agents report each path again within minutes.
const COUNTS_NS: i64 = 1_800_000_000_000;

/// Directions of links that traced paths cross, and all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Between switches: crossed.
    pub between_switches: usize,
    /// Between switches: all that the topology knows.
    pub all_between_switches: usize,
    /// At hosts: crossed.
    pub at_hosts: usize,
    /// At hosts: all that the topology knows.
    pub all_at_hosts: usize,
}

/// When each egress port was last crossed, Unix nanoseconds.
#[derive(Default)]
pub(crate) struct Crossed(HashMap<PortName, i64>);

impl Crossed {
    /// Notes a path.
    pub fn note(&mut self, hops: &[PortName], at_ns: i64) {
        for hop in hops {
            match self.0.get_mut(hop) {
                Some(last) => *last = at_ns.max(*last),
                None => _ = self.0.insert(hop.clone(), at_ns),
            }
        }
    }

    /// Counts the links of a topology; forgets what is old.
    pub fn coverage(&mut self, topology: &Topology, now_ns: i64) -> Coverage {
        self.0.retain(|_, at_ns| at_ns.saturating_add(COUNTS_NS) > now_ns);
        let mut coverage = Coverage::default();
        for link in &topology.links {
            let is_host = link.ends.iter().any(|end| topology.nodes[end.node].role == Role::Host);
            let (crossed, all) = if is_host {
                (&mut coverage.at_hosts, &mut coverage.all_at_hosts)
            } else {
                (&mut coverage.between_switches, &mut coverage.all_between_switches)
            };
            for end in &link.ends {
                let name = PortName { node: topology.nodes[end.node].name.clone(), port: end.port.clone() };
                *all += 1;
                *crossed += usize::from(self.0.contains_key(&name));
            }
        }
        coverage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::{Link, LinkEnd, Node};

    #[test]
    fn each_direction_counts_while_its_trace_is_recent() {
        let node = |name: &str, role| Node { name: name.to_owned(), role };
        let end = |node, port: &str| LinkEnd { node, port: port.to_owned() };
        let nodes = vec![node("h1", Role::Host), node("leaf", Role::Leaf), node("spine", Role::Spine)];
        let links = vec![
            Link::new([end(0, "p"), end(1, "1")], None),
            Link::new([end(1, "2"), end(2, "1")], None),
            Link::new([end(1, "3"), end(2, "2")], None),
        ];
        let topology = Topology::new(nodes, links);
        let port = |node: &str, port: &str| PortName { node: node.into(), port: port.into() };
        let mut crossed = Crossed::default();
        crossed.note(&[port("h1", "p"), port("leaf", "2"), port("gone", "1")], 100);
        crossed.note(&[port("spine", "1")], 1);
        let both = |at_hosts, between_switches| Coverage {
            between_switches,
            all_between_switches: 4,
            at_hosts,
            all_at_hosts: 2,
        };
        assert_eq!(crossed.coverage(&topology, 200), both(1, 2));
        assert_eq!(crossed.coverage(&topology, COUNTS_NS + 50), both(1, 1));
        assert_eq!(crossed.coverage(&topology, COUNTS_NS + 100), both(0, 0));
    }
}
