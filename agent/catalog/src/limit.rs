//! How much a counter can grow at most: the bound behind "a rate is a gap, never a spike".
//! Called by the agent's counter logic on every step that it doubts (wraps, resets, reloads).

use crate::{Kind, Metric, Scope, Unit};

/// What bounds the growth of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes: the line rate.
    LineBytes,
    /// Bits: the line rate.
    LineBits,
    /// Packets, errors, events of a port: one per smallest frame at line rate.
    LineFrames,
    /// Seconds: wall time (or CPU time, up to the host's processors).
    WallTime,
    /// Nothing known: gauges, counters of the host or of the agent.
    Open,
}

/// Adapters serve cached values up to this old (bnxt refreshes each second), so a window may hold that much more.
const STALENESS_SECONDS: f64 = 2.0;
/// Smallest frame with preamble and gap on Ethernet is 84 bytes; InfiniBand acknowledgements are as short as 30.
const SMALLEST_FRAME_BYTES: f64 = 30.0;

impl Metric {
    /// What bounds this metric's growth.
    pub fn limit(&self) -> Limit {
        if self.kind != Kind::Counter || self.scope == Scope::Host {
            return Limit::Open;
        }
        match self.unit {
            Unit::Bytes => Limit::LineBytes,
            Unit::Seconds => Limit::WallTime,
            Unit::Count("{bit}") => Limit::LineBits,
            Unit::Count(_) => Limit::LineFrames,
            _ => Limit::Open,
        }
    }
}

impl Limit {
    /// The largest believable growth, in exported units, over `elapsed_seconds` on a port of that rate;
    /// `None` when nothing bounds it or the rate is needed and unknown.
    pub fn ceiling(self, line_bytes_per_second: Option<f64>, elapsed_seconds: f64) -> Option<f64> {
        let seconds = elapsed_seconds + STALENESS_SECONDS;
        let bytes = line_bytes_per_second.filter(|rate| *rate > 0.0).map(|rate| rate * seconds);
        match self {
            Self::LineBytes => bytes,
            Self::LineBits => bytes.map(|b| b * 8.0),
            Self::LineFrames => bytes.map(|b| b / SMALLEST_FRAME_BYTES),
            Self::WallTime => Some(seconds),
            Self::Open => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{host, pfc, traffic};

    #[test]
    fn ceilings_follow_the_unit() {
        let rate = Some(12.5e9);
        assert_eq!(traffic::PORT_IO.limit().ceiling(rate, 1.0), Some(37.5e9));
        assert_eq!(traffic::PORT_PACKETS.limit().ceiling(rate, 1.0), Some(1.25e9));
        assert_eq!(pfc::PFC_PAUSE.limit().ceiling(None, 0.1), Some(2.1));
        assert_eq!(traffic::PORT_IO.limit().ceiling(None, 1.0), None, "no rate, no judgement");
        assert_eq!(host::TCP_SEGMENTS.limit(), Limit::Open);
        assert_eq!(pfc::PFC_PAUSE_SHARE.limit(), Limit::Open);
    }
}
