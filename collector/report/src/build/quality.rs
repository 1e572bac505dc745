//! Completeness of the measurements: hosts without data, gaps, saturated counters.

use super::ReportContext;
use crate::model::{Grade, Method, Quality};
use fabriclens_promql::QueryError;
use std::collections::HashSet;

/// Maximum number of listed gaps and of listed saturated counters.
const LISTED: usize = 20;
/// Minimum length of a reported gap, ms.
const GAP_MS: i64 = 60_000;

pub(super) fn quality(context: &ReportContext<'_>) -> Result<Quality, QueryError> {
    let measured: HashSet<&str> = context.ports.iter().map(|p| p.host.as_str()).collect();
    let missing: Vec<String> = context.job.hosts.keys().filter(|h| !measured.contains(h.as_str())).cloned().collect();
    let step = context.steps.iter().copied().fold(0.0, f64::max) * 1000.0;
    // Nothing is read between checkpoints, so these intervals are no gaps.
    let least = if context.source.method == Method::Samples { GAP_MS as f64 } else { step * 1.5 };
    let mut ports: Vec<_> = context.ports.iter().filter(|p| p.gap_ms as f64 > least).collect();
    ports.sort_by_key(|p| std::cmp::Reverse(p.gap_ms));
    let mut gaps: Vec<String> =
        ports.iter().take(LISTED).map(|p| format!("{}: {} s without a sample", p.name(), p.gap_ms / 1000)).collect();
    if ports.len() > LISTED {
        gaps.push(format!("{} more ports", ports.len() - LISTED));
    }
    let range = format!("[{}ms]", context.source.end_ms - context.source.start_ms);
    let stuck = format!("max_over_time({}{range}) > 0", context.source.selector("fabric_port_counter_saturated", ""));
    let stuck = context.source.at(&stuck, context.source.end_ms)?;
    let of_job =
        stuck.iter().filter(|s| context.on.on_device(s.labels.get("host"), s.labels.get("device")).any(|j| j == 0));
    let text = |s: &fabriclens_promql::Sample| {
        let l = |name| s.labels.get(name);
        format!("{} {}: {} {}", l("host"), l("device"), l("metric"), l("reason")).trim_end().to_owned()
    };
    let saturated = of_job.map(text).take(LISTED).collect();
    let of = |grade| context.ports.iter().filter(|p| p.grade == grade).count();
    let mut notes = Vec::new();
    if context.source.method == Method::Checkpoints {
        notes.push(format!(
            "The job has too many ports for too long to read every sample: totals are differences of counters at {} \
             instants, and plots come from the job's rollups (fabric_job_*), computed every 15 s or less often.",
            context.steps.len() + 1
        ));
    }
    if context.job.hosts.is_empty() {
        notes.push(
            "No job source reports the hosts of this job; nothing can be attributed to it without them.".to_owned(),
        );
    }
    if context.job.end_ns.is_none() {
        notes.push("The job is still running; the report covers the time until now.".to_owned());
    }
    Ok(Quality {
        measured: context.job.hosts.len() - missing.len(),
        missing,
        exclusive_ports: of(Grade::Exclusive),
        shared_ports: of(Grade::Shared),
        gaps,
        saturated,
        notes,
    })
}
