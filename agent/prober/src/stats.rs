//! What a port's probes add up to, for its series.

use crate::histogram::Times;
use crate::refusal::Counts;
use fabriclens_probe_plan::{PairClass, ProbeResult, ProbeTransport};

/// Classes of pairs with their label values.
pub const CLASSES: [(PairClass, &str); 4] = [
    (PairClass::Unknown, "unknown"),
    (PairClass::SameLeaf, "same_leaf"),
    (PairClass::CrossLeaf, "cross_leaf"),
    (PairClass::Job, "job"),
];

/// Transports with their label values.
pub const TRANSPORTS: [(ProbeTransport, &str); 3] = [
    (ProbeTransport::Rdma, "rdma"),
    (ProbeTransport::RdmaSoftwareTime, "rdma_software_time"),
    (ProbeTransport::Tcp, "tcp"),
];

/// Reasons why a probe has no result, with their label values.
pub const DISCARDS: [&str; 5] = ["own_host_stalled", "half_answered", "not_sent", "no_route", "limit"];

/// Probes of one class and transport.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairStats {
    /// Probes with a result.
    pub probes: u64,
    /// Of them, those without an answer in time.
    pub lost: u64,
    /// Round trips on the network.
    pub rtt: Times,
}

/// Sums of a port since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct PortStats {
    /// By class and transport, in the order of [`CLASSES`] and [`TRANSPORTS`].
    pub pairs: [[PairStats; TRANSPORTS.len()]; CLASSES.len()],
    /// Delays of the own host.
    pub own: Times,
    /// Delays of the hosts that answered.
    pub turn: Times,
    /// Refused datagrams.
    pub refused: Counts,
    /// Probes without a result, in the order of [`DISCARDS`].
    pub discarded: [u64; DISCARDS.len()],
    /// Probes of others that were answered.
    pub answered: u64,
    /// Share of the planned rate at which the port probes.
    pub share: f64,
}

impl Default for PortStats {
    fn default() -> Self {
        Self {
            pairs: Default::default(),
            own: Times::default(),
            turn: Times::default(),
            refused: Counts::default(),
            discarded: Default::default(),
            answered: 0,
            share: 1.0,
        }
    }
}

impl PortStats {
    /// Adds a result of this class of pairs.
    pub fn add(&mut self, class: i32, result: &ProbeResult) {
        let position = |wanted: i32| CLASSES.iter().position(|row| row.0 as i32 == wanted).unwrap_or(0);
        let transport = TRANSPORTS.iter().position(|row| row.0 as i32 == result.transport);
        let Some(pair) = transport.and_then(|transport| self.pairs.get_mut(position(class))?.get_mut(transport)) else {
            return;
        };
        pair.probes += 1;
        match result.rtt_ns {
            Some(rtt) => pair.rtt.add(rtt),
            None => pair.lost += 1,
        }
        if result.transport != ProbeTransport::Tcp as i32 && result.rtt_ns.is_some() {
            self.own.add(result.own_ns);
            result.turn_ns.iter().for_each(|turn| self.turn.add(*turn));
        }
    }

    /// Counts a probe without a result.
    pub fn discard(&mut self, reason: &str) {
        for (name, count) in DISCARDS.iter().zip(&mut self.discarded) {
            *count += u64::from(*name == reason);
        }
    }

    /// Probes without a result for this reason.
    #[cfg(test)]
    pub fn discarded_for(&self, reason: &str) -> u64 {
        DISCARDS.iter().zip(self.discarded).find(|row| *row.0 == reason).map_or(0, |row| row.1)
    }
}
