//! What the logs of a job have told so far.

use fabriclens_agent_collectives::log::{Event, EventKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most networks, devices and queue pairs that are kept of a job.
const NETWORKS: usize = 8;
const DEVICES: usize = 64;
const PAIRS: usize = 16;

/// Totals of a job.
#[derive(Debug, Default)]
pub struct JobLog {
    /// Lines by kind and device.
    pub events: BTreeMap<(EventKind, String), u64>,
    /// Networks that the library chose.
    pub networks: BTreeSet<String>,
    /// The last slow and failed work requests with a queue pair.
    pub pairs: VecDeque<Pair>,
}

/// Queue pair of a slow or failed work request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Kind of the line.
    pub kind: EventKind,
    /// RDMA device; empty if unknown.
    pub device: String,
    /// Its number, and that of its peer, empty if unknown.
    pub local: String,
    /// Number of the remote queue pair.
    pub remote: String,
    /// Address of the peer.
    pub peer: String,
}

impl JobLog {
    /// Takes an event into account.
    pub fn add(&mut self, event: &Event) {
        let text = |name: &str| event.field(name).filter(|text| is_plain(text)).unwrap_or_default().to_owned();
        if event.kind == EventKind::Network && self.networks.len() < NETWORKS {
            self.networks.extend(Some(text("network")).filter(|network| !network.is_empty()));
        }
        let mut key = (event.kind, text("device"));
        if self.events.len() >= DEVICES && !self.events.contains_key(&key) {
            key.1.clear();
        }
        *self.events.entry(key).or_default() += 1;
        let local = text("local_qp");
        if !local.is_empty() {
            let (device, remote, peer) = (text("device"), text("remote_qp"), text("peer"));
            let pair = Pair { kind: event.kind, device, local, remote, peer };
            self.pairs.retain(|known| *known != pair);
            self.pairs.push_back(pair);
            if self.pairs.len() > PAIRS {
                self.pairs.pop_front();
            }
        }
    }
}

/// Whether a text may be a name, a number or an address, which becomes a label.
fn is_plain(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || ".:_-%/".contains(c))
}
