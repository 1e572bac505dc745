//! Storms that the PFC watchdog of a switch reports: a queue that was paused for 0.2 s or more, in which it sent nothing.

use crate::detectors::context::DetectorContext;
use crate::detectors::evidence::evidence;
use crate::model::finding::Evidence;
use crate::model::signal::Signal;

/// Storms that were reported of a switch port in the window; `None` if none was.
pub(super) fn storms(ctx: &DetectorContext<'_>, port: usize) -> Option<f64> {
    ctx.count(Signal::WatchdogStorms, port).filter(|storms| *storms > 0.0)
}

/// The reports of a switch port as evidence; `None` if there are none.
pub(super) fn report(ctx: &DetectorContext<'_>, port: usize) -> Option<Evidence> {
    Some(evidence(ctx, Signal::WatchdogStorms, port, storms(ctx, port)?, 0.0))
}

/// Time of the first report of a switch port in the window, Unix ns.
pub(super) fn first_ns(ctx: &DetectorContext<'_>, port: usize) -> Option<i64> {
    ctx.first_time(|frame| frame.get(Signal::WatchdogStorms, port).is_some_and(|storms| storms > 0.0))
}
