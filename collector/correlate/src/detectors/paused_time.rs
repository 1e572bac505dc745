//! How long something was paused in the last minute. A pause of a few percent for a few seconds is ordinary: an
//! all-to-all exchange meets at one port for a moment, or a NIC misses a translation. The same share for half a minute,
//! or half of the time for a second, costs a job time.

use crate::detectors::context::DetectorContext;
use crate::model::frame::Frame;
use crate::model::signal::Signal;

/// Seconds over which paused time is added up.
const WITHIN_S: f64 = 60.0;

/// Seconds for which `share` (of time, by frame) says that something was paused, in the last minute of the window.
/// Frames less than a second apart count as seconds, because simulators are fast.
pub(super) fn paused_seconds(ctx: &DetectorContext<'_>, share: impl Fn(&Frame) -> Option<f64>) -> f64 {
    last_minute(ctx).filter_map(share).sum::<f64>() * ctx.step_s.max(1.0)
}

/// Frames of the last minute of the window, the newest first.
pub(super) fn last_minute<'a>(ctx: &DetectorContext<'a>) -> impl Iterator<Item = &'a Frame> {
    let [_, end_ns] = ctx.window.time_range_ns();
    let known = ctx.history.frames().iter().rev().skip_while(move |frame| frame.time_ns > end_ns);
    known.take((WITHIN_S / ctx.step_s.max(1.0)).ceil() as usize).map(AsRef::as_ref)
}

/// The same for the time in which a port may not send.
pub(super) fn port_paused_seconds(ctx: &DetectorContext<'_>, port: usize) -> f64 {
    paused_seconds(ctx, |frame| frame.get(Signal::PauseRx, port))
}
