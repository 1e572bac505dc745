//! Keeps results of range queries. A dashboard asks the same query again every few seconds for a range that has moved by a step or
//! two: steps before the earliest sample that was added since are taken from the last answer, and only the others are evaluated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fabriclens_model::Budget;
use fabriclens_promql::{Outcome, QueryError};
use fabriclens_store::Store;
use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge};

use super::result_parts::{Steps, bytes, joined, part};
use fabriclens_core::telemetry::Telemetry;

/// A result larger than this fraction (1/n) of the cache is not kept.
const LARGEST: usize = 4;
/// Most results: each look-up of the oldest one looks at all.
const ENTRIES: usize = 4096;

/// What two queries have in common whose results at a step are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    query: String,
    lookback: Duration,
    step: i64,
    /// Remainder of the steps' times.
    phase: i64,
}

struct Entry {
    outcome: Arc<Outcome>,
    first: i64,
    last: i64,
    /// The change of the store up to which the outcome is known to be right.
    change: u64,
    bytes: usize,
    /// Number of the look-up that used it last.
    used: u64,
}

/// Results of range queries of the local store, the least recently used of which go first.
pub(super) struct ResultCache {
    kept: Mutex<Kept>,
    most_bytes: usize,
    /// Bytes kept.
    in_use: IntGauge,
    /// Steps by origin.
    answered: IntCounterVec,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    lookups: u64,
}

impl ResultCache {
    /// An empty cache for at most so many bytes.
    pub(super) fn new(most_bytes: usize, telemetry: &Telemetry) -> Self {
        let (in_use, answered) = (telemetry.query_results.clone(), telemetry.query_steps.clone());
        Self { kept: Mutex::default(), most_bytes, in_use, answered }
    }

    /// Drops all results.
    pub(super) fn clear(&self) {
        *self.kept.lock() = Kept::default();
        self.in_use.set(0);
    }

    /// The result of a range query that [`fabriclens_promql::looks_only_back`]. `evaluate` is called with the first step that is not
    /// kept, if there is one.
    pub(super) fn range(
        &self,
        store: &Store,
        (query, lookback): (&str, Duration),
        steps: Steps,
        budget: &dyn Budget,
        evaluate: impl Fn(i64) -> Result<Outcome, QueryError>,
    ) -> Result<Outcome, QueryError> {
        let Steps { start, end, step } = steps;
        let key = Key { query: query.to_owned(), lookback, step, phase: start.rem_euclid(step) };
        // Before anything is read: what is added from now on may or may not be in the result.
        let change = store.last_change();
        let known = self.earlier(&key, steps, store, budget)?;
        let next = known.as_ref().map_or(start, |(_, next)| *next);
        let outcome = match known {
            Some((kept, _)) if next > end => kept,
            Some((kept, _)) => joined(kept, evaluate(next)?),
            None => evaluate(start)?,
        };
        let kept = (next - start) / step;
        for (origin, count) in [("kept", kept), ("evaluated", steps.count() - kept)] {
            self.answered.with_label_values(&[origin]).inc_by(u64::try_from(count).unwrap_or(0));
        }
        self.keep(key, steps, change, &outcome);
        Ok(outcome)
    }

    /// The kept part of a result, and the first step after it.
    fn earlier(
        &self,
        key: &Key,
        Steps { start, end, step }: Steps,
        store: &Store,
        budget: &dyn Budget,
    ) -> Result<Option<(Outcome, i64)>, QueryError> {
        let mut kept = self.kept.lock();
        kept.lookups += 1;
        let now = kept.lookups;
        let Some(entry) = kept.entries.get_mut(key) else { return Ok(None) };
        let last = entry.last.min(end).min(store.changed_since(entry.change).saturating_sub(1));
        if start < entry.first || last < start {
            return Ok(None);
        }
        entry.used = now;
        let (outcome, bytes) = (entry.outcome.clone(), entry.bytes);
        drop(kept);
        budget.request(bytes)?;
        let known = Steps { start, end: last, step };
        Ok(Some((part(&outcome, start, last), known.last() + step)))
    }

    fn keep(&self, key: Key, steps: Steps, change: u64, outcome: &Outcome) {
        let bytes = bytes(outcome) + key.query.len();
        // An annotation may be of steps that a later range does not have.
        let annotated = !outcome.warnings.is_empty() || !outcome.infos.is_empty();
        let outcome = (!annotated && bytes <= self.most_bytes / LARGEST).then(|| Arc::new(outcome.clone()));
        let mut kept = self.kept.lock();
        let used = kept.lookups;
        if let Some(old) = kept.entries.remove(&key) {
            kept.bytes -= old.bytes;
        }
        if let Some(outcome) = outcome {
            let (first, last) = (steps.start, steps.last());
            kept.entries.insert(key, Entry { outcome, first, last, change, bytes, used });
            kept.bytes += bytes;
        }
        while kept.bytes > self.most_bytes || kept.entries.len() > ENTRIES {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(gone) = oldest.and_then(|key| kept.entries.remove(&key)) else { break };
            kept.bytes -= gone.bytes;
        }
        self.in_use.set(i64::try_from(kept.bytes).unwrap_or(i64::MAX));
    }
}
