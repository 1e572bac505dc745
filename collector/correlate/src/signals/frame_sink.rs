//! Where a streaming evaluation writes its values.

use crate::model::frame::Frame;
use crate::model::signal::Signal;

/// Receives values of signals by frame and port; the incident tracker implements it.
pub trait FrameSink {
    /// Time of the newest frame, Unix nanoseconds.
    fn now_ns(&self) -> i64;

    /// Index of a port, which is added if it is new; `None` without a node or port name.
    fn measured_port(&mut self, node: &str, port: &str) -> Option<usize>;

    /// The frame of an instant, if it is still kept.
    fn frame(&mut self, time_ns: i64) -> Option<&mut Frame>;

    /// Copies a rate to the frames just before an instant that have none, because the rate covers them too.
    fn fill(&mut self, time_ns: i64, signal: Signal, port: usize, rate: f64);
}
