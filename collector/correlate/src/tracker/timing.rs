//! Times, counts and bounds of the incident life cycle.

/// Seconds without a finding after which an incident is over.
pub(super) const QUIET_S: f64 = 12.0;
/// Seconds without samples of its place after which nobody waits any more for word of it, and seconds that tell whether there
/// are any.
pub(super) const SILENT_S: f64 = 600.0;
pub(super) const HEARD_S: f64 = 5.0;
/// Seconds after the end of an incident that are not usual yet.
pub(super) const SETTLE_S: f64 = 20.0;
/// Of the time that a detector needs to see a beginning: the time in which it must find something again.
pub(super) const ALIVE: f64 = 2.0;
/// Seconds until what was measured is usual: trouble that begins slowly must be seen before it is its own yardstick.
pub(super) const LAG_S: f64 = 20.0;
/// Seconds before an incident in which jobs that are low have another reason for that.
pub(super) const BEFORE_S: f64 = 10.0;
/// Seconds after which what fills a frame is late: it was judged without that.
pub(super) const FILLED_S: f64 = 10.0;
/// Seconds from one look for cables to the next.
pub(super) const LOOK_S: f64 = 10.0;
/// Ticks that may still be on their way.
pub(super) const NEWEST: i64 = 2;
/// Ticks that are looked at for counters that leapt: what comes later is late by more than agents are.
pub(super) const CHECKED: usize = 5;
/// Least ticks of any stretch.
pub(super) const LEAST: usize = 2;
/// Ticks that are judged at most: what was long ago says little of what is wrong now.
pub(super) const LONGEST: usize = 60;
/// The same for who suffers: jobs take turns, and need some time to show what they lose.
pub(super) const SUFFERED: usize = 120;
/// Seconds in which the first finding may give way to another kind: trouble shows itself bit by bit.
pub(super) const YOUNG_S: f64 = 10.0;
/// Seconds without the whole of a place after which its parts are each for themselves: a switch that restarts takes its time.
pub(super) const SPLIT_S: f64 = 30.0;
/// Seconds after which trouble is a part of what is usual for all others: a link may be bad for weeks.
pub(super) const STANDING_S: f64 = 300.0;
/// The same where a host is down: in a large fleet one always reboots, and it concerns its own job.
pub(super) const HOST_DOWN_S: f64 = 60.0;
/// Incidents that are open at most, of those that bend what is usual and of the others each: hundreds of adapters that
/// are slow for weeks must not hide a storm. What comes then is told by none.
pub(super) const MOST: usize = 64;
/// Old and young incidents that are judged at one look; the others wait for their turn.
pub(super) const TURNS: [usize; 2] = [1, 8];
/// Receivers of an incident of which is asked who is connected to them.
pub(super) const ASKED: usize = 16;
/// Seconds of calm that a detector needs to tell trouble beside what is open: it compares, so what is usual by now says
/// nothing.
pub(super) const COMPARES_S: f64 = 10.0;
