//! A made-up fat tree of InfiniBand: leaves with 32 hosts and 32 uplinks, spines with 64 ports.

/// Ports of a switch.
pub const RADIX: usize = 64;
/// Hosts, and uplinks, of a leaf.
pub const HALF: usize = RADIX / 2;

/// Nodes and cables.
#[derive(Clone, Copy)]
pub struct Tree {
    /// Even, so that all ports of the spines have a cable.
    leaves: usize,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Adapter with one port.
    Host(usize),
    Leaf(usize),
    Spine(usize),
}

impl Tree {
    /// The tree with at most this number of switch ports, and at least two leaves.
    pub fn new(ports: usize) -> Self {
        // A leaf has its ports and half a spine.
        Self { leaves: (ports / (RADIX + HALF) / 2 * 2).max(2) }
    }

    /// Number of switch ports; all have a cable.
    pub fn ports(self) -> usize {
        (self.leaves + self.spines()) * RADIX
    }

    /// Number of switches.
    pub fn switches(self) -> usize {
        self.leaves + self.spines()
    }

    /// Number of hosts.
    pub fn hosts(self) -> usize {
        self.leaves * HALF
    }

    fn spines(self) -> usize {
        self.leaves / 2
    }

    /// Port at the other end of the cable; `None` for ports that do not exist.
    pub fn neighbor(self, node: Node, port: usize) -> Option<(Node, usize)> {
        let at = port.checked_sub(1)?;
        match node {
            Node::Host(host) if at == 0 => Some((Node::Leaf(host / HALF), host % HALF + 1)),
            Node::Host(_) => None,
            Node::Leaf(leaf) if at < HALF => Some((Node::Host(leaf * HALF + at), 1)),
            Node::Leaf(leaf) if at < RADIX => {
                let cable = leaf * HALF + at - HALF;
                Some((Node::Spine(cable % self.spines()), cable / self.spines() + 1))
            }
            Node::Spine(spine) if at < RADIX => {
                let cable = at * self.spines() + spine;
                Some((Node::Leaf(cable / HALF), HALF + cable % HALF + 1))
            }
            Node::Leaf(_) | Node::Spine(_) => None,
        }
    }

    /// The node at the end of a route from the first host, and the port by which the route comes in.
    pub fn walk(self, route: &[u8]) -> Option<(Node, usize)> {
        route.iter().try_fold((Node::Host(0), 1), |(node, _), port| self.neighbor(node, usize::from(*port)))
    }

    /// Number of a node: switches first, from 1. It is the LID.
    pub fn number(self, node: Node) -> usize {
        match node {
            Node::Leaf(leaf) => 1 + leaf,
            Node::Spine(spine) => 1 + self.leaves + spine,
            Node::Host(host) => 1 + self.switches() + host,
        }
    }

    /// The node with a number.
    pub fn of_number(self, number: usize) -> Option<Node> {
        let at = number.checked_sub(1)?;
        if at < self.leaves {
            Some(Node::Leaf(at))
        } else if at < self.switches() {
            Some(Node::Spine(at - self.leaves))
        } else {
            Some(at - self.switches()).filter(|host| *host < self.hosts()).map(Node::Host)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cable_has_two_ends() {
        let tree = Tree::new(1000);
        assert_eq!((tree.ports(), tree.switches(), tree.hosts()), (960, 15, 320));
        let mut ports = 0;
        for node in (1..=tree.switches()).map(|number| tree.of_number(number).unwrap()) {
            for port in 1..=RADIX {
                let (far, far_port) = tree.neighbor(node, port).unwrap();
                assert_eq!(tree.neighbor(far, far_port), Some((node, port)));
                ports += 1;
            }
            assert_eq!((tree.neighbor(node, 0), tree.neighbor(node, RADIX + 1)), (None, None));
        }
        assert_eq!(ports, tree.ports());
    }

    #[test]
    fn numbers_and_routes_lead_to_their_nodes() {
        let tree = Tree::new(10_000);
        assert_eq!((tree.ports(), tree.hosts()), (9_984, 3_328));
        for number in 1..=tree.switches() + tree.hosts() {
            assert_eq!(tree.of_number(number).map(|node| tree.number(node)), Some(number));
        }
        assert_eq!(tree.of_number(tree.switches() + tree.hosts() + 1), None);
        assert_eq!(tree.walk(&[]), Some((Node::Host(0), 1)));
        assert_eq!(tree.walk(&[1, 2]), Some((Node::Host(1), 1)));
        assert_eq!(tree.walk(&[1, 33]), Some((Node::Spine(0), 1)));
        assert_eq!(tree.walk(&[2]), None);
    }
}
