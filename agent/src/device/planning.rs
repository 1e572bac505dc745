//! Binds the sources of a target to series, again whenever a list of counters changes.

use super::Runner;
use super::memory::recalled;
use super::source_state::SourceState;
use fabriclens_agent_samplers::plan::{Assignment, Candidates, SourcePlan, assign, saturated};
use fabriclens_catalog::is_fast;
use fabriclens_wire::{Column, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Limit of raw counters that one port passes through: some drivers have thousands, several per queue.
const MOST_PASSED: usize = 256;

impl Runner {
    /// Columns of all plans.
    fn planned(&self) -> impl Iterator<Item = Arc<[Column]>> {
        self.sources.iter().filter_map(|l| l.plan.as_ref().map(SourcePlan::columns))
    }

    /// Binds all sources again; totals of surviving series are kept. Returns the series that end.
    pub(super) fn replan(&mut self) -> Vec<Column> {
        let had: Vec<Arc<[Column]>> = self.planned().collect();
        let data = |l: &SourceState| (l.fresh || l.plan.is_some()) && l.batch.values.len() == l.batch.names().len();
        let candidates = Candidates {
            target: &self.target,
            sources: self
                .sources
                .iter()
                .map(|l| data(l).then_some((l.spec.source, &l.batch, l.plan.as_ref())))
                .collect(),
        };
        let Assignment { sources: assigned, unknown, stuck } = assign(&candidates);
        let mut carried = self.memory.as_ref().map(|(memory, _)| recalled(memory)).unwrap_or_default();
        for plan in self.sources.iter().filter_map(|l| l.plan.as_ref()) {
            plan.carry(&mut carried);
        }
        let mut room = MOST_PASSED;
        let mut stats = self.shared.stats.lock();
        for (index, (source, assigned)) in self.sources.iter_mut().zip(&assigned).enumerate() {
            stats[index].unknown = unknown[index];
            source.stuck = stuck[index].iter().map(|column| (saturated(column), Value::Int(1))).collect();
            if source.fresh || source.plan.is_some() {
                let first = source.plan.is_none();
                source.plan(assigned, is_fast(self.target.family(source.spec.source), source.spec.source), &carried);
                let memory = self.memory.as_ref().filter(|_| first);
                let readings = memory.and_then(|(m, at)| Some((m.readings.get(source.spec.name)?, *at)));
                if let (Some(plan), Some((readings, at))) = (&mut source.plan, readings) {
                    plan.recall(readings, at);
                }
                stats[index].left_out = source.pass(&self.target, &mut room);
            }
        }
        drop(stats);
        self.fast = (0..self.sources.len()).filter(|index| !self.sources[*index].fast.is_empty()).collect();
        let has: Vec<Arc<[Column]>> = self.planned().collect();
        let key = |c: &Column| (c.metric.name, c.labels.clone());
        let has: HashSet<_> = has.iter().flat_map(|columns| columns.iter().map(key)).collect();
        had.iter().flat_map(|columns| columns.iter()).filter(|c| !has.contains(&key(c))).cloned().collect()
    }
}
