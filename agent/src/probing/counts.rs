//! What tracing and probing tell about themselves, as metrics.

use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_tracer::{Paths, Stats};
use fabriclens_agent_uplink::{PlanStats, ProbePlans};
use fabriclens_catalog::metrics::probes::{
    PROBE_LOST, PROBE_PLAN_TARGETS, PROBE_REQUESTS, TRACE_CHANGES, TRACE_DATAGRAMS, TRACE_PATHS,
};
use fabriclens_wire::Value;
use std::time::Instant;

/// Counts of the tracer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Datagrams and traces since the start.
    pub stats: Stats,
    /// Paths of the current plan.
    pub paths: Paths,
}

/// Counts of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbingCounts {
    plans: PlanStats,
    targets: usize,
    tracing: Option<TraceCounts>,
}

impl ProbingCounts {
    /// Counts of now.
    pub fn of(plans: &ProbePlans, tracing: &Option<TraceCounts>) -> Self {
        let targets = plans.plan(Instant::now()).map_or(0, |plan| plan.targets.len());
        Self { plans: plans.stats(), targets, tracing: *tracing }
    }

    /// Adds them to the agent's own metrics.
    pub fn facts(&self, batch: &mut Batch) {
        batch.fact(&PROBE_PLAN_TARGETS, &[], Value::Int(self.targets as u64));
        let plans = self.plans;
        for (kind, result, count) in [
            ("plan", "answered", plans.plans),
            ("plan", "failed", plans.failed_plans),
            ("report", "answered", plans.reports),
            ("report", "failed", plans.failed_reports),
        ] {
            batch.fact(&PROBE_REQUESTS, &[("kind", kind), ("result", result)], Value::Int(count));
        }
        for (reason, count) in [("dropped", plans.dropped), ("refused", plans.refused)] {
            batch.fact(&PROBE_LOST, &[("reason", reason)], Value::Int(count));
        }
        let Some(TraceCounts { stats, paths }) = self.tracing else { return };
        for (result, count) in [
            ("sent", stats.sent),
            ("answered", stats.answers),
            ("silent", stats.silent),
            ("ignored", stats.ignored),
            ("not_sent", stats.refused),
        ] {
            batch.fact(&TRACE_DATAGRAMS, &[("result", result)], Value::Int(count));
        }
        for (state, count) in [
            ("known", paths.known),
            ("partial", paths.partial),
            ("unknown", paths.unknown),
            ("left_out", paths.left_out),
        ] {
            batch.fact(&TRACE_PATHS, &[("state", state)], Value::Int(count as u64));
        }
        batch.fact(&TRACE_CHANGES, &[], Value::Int(stats.changes));
    }
}
