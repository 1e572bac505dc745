//! Who suffers: jobs that move less than they did, by more than they usually differ. A job that merely runs at the time
//! is no victim.

use crate::scene::Scene;

/// What a job must have lost of its usual traffic.
const LOSS: f64 = 0.1;

/// Jobs that lose; those who cause it are left out.
pub fn victims(scene: &Scene<'_>, culprits: &[usize]) -> Vec<usize> {
    let lost = |job: &usize| !culprits.contains(job) && scene.fare(*job).is_some_and(|fare| fare.lost(LOSS));
    (0..scene.fabric.jobs.len()).filter(lost).collect()
}
