//! How detectors begin that judge links between switches from hosts alone.

use crate::detectors::context::DetectorContext;
use crate::detectors::hold_signal::PAUSED;
use crate::model::signal::Signal;

/// Whether they judge: paths are known, and no switch reports `read`, which would tell more. Not while a host port pauses in one of the
/// directions of `pause`: pause holds packets anywhere for as long as it lasts, also beyond the time-out of a probe.
pub(super) fn judges(ctx: &DetectorContext<'_>, read: Signal, pause: &[Signal]) -> bool {
    let at_least = |signal, port| ctx.mean(signal, port).is_some_and(|share| share >= ctx.threshold(&PAUSED));
    let pauses = |port| pause.iter().any(|signal| at_least(*signal, port));
    !ctx.fabric.routes.is_empty() && !ctx.switches_report(read) && !ctx.host_ports().any(pauses)
}
