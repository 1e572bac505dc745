//! Detector thresholds that panels and alerts use. They are copies of those in `collector/correlate`, so that xtask need not
//! build it; a test compares them.

/// A detector threshold.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// Name in docs/verdicts.md.
    pub name: &'static str,
    pub at: f64,
}

const fn threshold(name: &'static str, at: f64) -> Threshold {
    Threshold { name, at }
}

pub const PAUSED: Threshold = threshold("host_pause.held", 0.01);
pub const PAUSED_ESTIMATED: Threshold = threshold("host_pause.held_estimated", 0.1);
pub const STORM: Threshold = threshold("host_pause.dead", 0.95);
pub const STANDS_STILL: Threshold = threshold("host_pause.still", 0.02);
pub const WAITS: Threshold = threshold("credits.held", 0.05);
pub const WAITS_HOT: Threshold = threshold("credits_hot.held", 0.2);
pub const RATE_FELL: Threshold = threshold("degraded_link.rate", 0.9);
pub const MENDED: Threshold = threshold("degraded_link.mended", 10.0);
pub const MENDED_LEAST: Threshold = threshold("degraded_link.mended_least", 100.0);
pub const ERRORS: Threshold = threshold("lossy_link.errors", 2.0);
pub const BER_12M: Threshold = threshold("lossy_link.ber_12m", 1e-14);
pub const BER_125M: Threshold = threshold("lossy_link.ber_125m", 1e-15);
pub const FLAPS_10M: Threshold = threshold("link_flap.in_10m", 3.0);
pub const FLAPS_24H: Threshold = threshold("link_flap.in_24h", 5.0);
pub const PCIE_TRAINED: Threshold = threshold("pcie.trained", 0.9);
pub const PCIE_STALLED: Threshold = threshold("pcie.stalled", 0.2);
pub const MODULE_HOT: Threshold = threshold("optics.temperature", 70.0);
pub const LIGHT: Threshold = threshold("optics.light", -11.0);
pub const TIMEOUTS: Threshold = threshold("transport.timeouts", 3.0);
pub const TIMEOUTS_MORE: Threshold = threshold("transport.more", 3.0);
pub const GAVE_UP: Threshold = threshold("transport.retries_exceeded", 1.0);
pub const RETRANSMITS: Threshold = threshold("transport.retransmits", 0.02);
pub const RDMA_LEFT: Threshold = threshold("tcp_fallback.rdma_left", 0.1);
pub const TCP_GROWN: Threshold = threshold("tcp_fallback.tcp_grown", 0.1);

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Threshold; 24] = [
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
        TIMEOUTS,
        TIMEOUTS_MORE,
        GAVE_UP,
        RETRANSMITS,
        RDMA_LEFT,
        TCP_GROWN,
    ];

    #[test]
    fn thresholds_are_those_of_the_detectors() {
        for ours in ALL {
            let theirs = fabriclens_correlate::detectors::thresholds().find(|l| l.name == ours.name);
            assert_eq!(theirs.map(|l| l.default), Some(ours.at), "{}", ours.name);
        }
    }
}
