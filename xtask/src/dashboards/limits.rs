//! The detectors' numbers that panels and alerts show. They live in `collector/correlate`, which is not built to write
//! dashboards; the test below holds these to those.

/// A number that a detector compares with.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// As in docs/verdicts.md.
    pub name: &'static str,
    pub at: f64,
}

const fn limit(name: &'static str, at: f64) -> Limit {
    Limit { name, at }
}

pub const PAUSED: Limit = limit("host_pause.held", 0.01);
pub const PAUSED_ESTIMATED: Limit = limit("host_pause.held_estimated", 0.1);
pub const STORM: Limit = limit("host_pause.dead", 0.95);
pub const STANDS_STILL: Limit = limit("host_pause.still", 0.02);
pub const WAITS: Limit = limit("credits.held", 0.05);
pub const WAITS_HOT: Limit = limit("credits_hot.held", 0.2);
pub const RATE_FELL: Limit = limit("degraded_link.rate", 0.9);
pub const MENDED: Limit = limit("degraded_link.mended", 10.0);
pub const MENDED_LEAST: Limit = limit("degraded_link.mended_least", 100.0);
pub const ERRORS: Limit = limit("lossy_link.errors", 2.0);
pub const BER_12M: Limit = limit("lossy_link.ber_12m", 1e-14);
pub const BER_125M: Limit = limit("lossy_link.ber_125m", 1e-15);
pub const FLAPS_10M: Limit = limit("link_flap.in_10m", 3.0);
pub const FLAPS_24H: Limit = limit("link_flap.in_24h", 5.0);
pub const PCIE_TRAINED: Limit = limit("pcie.trained", 0.9);
pub const PCIE_STALLED: Limit = limit("pcie.stalled", 0.2);
pub const MODULE_HOT: Limit = limit("optics.temperature", 70.0);
pub const LIGHT: Limit = limit("optics.light", -11.0);
pub const MOVES: Limit = limit("ecn_marking.moves", 0.3);
pub const TIMEOUTS: Limit = limit("transport.timeouts", 3.0);
pub const TIMEOUTS_MORE: Limit = limit("transport.more", 3.0);
pub const GAVE_UP: Limit = limit("transport.retries_exceeded", 1.0);
pub const RETRANSMITS: Limit = limit("transport.retransmits", 0.02);
pub const RDMA_LEFT: Limit = limit("tcp_fallback.rdma_left", 0.1);
pub const TCP_GROWN: Limit = limit("tcp_fallback.tcp_grown", 0.1);

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Limit; 25] = [
        PAUSED,
        PAUSED_ESTIMATED,
        STORM,
        STANDS_STILL,
        WAITS,
        WAITS_HOT,
        RATE_FELL,
        MENDED,
        MENDED_LEAST,
        ERRORS,
        BER_12M,
        BER_125M,
        FLAPS_10M,
        FLAPS_24H,
        PCIE_TRAINED,
        PCIE_STALLED,
        MODULE_HOT,
        LIGHT,
        MOVES,
        TIMEOUTS,
        TIMEOUTS_MORE,
        GAVE_UP,
        RETRANSMITS,
        RDMA_LEFT,
        TCP_GROWN,
    ];

    #[test]
    fn they_are_those_of_the_detectors() {
        for ours in ALL {
            let theirs = fabriclens_correlate::detectors::thresholds().find(|l| l.name == ours.name);
            assert_eq!(theirs.map(|l| l.default), Some(ours.at), "{}", ours.name);
        }
    }
}
