//! Precedence of sources: among all readings of one series, the best source feeds it.

use super::series::{Assigned, SeriesKey};
use super::source_plan::SourcePlan;
use crate::counter::is_stuck;
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::CounterSource;
use fabriclens_wire::Column;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A source, its last read and its plan so far.
pub type SourceRead<'a> = (CounterSource, &'a Batch, Option<&'a SourcePlan>);

/// Sources of one sampling target, after a read of each.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// Sampling target.
    pub target: &'a SamplingTarget,
    /// One per source; `None` for sources without data.
    pub sources: Vec<Option<SourceRead<'a>>>,
}

/// Metric name and labels of the catalog.
type Series = (&'static str, Vec<(&'static str, String)>);

/// Assignment of counters to columns; one entry per source in each list.
#[derive(Debug)]
pub struct Assignment {
    /// Counters that feed a column.
    pub sources: Vec<Vec<Assigned>>,
    /// Number of names that the catalog lacks.
    pub unknown: Vec<usize>,
    /// Columns that another source feeds because the counter of this one is saturated.
    pub stuck: Vec<Vec<Column>>,
}

/// Rank of a saturated counter: below all others.
const STUCK: u16 = 1 << 15;

/// Assigns a counter to each series. Names without a value are no candidates: another source may have one.
pub fn assign(candidates: &Candidates<'_>) -> Assignment {
    let mut best: HashMap<Series, Vec<(usize, Assigned)>> = HashMap::new();
    let mut unknown = vec![0; candidates.sources.len()];
    let mut ends = Vec::new();
    let facts = candidates.sources.iter().flatten().flat_map(|(_, batch, _)| &batch.facts);
    let exported: HashSet<SeriesKey> = facts.map(|(column, _)| (column.metric.name, column.labels.clone())).collect();
    for (index, (source, batch, plan)) in candidates.sources.iter().enumerate().filter_map(|(i, l)| Some((i, (*l)?))) {
        unknown[index] = batch.unknown;
        for (raw, name) in batch.names().iter().enumerate() {
            let Some(mut bound) = candidates.target.bind(source, name) else {
                unknown[index] += 1;
                continue;
            };
            // A counter that had a value before stays a candidate when a read fails.
            let value = batch.values.get(raw).copied().flatten();
            let read = value.is_some() || plan.is_some_and(|p| p.feeds(name));
            if !read {
                continue;
            }
            // The sampler itself already exports this series as a fact.
            let labels: Vec<_> = bound.labels.iter().map(|(n, v)| (Arc::from(*n), Arc::from(v.as_str()))).collect();
            if exported.contains(&(bound.metric.name, labels.clone())) {
                continue;
            }
            let key = (bound.metric.name, bound.labels.clone());
            if value.is_some_and(|value| is_stuck(bound.counter, value)) {
                bound.rank |= STUCK;
                ends.push((index, raw, key.clone(), Column { metric: bound.metric, labels }));
            }
            let found = best.entry(key).or_default();
            let rank = found.first().map_or(u16::MAX, |(_, a)| a.bound.rank);
            if bound.rank < rank {
                found.clear();
            } else if bound.rank > rank && !found.is_empty() {
                continue;
            }
            let joins = found.first().is_none_or(|(l, a)| *l == index && a.bound.counter.adds && bound.counter.adds);
            if joins {
                found.push((index, Assigned { raw, bound }));
            }
        }
    }
    let mut stuck = vec![Vec::new(); candidates.sources.len()];
    for (index, raw, key, column) in ends {
        let feeds = |(l, a): &(usize, Assigned)| *l == index && a.raw == raw;
        if !best.get(&key).is_some_and(|found| found.iter().any(feeds)) {
            stuck[index].push(column);
        }
    }
    let mut sources = vec![Vec::new(); candidates.sources.len()];
    for (index, assigned) in best.into_values().flatten() {
        sources[index].push(assigned);
    }
    for index in &mut sources {
        index.sort_by_key(|assigned| assigned.raw);
    }
    Assignment { sources, unknown, stuck }
}
