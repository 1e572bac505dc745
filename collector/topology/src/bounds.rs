//! What one host or switch, one sender, and all together may add to the topology. Ports come from series, which anybody may send
//! who may send samples; a topology is many times larger in memory than the series that it is made of.

use std::collections::HashMap;
use std::sync::Arc;

use fabriclens_base::{host_name, is_large_share, open_to_unbound};
use fabriclens_core::host_senders::HostSenders;

/// Most ports of one host or switch, and of all.
pub(super) const OF_NODE: usize = 4096;
pub(super) const PORTS: usize = 1 << 18;
/// Most bytes of their names, likewise.
const BYTES_OF_NODE: usize = 1 << 20;
const BYTES: usize = 64 << 20;
/// Longest name, bytes: LLDP allows 255, and so do host names.
const NAME: usize = 255;

/// Bytes of the names of a port; `None` if one is too long.
pub(super) fn bytes(names: &[&str]) -> Option<usize> {
    let all_fit = names.iter().all(|name| name.len() <= NAME);
    all_fit.then(|| names.iter().map(|name| name.len()).sum())
}

#[derive(Clone, Copy, Default)]
struct Amount {
    ports: usize,
    bytes: usize,
}

impl Amount {
    /// The amount with a port of `new` bytes in place of one of `old` (`None`: of none).
    fn with(self, old: Option<usize>, new: usize) -> Self {
        let bytes = (self.bytes + new).saturating_sub(old.unwrap_or(0));
        Self { ports: self.ports + usize::from(old.is_none()), bytes }
    }

    fn is_within(self, ports: usize, bytes: usize) -> bool {
        self.ports <= ports && self.bytes <= bytes
    }

    /// Whether a sender bound to no host may have so much, of which all have `all` then.
    fn is_share_of(self, all: Self) -> bool {
        let may = |limit, own, all| is_large_share(open_to_unbound(limit), own, all);
        may(PORTS, self.ports, all.ports) && may(BYTES, self.bytes, all.bytes)
    }
}

/// What is remembered of each host or switch, of each sender bound to no host, and of all.
#[derive(Default)]
pub(super) struct NodeUsage {
    all: Amount,
    of: HashMap<String, Amount>,
    of_sender: HashMap<Arc<str>, Amount>,
    senders: HostSenders,
}

impl NodeUsage {
    /// Nothing yet; `senders` tell the nodes.
    pub(super) fn new(senders: &HostSenders) -> Self {
        Self { senders: senders.clone(), ..Self::default() }
    }

    /// Counts a port of a node, in place of one of `old` bytes (`None`: a new one), if it fits. Returns whether it did.
    pub(super) fn take(&mut self, node: &str, old: Option<usize>, new: usize) -> bool {
        let sender = self.senders.of(node);
        // Who may write for a host may write its name in any case.
        let node = host_name::key(node);
        let of = self.of.get(&node).copied().unwrap_or_default().with(old, new);
        let all = self.all.with(old, new);
        let own = sender.map(|sender| {
            let own = self.of_sender.get(&sender).copied().unwrap_or_default().with(old, new);
            (sender, own)
        });
        let fits = of.is_within(OF_NODE, BYTES_OF_NODE) && all.is_within(PORTS, BYTES);
        let is_growth = old.is_none_or(|old| old < new);
        if is_growth && !(fits && own.iter().all(|(_, own)| own.is_share_of(all))) {
            return false;
        }
        self.of.insert(node, of);
        self.of_sender.extend(own);
        self.all = all;
        true
    }
}

/// Logs that ports are left out, once until all fit again.
#[derive(Default)]
pub(super) struct BeyondLog(bool);

impl BeyondLog {
    /// Tells of a host or switch with such ports, or that there is none.
    pub(super) fn tell(&mut self, node: Option<String>) {
        if let Some(node) = &node
            && !self.0
        {
            tracing::warn!(
                node,
                "ports are left out of the topology: {OF_NODE} of one host or switch, {PORTS} of all of which one sender may fill a part, and names of {NAME} bytes fit; look at its fabric_port_info or fabric_port_neighbor_info"
            );
        }
        self.0 = node.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_base::Sender;

    /// How many ports of this size a node may add.
    fn fill(usage: &mut NodeUsage, node: &str, bytes: usize) -> usize {
        (0..=PORTS).take_while(|_| usage.take(node, None, bytes)).count()
    }

    #[test]
    fn one_sender_that_invents_hosts_cannot_fill_the_topology() {
        let senders = HostSenders::default();
        let mut usage = NodeUsage::new(&senders);
        let mut fill_as = |sender: Sender<'_>, name: &str| -> usize {
            let hosts = (0..=PORTS / OF_NODE).map(|n| format!("{name}{n}"));
            hosts.inspect(|host| senders.tells(sender, host)).map(|host| fill(&mut usage, &host, 1)).sum()
        };
        let open = PORTS - PORTS / 4;
        let first = fill_as(Sender::Unbound("a"), "a");
        assert_eq!(first, open * 8 / 9);
        assert_eq!(fill_as(Sender::Unbound("b"), "b"), (open - first) * 8 / 9);
        assert!(fill_as(Sender::Bound, "bound") > PORTS / 4, "the rest is for hosts that speak for themselves");
    }

    #[test]
    fn one_node_cannot_fill_the_topology() {
        let senders = HostSenders::default();
        (0..100)
            .map(|n| n.to_string())
            .chain(["a".into(), "b".into()])
            .for_each(|host| senders.tells(Sender::Bound, &host));
        let mut usage = NodeUsage::new(&senders);
        assert_eq!((fill(&mut usage, "a", 100), fill(&mut usage, "a", 1)), (OF_NODE, 0));
        assert!(usage.take("a", Some(100), 90) && !usage.take("A", None, 1), "a smaller name makes no place");
        assert_eq!(fill(&mut usage, "b", 1024), 1024, "a megabyte of names");
        assert!(!usage.take("b", Some(1024), 1025));
        assert_eq!((bytes(&["x"; 3]), bytes(&["x", &"y".repeat(NAME + 1)])), (Some(3), None));
        let all: usize = (0..100).map(|node| fill(&mut usage, &node.to_string(), 10)).sum();
        assert_eq!(all, PORTS - OF_NODE - 1024, "and all nodes together fill it");
    }
}
