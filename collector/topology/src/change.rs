//! The difference between two versions of the topology, as one log line.

use std::collections::BTreeMap;

use fabriclens_correlate::topology::{Contradiction, Link};
use fabriclens_correlate::{Role, Topology};

/// Most examples of each kind in the line.
const EXAMPLES: usize = 5;

/// Difference between two versions.
pub(super) struct Change {
    cables: usize,
    added: Vec<String>,
    removed: Vec<String>,
    moved: Vec<String>,
    /// Contradictions that are new.
    contradictions: Vec<Contradiction>,
}

/// Far end of each cable by its near end; the near end is a host if one of the two is.
fn by_end(topology: &Topology) -> BTreeMap<String, String> {
    let link = |link: &Link| {
        let name = |n: usize| format!("{} {}", topology.nodes[link.ends[n].node].name, link.ends[n].port);
        let host = |n: usize| topology.nodes[link.ends[n].node].role == Role::Host;
        let swap = if host(0) == host(1) { name(1) < name(0) } else { host(1) };
        if swap { (name(1), name(0)) } else { (name(0), name(1)) }
    };
    topology.links.iter().map(link).collect()
}

impl Change {
    pub(super) fn between(old: &Topology, new: &Topology) -> Self {
        let (before, after) = (by_end(old), by_end(new));
        let mut change = Self {
            cables: new.links.len(),
            added: Vec::new(),
            removed: Vec::new(),
            moved: Vec::new(),
            contradictions: new.contradictions.iter().filter(|c| !old.contradictions.contains(c)).cloned().collect(),
        };
        for (end, far) in &after {
            match before.get(end) {
                None => change.added.push(format!("{end} - {far}")),
                Some(was) if was != far => change.moved.push(format!("{end} - {was} -> {far}")),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|(end, _)| !after.contains_key(*end));
        change.removed.extend(gone.map(|(end, far)| format!("{end} - {far}")));
        change
    }

    pub(super) fn log(&self) {
        let all = [("added", &self.added), ("removed", &self.removed), ("moved", &self.moved)];
        let examples: Vec<String> = all
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| {
                let more = if list.len() > EXAMPLES { ", …" } else { "" };
                format!("{name} {}{more}", list[..list.len().min(EXAMPLES)].join(", "))
            })
            .collect();
        let (cables, added, removed, moved) = (self.cables, self.added.len(), self.removed.len(), self.moved.len());
        tracing::info!(cables, added, removed, moved, cables_of = %examples.join("; "), "topology changed");
        for one in self.contradictions.iter().take(EXAMPLES) {
            tracing::warn!(new = self.contradictions.len(), contradiction = %one, "topology sources contradict each other");
        }
    }
}

#[cfg(test)]
impl Change {
    pub(super) fn counts(&self) -> [usize; 4] {
        [self.added.len(), self.removed.len(), self.moved.len(), self.contradictions.len()]
    }
}
