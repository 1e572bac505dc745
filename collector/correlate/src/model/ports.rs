//! Ports and their cables. A port keeps its index while the fabric grows and is rewired.

use crate::model::topology::{Link, LinkEnd, Topology};
use std::collections::HashMap;

/// A port that is measured or has a cable.
#[derive(Clone, Debug)]
pub struct Port {
    /// Node and port name.
    pub end: LinkEnd,
    /// Index of the port at the other end of its cable.
    pub peer: Option<usize>,
    /// Index of its link.
    pub link: Option<usize>,
}

/// All ports, by index.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// In no order. Removed ports stay as unused entries without samples.
    pub list: Vec<Port>,
    index: HashMap<LinkEnd, usize>,
    by_node: Vec<Vec<usize>>,
    by_link: Vec<[usize; 2]>,
    /// Indices of removed ports, for reuse.
    free: Vec<usize>,
    added: u64,
}

impl Ports {
    /// The ports of a topology's links.
    pub fn new(topology: &Topology) -> Self {
        let mut ports = Self::default();
        ports.wire(&topology.links);
        ports
    }

    /// Index of the port at a link end.
    pub fn at(&self, end: &LinkEnd) -> Option<usize> {
        self.index.get(end).copied()
    }

    /// Ports of a node.
    pub fn of_node(&self, node: usize) -> &[usize] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Ports at the two ends of a link of the topology that was wired.
    pub fn of_link(&self, link: usize) -> &[usize] {
        self.by_link.get(link).map_or(&[], |ends| ends)
    }

    /// Index of the port at a link end, which is added if it is new.
    pub(crate) fn add(&mut self, end: &LinkEnd) -> usize {
        if let Some(port) = self.at(end) {
            return port;
        }
        let new = Port { end: end.clone(), peer: None, link: None };
        let port = self.free.pop().unwrap_or(self.list.len());
        match self.list.get_mut(port) {
            Some(gone) => *gone = new,
            None => self.list.push(new),
        }
        self.index.insert(end.clone(), port);
        if self.by_node.len() <= end.node {
            self.by_node.resize_with(end.node + 1, Vec::new);
        }
        self.by_node[end.node].push(port);
        self.added += 1;
        port
    }

    /// Indices of all ports that are not removed.
    pub(crate) fn known(&self) -> impl Iterator<Item = usize> + '_ {
        self.index.values().copied()
    }

    /// How many ports were ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Removes a port that has no cable.
    pub(super) fn remove(&mut self, port: usize) {
        let end = &self.list[port].end;
        self.by_node[end.node].retain(|other| *other != port);
        if self.index.remove(end).is_some() {
            self.free.push(port);
        }
    }

    /// Replaces all cables.
    pub(super) fn wire(&mut self, links: &[Link]) {
        for port in &mut self.list {
            (port.peer, port.link) = (None, None);
        }
        self.by_link.clear();
        for (at, link) in links.iter().enumerate() {
            let [a, b] = link.ends.each_ref().map(|end| self.add(end));
            (self.list[a].peer, self.list[a].link) = (Some(b), Some(at));
            (self.list[b].peer, self.list[b].link) = (Some(a), Some(at));
            self.by_link.push([a, b]);
        }
    }
}
