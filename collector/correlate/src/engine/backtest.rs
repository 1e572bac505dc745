//! Runs the detectors over a recording as a live collector would: each tick sees only earlier samples.

use crate::detectors::thresholds::Thresholds;
use crate::engine::recording::Recording;
use crate::model::fabric::Job;
use crate::model::incident::Incident;
use crate::model::topology::{HostNames, Role, TopologySource, merge};
use crate::signals::query_eval::query_frames;
use crate::signals::table::ALL;
use crate::tracker::incident_tracker::IncidentTracker;
use fabriclens_promql::{Engine, QueryError};

/// Incidents of a recording in the order in which they began. Incidents that are open at its end have no end.
///
/// # Errors
/// [`QueryError`] if a signal cannot be queried.
pub fn backtest(recording: Recording, thresholds: Thresholds) -> Result<Vec<Incident>, QueryError> {
    let ticks = &recording.ticks_ms;
    let step_ms = ticks.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(1000);
    let limits = fabriclens_promql::Limits { max_steps: usize::MAX, max_samples: usize::MAX, ..Default::default() };
    let engine = Engine::new(limits);
    let all = query_frames(&engine, &recording.memory, &recording.fabric, ALL.iter(), ticks, step_ms)?;
    let mut watch = IncidentTracker::new(recording.fabric.clone(), thresholds);
    let mut incidents = Vec::new();
    let mut known = None;
    for frame in all {
        let names = |job: &Job| (job.id.clone(), job.since_ns);
        let running: Vec<_> = recording.running(frame.time_ns).map(names).collect();
        if known.as_ref() != Some(&running) {
            watch.set_jobs(recording.running(frame.time_ns).cloned().collect());
            known = Some(running);
        }
        watch.push(frame);
        if let Some(inferred) = watch.cables(|fabric, node| fabric.topology.nodes[node].role != Role::Host) {
            let all: Vec<TopologySource> = recording.described.iter().cloned().chain([inferred]).collect();
            watch.rewire(&merge(&all, &HostNames::default()));
        }
        incidents.extend(watch.evaluate());
    }
    incidents.extend(watch.open());
    Ok(incidents)
}
