//! Paths, queue pairs and probes of a recording in order of time.

use super::error::RecordingError;
use super::optional_table::TimedUpdate;
use super::{probe_results, queue_pairs_seen, traced_paths};
use std::path::Path;

/// Gives the next update of one file; `None` at its end.
type Source = Box<dyn FnMut() -> Result<Option<TimedUpdate>, RecordingError>>;

/// Updates of several files, merged by time.
#[derive(Default)]
pub struct RouteUpdates {
    /// Each with its next update.
    sources: Vec<(Source, Option<TimedUpdate>)>,
}

impl RouteUpdates {
    /// Opens those of `flows_seen.csv.gz`, `paths.csv.gz` and `probes.csv.gz` that a directory has. Of equal times, queue
    /// pairs come before paths, and these before the probes that need them.
    ///
    /// # Errors
    /// [`RecordingError`] names the file and what is wrong.
    pub(super) fn open(dir: &Path, stretch: i64) -> Result<Self, RecordingError> {
        let sources: [Source; 3] = [
            Box::new(queue_pairs_seen::open(dir, stretch)?),
            Box::new(traced_paths::open(dir, stretch)?),
            Box::new(probe_results::open(dir, stretch)?),
        ];
        Self::of(sources.into())
    }

    fn of(sources: Vec<Source>) -> Result<Self, RecordingError> {
        let begin = |mut source: Source| {
            let first = source()?;
            Ok((source, first))
        };
        Ok(Self { sources: sources.into_iter().map(begin).collect::<Result<_, RecordingError>>()? })
    }

    /// The next update up to an instant; `None` if there is none.
    ///
    /// # Errors
    /// [`RecordingError`] names the file, the line and what is wrong.
    pub(crate) fn next_until(&mut self, time_ns: i64) -> Result<Option<TimedUpdate>, RecordingError> {
        let due = |next: &Option<TimedUpdate>| next.as_ref().map(|(at_ns, _)| *at_ns).filter(|at_ns| *at_ns <= time_ns);
        let earliest = self.sources.iter_mut().filter_map(|source| Some((due(&source.1)?, source)));
        let Some((_, (source, next))) = earliest.min_by_key(|(at_ns, _)| *at_ns) else { return Ok(None) };
        Ok(std::mem::replace(next, source()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::routes::update::{PortName, RouteUpdate};

    fn closed(number: u32) -> RouteUpdate {
        RouteUpdate::Closed { port: PortName { node: "h".into(), port: "1".into() }, number }
    }

    #[test]
    fn updates_come_in_order_of_time_and_not_before_it() {
        let source = |rows: &[(i64, u32)]| -> Source {
            let mut rows: Vec<TimedUpdate> = rows.iter().map(|(at, number)| (*at, closed(*number))).collect();
            rows.reverse();
            Box::new(move || Ok(rows.pop()))
        };
        let mut all = RouteUpdates::of(vec![source(&[(5, 1), (9, 2)]), source(&[(1, 3), (5, 4), (20, 5)])]).unwrap();
        let mut until = |ns| std::iter::from_fn(|| all.next_until(ns).unwrap()).map(|u| u.0).collect::<Vec<_>>();
        assert_eq!([until(0), until(9), until(19), until(99)], [vec![], vec![1, 5, 5, 9], vec![], vec![20]]);
    }
}
