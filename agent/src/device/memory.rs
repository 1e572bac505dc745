//! Totals that the next agent process continues from.

use super::Runner;
use crate::state::{Series, TargetMemory, boot_ns};
use fabriclens_agent_samplers::counter::Total;
use fabriclens_agent_samplers::plan::Carried;
use fabriclens_catalog::metrics::by_name;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

impl Runner {
    /// Sets the state saved by the previous agent process.
    pub fn recall(&mut self, memory: Option<(TargetMemory, Instant)>) {
        self.memory = memory;
    }

    /// Publishes the state that the next agent process continues from.
    pub(super) fn remember(&self) {
        let mut memory = TargetMemory {
            identity: self.target.identity(),
            at: boot_ns(),
            series: Vec::new(),
            readings: BTreeMap::new(),
        };
        let mut carried = Carried::new();
        for source in &self.sources {
            if let Some(plan) = &source.plan {
                plan.carry(&mut carried);
                memory.readings.insert(source.spec.name.to_string(), plan.readings());
            }
        }
        memory.series = carried
            .into_iter()
            .map(|((metric, labels), (total, start))| Series {
                metric: metric.to_string(),
                labels: labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
                count: total.count(),
                scale: total.scale(),
                start,
            })
            .collect();
        *self.shared.memory.lock() = Some(memory);
    }
}

/// Totals of the previous agent process, as far as the catalog still has their metrics.
pub(super) fn recalled(memory: &TargetMemory) -> Carried {
    let series = memory.series.iter().filter_map(|s| {
        let labels = s.labels.iter().map(|(n, v)| (Arc::from(n.as_str()), Arc::from(v.as_str()))).collect();
        Some(((by_name(&s.metric)?.name, labels), (Total::remembered(s.count, s.scale)?, s.start)))
    });
    series.collect()
}
