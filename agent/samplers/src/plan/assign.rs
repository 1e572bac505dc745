//! Precedence: of all readings that mean the same series, the best source feeds it.

use super::LinePlan;
use super::line::Key;
use crate::counter::is_stuck;
use crate::target::Subject;
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::{BoundCounter, CounterSource};
use fabriclens_wire::Column;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A name of a source that feeds a column.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// Index in the batch.
    pub raw: usize,
    /// The catalog's row.
    pub bound: BoundCounter,
}

/// A source of a subject: what it is, what it read, and its plan so far.
pub type Line<'a> = (CounterSource, &'a Batch, Option<&'a LinePlan>);

/// The sources of one subject, after a read of each.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// Whose they are.
    pub subject: &'a Subject,
    /// One per line; `None` for sources without data.
    pub lines: Vec<Option<Line<'a>>>,
}

/// Name of the metric, and labels as the catalog gives them.
type Series = (&'static str, Vec<(&'static str, String)>);

/// What is fed by what; one entry per line in each.
#[derive(Debug)]
pub struct Assignment {
    /// Which of its names feed a column.
    pub lines: Vec<Vec<Assigned>>,
    /// How many names no row knows.
    pub unknown: Vec<usize>,
    /// Columns that another source feeds because the counter of this one sticks at its end.
    pub stuck: Vec<Vec<Column>>,
}

/// Rank of a counter that sticks at its end: behind every one that counts.
const STUCK: u16 = 1 << 15;

/// Names that gave no value are no candidates: another source may have one.
pub fn assign(candidates: &Candidates<'_>) -> Assignment {
    let mut best: HashMap<Series, Vec<(usize, Assigned)>> = HashMap::new();
    let mut unknown = vec![0; candidates.lines.len()];
    let mut ends = Vec::new();
    let facts = candidates.lines.iter().flatten().flat_map(|(_, batch, _)| &batch.facts);
    let told: HashSet<Key> = facts.map(|(column, _)| (column.metric.name, column.labels.clone())).collect();
    for (line, (source, batch, plan)) in candidates.lines.iter().enumerate().filter_map(|(i, l)| Some((i, (*l)?))) {
        unknown[line] = batch.unknown;
        for (raw, name) in batch.names().iter().enumerate() {
            let Some(mut bound) = candidates.subject.bind(source, name) else {
                unknown[line] += 1;
                continue;
            };
            // What was once read stays a candidate through a read that fails.
            let value = batch.values.get(raw).copied().flatten();
            let read = value.is_some() || plan.is_some_and(|p| p.feeds(name));
            if !read {
                continue;
            }
            // A sampler that knows the meaning of its source has told it already.
            let labels: Vec<_> = bound.labels.iter().map(|(n, v)| (Arc::from(*n), Arc::from(v.as_str()))).collect();
            if told.contains(&(bound.metric.name, labels.clone())) {
                continue;
            }
            let key = (bound.metric.name, bound.labels.clone());
            if value.is_some_and(|value| is_stuck(bound.counter, value)) {
                bound.rank |= STUCK;
                ends.push((line, raw, key.clone(), Column { metric: bound.metric, labels }));
            }
            let found = best.entry(key).or_default();
            let rank = found.first().map_or(u16::MAX, |(_, a)| a.bound.rank);
            if bound.rank < rank {
                found.clear();
            } else if bound.rank > rank && !found.is_empty() {
                continue;
            }
            let joins = found.first().is_none_or(|(l, a)| *l == line && a.bound.counter.adds && bound.counter.adds);
            if joins {
                found.push((line, Assigned { raw, bound }));
            }
        }
    }
    let mut stuck = vec![Vec::new(); candidates.lines.len()];
    for (line, raw, key, column) in ends {
        let feeds = |(l, a): &(usize, Assigned)| *l == line && a.raw == raw;
        if !best.get(&key).is_some_and(|found| found.iter().any(feeds)) {
            stuck[line].push(column);
        }
    }
    let mut lines = vec![Vec::new(); candidates.lines.len()];
    for (line, assigned) in best.into_values().flatten() {
        lines[line].push(assigned);
    }
    for line in &mut lines {
        line.sort_by_key(|assigned| assigned.raw);
    }
    Assignment { lines, unknown, stuck }
}
