//! Traffic priorities: PFC pauses one of eight, and traffic of one priority does not wait for another. Frames keep
//! pause signals per priority beside their total.

use crate::model::signal::Signal;
use fabriclens_model::Labels;
use serde::{Deserialize, Serialize};

/// Priorities of an Ethernet port.
pub const PRIORITIES: usize = 8;
/// Signals that are also kept per priority.
const SPLIT: [Signal; 3] = [Signal::PauseTx, Signal::PauseRx, Signal::PauseFrames];
/// Columns of a frame: one for each signal, then one for each signal and priority of `SPLIT`.
pub(crate) const COLUMNS: usize = Signal::COUNT + SPLIT.len() * PRIORITIES;

/// Column of a signal in one priority; `None` if it is not kept per priority.
pub(crate) fn column(signal: Signal, priority: usize) -> Option<usize> {
    let at = SPLIT.iter().position(|split| *split == signal)?;
    (priority < PRIORITIES).then_some(Signal::COUNT + at * PRIORITIES + priority)
}

/// The column of a signal, and those of its priorities if it is kept per priority.
pub(crate) fn columns(signal: Signal) -> impl Iterator<Item = usize> {
    std::iter::once(signal as usize).chain((0..PRIORITIES).filter_map(move |priority| column(signal, priority)))
}

/// The signal of a per-priority column.
pub(crate) fn whole(column: usize) -> Option<Signal> {
    SPLIT.get(column.checked_sub(Signal::COUNT)? / PRIORITIES).copied()
}

/// Priority of a series; `None` if the signal is not kept per priority or the series has no such label.
pub(crate) fn of_series(signal: Signal, labels: &Labels) -> Option<usize> {
    column(signal, 0)?;
    labels.get("priority").parse().ok().filter(|priority| *priority < PRIORITIES)
}

/// A set of priorities. Empty: unknown, which may be any. In JSON a list of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct Priorities(u8);

impl Priorities {
    /// The driver does not count by priority.
    pub const UNKNOWN: Self = Self(0);

    /// One priority, or unknown for `None`.
    pub fn one(priority: Option<usize>) -> Self {
        priority.into_iter().collect()
    }

    /// Whether the priorities are unknown.
    pub fn is_unknown(&self) -> bool {
        self.0 == 0
    }

    /// Known priorities, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..PRIORITIES).filter(move |priority| self.0 >> priority & 1 == 1)
    }

    /// Each known priority, or one `None` if they are unknown.
    pub fn each(self) -> impl Iterator<Item = Option<usize>> {
        self.iter().map(Some).chain(self.is_unknown().then_some(None))
    }

    /// Union of two sets; unknown if either is unknown.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_unknown() || other.is_unknown() { Self::UNKNOWN } else { Self(self.0 | other.0) }
    }

    /// Whether two sets may share a priority; unknown may be any.
    pub fn meets(self, other: Self) -> bool {
        self.is_unknown() || other.is_unknown() || self.0 & other.0 != 0
    }

    /// As the end of a sentence: `" in priority 3"`; empty if unknown.
    pub fn words(self) -> String {
        let all: Vec<String> = self.iter().map(|priority| priority.to_string()).collect();
        match &all[..] {
            [] => String::new(),
            [one] => format!(" in priority {one}"),
            [first @ .., last] => format!(" in priorities {} and {last}", first.join(", ")),
        }
    }
}

impl FromIterator<usize> for Priorities {
    fn from_iter<I: IntoIterator<Item = usize>>(all: I) -> Self {
        Self(all.into_iter().filter(|p| *p < PRIORITIES).fold(0, |bits, priority| bits | 1 << priority))
    }
}

impl From<Vec<usize>> for Priorities {
    fn from(all: Vec<usize>) -> Self {
        all.into_iter().collect()
    }
}

impl From<Priorities> for Vec<usize> {
    fn from(all: Priorities) -> Self {
        all.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_separate_columns() {
        let parts: Vec<usize> =
            SPLIT.iter().flat_map(|signal| (0..PRIORITIES).filter_map(|p| column(*signal, p))).collect();
        assert_eq!(parts, (Signal::COUNT..COLUMNS).collect::<Vec<_>>());
        let wholes: Vec<Signal> = parts.iter().step_by(PRIORITIES).filter_map(|c| whole(*c)).collect();
        assert_eq!((wholes, whole(0), whole(COLUMNS)), (SPLIT.to_vec(), None, None));
        assert_eq!((column(Signal::Tx, 3), column(Signal::PauseTx, 8)), (None, None));
    }

    #[test]
    fn unknown_priority_meets_any() {
        let [three, four] = [3, 4].map(|priority| Priorities::one(Some(priority)));
        assert!(!three.meets(four) && three.meets(three) && three.meets(Priorities::UNKNOWN));
        assert_eq!(three.union(four).words(), " in priorities 3 and 4");
        assert_eq!((three.words(), three.union(Priorities::UNKNOWN).words()), (" in priority 3".into(), String::new()));
        assert_eq!(serde_json::to_string(&three.union(four)).ok().as_deref(), Some("[3,4]"));
        assert_eq!(Priorities::UNKNOWN.each().collect::<Vec<_>>(), [None]);
    }
}
