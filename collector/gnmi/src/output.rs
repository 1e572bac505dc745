//! Where the series of one switch go.

use std::sync::Arc;

use fabriclens_catalog::Metric;
use fabriclens_foreign::canonical;
use fabriclens_model::Labels;

use crate::counters::SwitchCounters;
use crate::outbox::{Outbox, Row};
use crate::path_budget::PathBudget;

/// A switch, the way of its samples to the store, and its counters.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) switch: Arc<str>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) counters: Arc<SwitchCounters>,
    /// Memory for its paths.
    pub(crate) paths: PathBudget,
}

impl Output {
    /// Labels of a series of the switch.
    pub(crate) fn labels(&self, metric: &Metric, port: Option<&str>, more: &[(&str, String)]) -> Labels {
        canonical::labels(&self.switch, metric, port, more)
    }

    /// Queues samples; those that do not fit are dropped and counted.
    pub(crate) fn push(&self, row: Row) {
        let samples = row.values.len() as u64;
        if !self.outbox.push(row) {
            self.counters.dropped("busy", samples);
        }
    }
}

#[cfg(test)]
impl Output {
    pub(crate) fn for_tests(switch: &str) -> Self {
        let counters = Arc::new(SwitchCounters::for_tests(switch));
        Self { switch: switch.into(), outbox: Arc::default(), counters, paths: PathBudget::new(1 << 20) }
    }
}
