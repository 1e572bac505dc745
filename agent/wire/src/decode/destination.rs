//! Where the points of a metric go.

use super::group::Sink;
use super::limits::Limits;
use super::rows::Rows;

/// Reason for the rejection of a point without a time.
pub(super) const NO_TIME: &str = "its time stamp is zero; set time_unix_nano";

/// Destination of the points of a metric.
pub(super) struct Into<'a> {
    pub(super) limits: &'a Limits,
    pub(super) resource: u32,
    pub(super) sink: &'a mut Sink,
    pub(super) rows: &'a mut Rows,
    /// Samples that this request may still add.
    pub(super) room: &'a mut usize,
}
