//! Counters of one direction of a simulated link. The port that sends into it and the port that receives from it both show
//! them, so a switch and its neighbor never contradict each other.

use super::layout::FRAME;
use super::nic::PAUSE_REFRESH_S;

/// Totals since the start, as real numbers; truncated when they are sent.
#[derive(Clone, Default)]
pub struct Link {
    pub bytes: f64,
    /// Seconds in which the receiving end paused the sending end.
    pub pause_s: f64,
    /// Packets that the egress queue of the link marked.
    pub marks: f64,
    /// Frames that arrived corrupted.
    pub crc_errors: f64,
    /// Bytes in the egress queue at the end of the step. Not a total.
    pub queue: f64,
}

impl Link {
    /// Frames.
    pub fn packets(&self) -> f64 {
        self.bytes / FRAME
    }

    /// Pause frames of the receiving end.
    pub fn pause_frames(&self) -> f64 {
        self.pause_s / PAUSE_REFRESH_S
    }
}
