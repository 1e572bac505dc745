//! The detectors over a recording, as a live collector would have run them: each tick sees only what was before it.

use crate::frames::frames;
use crate::incident::Incident;
use crate::limits::Limits;
use crate::recording::Recording;
use crate::signal::ALL;
use crate::topology::{Described, Names, Role, merge};
use crate::watch::Watch;
use fabriclens_promql::{Engine, QueryError};

/// What a recording holds, in the order in which it began; those that were open at its end have none.
///
/// # Errors
/// [`QueryError`] when a signal cannot be asked for.
pub fn backtest(recording: Recording, thresholds: Limits) -> Result<Vec<Incident>, QueryError> {
    let ticks = &recording.ticks_ms;
    let step_ms = ticks.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(1000);
    let limits = fabriclens_promql::Limits { max_steps: usize::MAX, max_samples: usize::MAX, ..Default::default() };
    let engine = Engine::new(limits);
    let all = frames(&engine, &recording.memory, &recording.fabric, ALL.iter(), ticks, step_ms)?;
    let mut watch = Watch::new(recording.fabric, thresholds);
    let mut incidents = Vec::new();
    for frame in all {
        watch.push(frame);
        if let Some(inferred) = watch.cables(|fabric, node| fabric.topology.nodes[node].role != Role::Host) {
            let all: Vec<Described> = recording.described.iter().cloned().chain([inferred]).collect();
            watch.rewire(&merge(&all, &Names::default()));
        }
        incidents.extend(watch.judge());
    }
    incidents.extend(watch.open());
    Ok(incidents)
}
