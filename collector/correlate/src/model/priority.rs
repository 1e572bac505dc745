//! Priorities: PFC holds back one of eight, and what waits in one does not wait for another. Of the signals of pause each
//! frame keeps, beside the whole, what is one priority's.

use crate::model::signal::Signal;
use fabriclens_model::Labels;
use serde::{Deserialize, Serialize};

/// How many there are.
pub const PRIORITIES: usize = 8;
/// Signals that are kept by priority too.
const SPLIT: [Signal; 3] = [Signal::PauseTx, Signal::PauseRx, Signal::PauseFrames];
/// Columns of a frame: one for each signal, then those of its priorities.
pub(crate) const COLUMNS: usize = Signal::COUNT + SPLIT.len() * PRIORITIES;

/// The column of a signal's part in a priority; `None` if it has none.
pub(crate) fn column(signal: Signal, priority: usize) -> Option<usize> {
    let at = SPLIT.iter().position(|split| *split == signal)?;
    (priority < PRIORITIES).then_some(Signal::COUNT + at * PRIORITIES + priority)
}

/// The signal of which a column is a part.
pub(crate) fn whole(column: usize) -> Option<Signal> {
    SPLIT.get(column.checked_sub(Signal::COUNT)? / PRIORITIES).copied()
}

/// The priority that a series of a signal is of; `None` if the signal is not kept by priority, or nobody says.
pub(crate) fn of_series(signal: Signal, labels: &Labels) -> Option<usize> {
    column(signal, 0)?;
    labels.get("priority").parse().ok().filter(|priority| *priority < PRIORITIES)
}

/// Some of them. None at all: nobody says which, so it may be any. In JSON a list of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct Priorities(u8);

impl Priorities {
    /// Nobody says which.
    pub const UNKNOWN: Self = Self(0);

    /// Of one; `None`: nobody says which.
    pub fn one(priority: Option<usize>) -> Self {
        priority.into_iter().collect()
    }

    /// Whether nobody says which.
    pub fn is_unknown(&self) -> bool {
        self.0 == 0
    }

    /// Those that are known, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..PRIORITIES).filter(move |priority| self.0 >> priority & 1 == 1)
    }

    /// Each that is known; where nobody says which, `None` alone.
    pub fn each(self) -> impl Iterator<Item = Option<usize>> {
        self.iter().map(Some).chain(self.is_unknown().then_some(None))
    }

    /// Those of both; unknown if one of them is.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_unknown() || other.is_unknown() { Self::UNKNOWN } else { Self(self.0 | other.0) }
    }

    /// Whether a priority may be in both.
    pub fn meets(self, other: Self) -> bool {
        self.is_unknown() || other.is_unknown() || self.0 & other.0 != 0
    }

    /// In words, to follow others: `" in priority 3"`; nothing where nobody says.
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
    fn each_part_has_a_column_of_its_own() {
        let parts: Vec<usize> =
            SPLIT.iter().flat_map(|signal| (0..PRIORITIES).filter_map(|p| column(*signal, p))).collect();
        assert_eq!(parts, (Signal::COUNT..COLUMNS).collect::<Vec<_>>());
        let wholes: Vec<Signal> = parts.iter().step_by(PRIORITIES).filter_map(|c| whole(*c)).collect();
        assert_eq!((wholes, whole(0), whole(COLUMNS)), (SPLIT.to_vec(), None, None));
        assert_eq!((column(Signal::Tx, 3), column(Signal::PauseTx, 8)), (None, None));
    }

    #[test]
    fn what_nobody_says_may_be_any() {
        let [three, four] = [3, 4].map(|priority| Priorities::one(Some(priority)));
        assert!(!three.meets(four) && three.meets(three) && three.meets(Priorities::UNKNOWN));
        assert_eq!(three.union(four).words(), " in priorities 3 and 4");
        assert_eq!((three.words(), three.union(Priorities::UNKNOWN).words()), (" in priority 3".into(), String::new()));
        assert_eq!(serde_json::to_string(&three.union(four)).ok().as_deref(), Some("[3,4]"));
        assert_eq!(Priorities::UNKNOWN.each().collect::<Vec<_>>(), [None]);
    }
}
