//! Makes sections of what the sources of a target read, and ends series that are no longer read.

use super::Runner;
use fabriclens_agent_samplers::plan::{ReadContext, saturated};
use fabriclens_catalog::metrics::state::PORT_ASYNC_EVENTS;
use fabriclens_wire::{Column, Section, Value};
use std::sync::Arc;

impl Runner {
    /// Ends series that the device no longer provides, so that their last value does not pass as current.
    pub(super) fn end(&mut self, ended: Vec<Column>, emit: &mut dyn FnMut(Section)) {
        if ended.is_empty() {
            return;
        }
        self.last_end = self.clock.now().max(self.last_end + 1);
        emit(Section::ended(&self.target.resource, ended, self.last_end));
    }

    pub(super) fn emit(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let source = &mut self.sources[index];
        if !source.fresh {
            return self.fade(index, emit);
        }
        let now = ReadContext {
            at: source.ended,
            begin_ns: source.begin_ns,
            rate: self.target.rate_bytes(),
            known_rate: self.target.known_rate_bytes(),
        };
        // Strictly increasing, also when the mapping to wall time changes.
        self.last_end = self.clock.wall(source.ended).max(self.last_end + 1);
        let section = |columns, starts, values, urgent| Section {
            resource: Arc::clone(&self.target.resource),
            columns,
            begin_ns: source.begin_ns.min(self.last_end),
            end_ns: self.last_end,
            starts,
            values,
            urgent,
        };
        let mut made = [None, None];
        if let Some(plan) = source.plan.as_mut().filter(|p| !p.is_empty()) {
            let urgent = plan.take_full(&source.batch, now);
            let values = plan.values(&source.batch, now.known_rate, 0);
            made[0] = Some(section(plan.columns(), plan.starts(0), values, urgent));
            source.batch.facts.extend(plan.saturated().map(|column| (saturated(column), Value::Int(1))));
            self.shared.stats.lock()[index].discontinuities = plan.discontinuities;
        }
        source.batch.facts.extend(source.stuck.iter().cloned());
        if source.spec.name == "port_state" {
            for (kind, count) in self.shared.events.lock().iter() {
                source.batch.fact(&PORT_ASYNC_EVENTS, &[("event", kind)], Value::Int(*count));
            }
        }
        let had = Arc::clone(&source.facts);
        let same =
            had.len() == source.batch.facts.len() && had.iter().zip(&source.batch.facts).all(|(h, (c, _))| h == c);
        if !same {
            let ended: Vec<Column> =
                had.iter().filter(|h| source.batch.facts.iter().all(|(c, _)| c != *h)).cloned().collect();
            if !ended.is_empty() {
                let values = vec![Value::Stale; ended.len()];
                emit(section(ended.into(), Arc::from(vec![0; values.len()]), values, false));
            }
            source.facts = source.batch.facts.iter().map(|(column, _)| column.clone()).collect();
        }
        if !source.facts.is_empty() {
            let values = source.batch.facts.iter().map(|(_, value)| value.clone()).collect();
            let starts = Arc::from(vec![source.opened_ns; source.facts.len()]);
            made[1] = Some(section(Arc::clone(&source.facts), starts, values, source.batch.urgent));
        }
        for section in made.iter().flatten() {
            emit(section.clone());
        }
        self.shared.latest.lock()[index] = made;
    }

    /// Ends the series of a source without data.
    pub(super) fn fade(&mut self, index: usize, emit: &mut dyn FnMut(Section)) {
        let had = std::mem::take(&mut self.shared.latest.lock()[index]);
        for mut section in had.into_iter().flatten() {
            section.values.fill(Value::Stale);
            self.last_end = self.clock.now().max(self.last_end + 1);
            (section.begin_ns, section.end_ns, section.urgent) = (self.last_end, self.last_end, false);
            emit(section);
        }
    }
}
