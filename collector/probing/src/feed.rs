//! Updates that wait for the live evaluation.

use std::collections::VecDeque;

use fabriclens_correlate::RouteUpdate;

/// Most updates that wait: ten seconds of the largest configured rate, and the paths of a fleet that starts.
const MOST: usize = 262_144;

/// Bounded; what does not fit is dropped and counted.
#[derive(Default)]
pub(crate) struct Feed(VecDeque<(i64, RouteUpdate)>);

impl Feed {
    /// Adds updates with their instants, Unix nanoseconds; returns how many were dropped.
    pub fn add(&mut self, updates: Vec<(i64, RouteUpdate)>) -> usize {
        let free = MOST.saturating_sub(self.0.len());
        let dropped = updates.len().saturating_sub(free);
        self.0.extend(updates.into_iter().take(free));
        dropped
    }

    /// Takes the oldest `most` out, in order of their instants.
    pub fn drain(&mut self, most: usize) -> Vec<(i64, RouteUpdate)> {
        let mut taken: Vec<_> = self.0.drain(..most.min(self.0.len())).collect();
        // A path counts from its instant on, so it comes before a probe of the same instant.
        taken.sort_by_key(|(at_ns, update)| (*at_ns, matches!(update, RouteUpdate::Probe { .. })));
        taken
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
