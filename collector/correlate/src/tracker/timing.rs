//! Times, counts and bounds of the incident life cycle.

use crate::signals::table::LOOK_BACK;

/// Seconds without a finding after which an incident is over.
pub(super) const QUIET_S: f64 = 12.0;
/// The same for harmless findings of kinds that recur, so that they make one observation: jobs write checkpoints at least that
/// often.
pub(super) const RECURS_S: f64 = 3600.0;
/// Seconds without samples of its location after which an incident may end anyway, and seconds that decide whether
/// there are samples.
pub(super) const SILENT_S: f64 = 600.0;
pub(super) const HEARD_S: f64 = 5.0;
/// Seconds after the end of an incident that do not join the baseline.
pub(super) const SETTLE_S: f64 = 20.0;
/// Re-detection timeout, as a multiple of the detector's warm-up.
pub(super) const ALIVE: f64 = 2.0;
/// Seconds until frames join the baseline: a slow onset must be detected before it becomes its own baseline.
pub(super) const LAG_S: f64 = 20.0;
/// The same in frames, if samples are further apart.
pub(super) const LAG_TICKS: usize = 4;
/// Seconds before an incident in which low throughput has another cause.
pub(super) const BEFORE_S: f64 = 10.0;
/// Seconds after which a sample is late: its frame was evaluated without it.
pub(super) const FILLED_S: f64 = 10.0;
/// Seconds between inferences of cables.
pub(super) const LOOK_S: f64 = 10.0;
/// Newest frames that may still be incomplete.
pub(super) const NEWEST: i64 = 2;
/// Newest frames that are checked for counter glitches: those that a rate may still fill.
pub(super) const CHECKED: usize = LOOK_BACK as usize;
/// Frames that any window needs.
pub(super) const LEAST: usize = 2;
/// Frames that are evaluated at most: older ones say little about the present.
pub(super) const LONGEST: usize = 60;
/// The same for victims: jobs take turns and need time to show a loss.
pub(super) const SUFFERED: usize = 120;
/// Seconds in which the first finding may change its kind, because symptoms appear one after the other.
pub(super) const YOUNG_S: f64 = 10.0;
/// Seconds without a finding for the whole location after which its parts become incidents: a switch takes time to
/// restart.
pub(super) const SPLIT_S: f64 = 30.0;
/// Seconds after which an incident counts as part of the baseline for all others: a link may be bad for weeks.
pub(super) const STANDING_S: f64 = 300.0;
/// The same for a host that is down: in a large fleet one always reboots, which affects its own job alone.
pub(super) const HOST_DOWN_S: f64 = 60.0;
/// Limit of open incidents. It holds separately for incidents that freeze the baseline, for others that page, and for
/// observations: hundreds of slow adapters or links with slight errors must not hide a storm. Further ones are suppressed.
pub(super) const MOST: usize = 64;
/// Incidents younger than that which a tick evaluates; they take turns.
pub(super) const TURNS: usize = 8;
/// Seconds between two evaluations of a long-lived incident, of which a tick evaluates one: a fault that has lasted for minutes does
/// not change each second.
pub(super) const AGAIN_S: f64 = 5.0;
/// Receivers per incident whose queue-pair peers are looked up.
pub(super) const ASKED: usize = 16;
/// Baseline seconds of a detector that may open an incident besides others: it compares, and what is part of the
/// baseline no longer counts.
pub(super) const COMPARES_S: f64 = 10.0;
