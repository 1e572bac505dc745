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
    let [_, end_ns] = ctx.window.time_range_ns();
    let step_s = ctx.step_s.max(1.0);
    let known = ctx.history.frames().iter().rev().skip_while(|frame| frame.time_ns > end_ns);
    let lately = known.take((WITHIN_S / step_s).ceil() as usize);
    lately.filter_map(|frame| share(frame)).sum::<f64>() * step_s
}

/// The same for the time in which a port may not send.
pub(super) fn port_paused_seconds(ctx: &DetectorContext<'_>, port: usize) -> f64 {
    paused_seconds(ctx, |frame| frame.get(Signal::PauseRx, port))
}
