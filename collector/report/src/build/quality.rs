//! What the numbers are worth: who was not measured, where there are holes, which counters stuck.

use super::Scene;
use crate::model::{Grade, Method, Quality};
use fabriclens_promql::QueryError;
use std::collections::HashSet;

/// Holes and stuck counters that are told one by one.
const LISTED: usize = 20;
/// A hole worth telling, ms.
const HOLE_MS: i64 = 60_000;

pub(super) fn quality(scene: &Scene<'_>) -> Result<Quality, QueryError> {
    let measured: HashSet<&str> = scene.ports.iter().map(|p| p.host.as_str()).collect();
    let missing: Vec<String> = scene.job.hosts.keys().filter(|h| !measured.contains(h.as_str())).cloned().collect();
    let step = scene.steps.iter().copied().fold(0.0, f64::max) * 1000.0;
    // Between checkpoints nothing was looked at, so that is no hole.
    let least = if scene.source.method == Method::Samples { HOLE_MS as f64 } else { step * 1.5 };
    let mut holes: Vec<_> = scene.ports.iter().filter(|p| p.hole_ms as f64 > least).collect();
    holes.sort_by_key(|p| std::cmp::Reverse(p.hole_ms));
    let mut gaps: Vec<String> =
        holes.iter().take(LISTED).map(|p| format!("{}: {} s without a sample", p.name(), p.hole_ms / 1000)).collect();
    if holes.len() > LISTED {
        gaps.push(format!("{} more ports", holes.len() - LISTED));
    }
    let range = format!("[{}ms]", scene.source.end_ms - scene.source.start_ms);
    let stuck = format!("max_over_time({}{range}) > 0", scene.source.selector("fabric_port_counter_saturated", ""));
    let stuck = scene.source.at(&stuck, scene.source.end_ms)?;
    let of_job =
        stuck.iter().filter(|s| scene.on.on_device(s.labels.get("host"), s.labels.get("device")).any(|j| j == 0));
    let text = |s: &fabriclens_promql::Sample| {
        let l = |name| s.labels.get(name);
        format!("{} {}: {} {}", l("host"), l("device"), l("metric"), l("reason")).trim_end().to_owned()
    };
    let saturated = of_job.map(text).take(LISTED).collect();
    let of = |grade| scene.ports.iter().filter(|p| p.grade == grade).count();
    let mut notes = Vec::new();
    if scene.source.method == Method::Checkpoints {
        notes.push(format!(
            "So many ports for so long are not read sample by sample: totals are differences of counters at {} instants, \
             and plots come from the job's rollups (fabric_job_*), made each 15 s or more.",
            scene.steps.len() + 1
        ));
    }
    if scene.job.hosts.is_empty() {
        notes.push("Nobody told which hosts the job has; without them nothing can be attributed.".to_owned());
    }
    if scene.job.end_ns.is_none() {
        notes.push("The job still runs: this is what was so far.".to_owned());
    }
    Ok(Quality {
        measured: scene.job.hosts.len() - missing.len(),
        missing,
        exclusive_ports: of(Grade::Exclusive),
        shared_ports: of(Grade::Shared),
        gaps,
        saturated,
        notes,
    })
}
