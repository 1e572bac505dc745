//! Upper bound on the growth of a counter. The agent rejects larger steps as implausible (after wraps, driver reloads or
//! foreign writes), so that a rate shows a gap instead of a spike.

use crate::metric::{Metric, MetricKind, Scope};
use crate::unit::MetricUnit;

/// Physical bound on the growth of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthLimit {
    /// Proportional to line rate: bytes, bits, symbols, ticks.
    Line {
        /// Exported units per byte at line rate.
        per_byte: f64,
    },
    /// Packets, operations and events of a port: one per smallest frame at line rate, capped at the packet rate that any
    /// adapter can process.
    Frames,
    /// Seconds: no more than the elapsed time.
    WallTime,
    /// No known bound: gauges, counters of the host or of the agent.
    Open,
}

/// Adapters return cached values up to this old (bnxt refreshes once a second), so an interval may contain the growth of
/// that much additional time.
const STALENESS_SECONDS: f64 = 2.0;
/// Length of an acknowledgement on InfiniBand. The smallest Ethernet frame takes 84 bytes with preamble and gap.
const SMALLEST_FRAME_BYTES: f64 = 30.0;
/// Highest packet rate of any adapter, regardless of its line rate.
const MOST_FRAMES_PER_SECOND: f64 = 5e8;
/// Traffic looped back inside the adapter is limited by PCIe, not by the line.
const LOOPBACK_HEADROOM: f64 = 2.0;

impl Metric {
    /// Bound on the growth of this metric.
    pub fn limit(&self) -> GrowthLimit {
        if self.kind != MetricKind::Counter || self.scope == Scope::Host {
            return GrowthLimit::Open;
        }
        match self.unit {
            // Wait ticks, bubbles and lane errors are counted per flit or symbol, which are at least one byte.
            MetricUnit::Bytes | MetricUnit::Count("{tick}" | "{symbol}" | "{error}") => {
                GrowthLimit::Line { per_byte: 1.0 }
            }
            MetricUnit::Count("{bit}") => GrowthLimit::Line { per_byte: 8.0 },
            MetricUnit::Count(_) => GrowthLimit::Frames,
            MetricUnit::Seconds => GrowthLimit::WallTime,
            _ => GrowthLimit::Open,
        }
    }
}

impl GrowthLimit {
    /// Largest plausible growth in exported units over `elapsed_seconds` on a port of the given line rate. `None` if the
    /// growth is unbounded, or if the line rate is needed and unknown.
    pub fn ceiling(self, line_bytes_per_second: Option<f64>, elapsed_seconds: f64) -> Option<f64> {
        let seconds = elapsed_seconds + STALENESS_SECONDS;
        let line = line_bytes_per_second.filter(|rate| *rate > 0.0).map(|rate| rate * LOOPBACK_HEADROOM);
        match self {
            Self::Line { per_byte } => line.map(|bytes| bytes * per_byte * seconds),
            Self::Frames => line.map(|bytes| (bytes / SMALLEST_FRAME_BYTES).min(MOST_FRAMES_PER_SECOND) * seconds),
            Self::WallTime => Some(seconds),
            Self::Open => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{congestion, fec, host, pfc, traffic};

    #[test]
    fn ceilings_follow_the_unit() {
        let rate = Some(12.5e9);
        assert_eq!(traffic::PORT_IO.limit().ceiling(rate, 1.0), Some(75e9));
        assert_eq!(fec::FEC_CORRECTED_BITS.limit().ceiling(rate, 1.0), Some(600e9));
        assert_eq!(congestion::XMIT_WAIT_TICKS.limit().ceiling(rate, 1.0), Some(75e9));
        assert_eq!(traffic::PORT_PACKETS.limit().ceiling(rate, 1.0), Some(1.5e9));
        assert_eq!(traffic::PORT_PACKETS.limit().ceiling(Some(1.25e9), 1.0), Some(0.25e9));
        assert_eq!(pfc::PFC_PAUSE.limit().ceiling(None, 0.1), Some(2.1));
        assert_eq!(traffic::PORT_IO.limit().ceiling(None, 1.0), None, "no rate, no judgement");
        assert_eq!(host::TCP_SEGMENTS.limit(), GrowthLimit::Open);
        assert_eq!(pfc::PFC_PAUSE_SHARE.limit(), GrowthLimit::Open);
    }
}
