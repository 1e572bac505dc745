//! Who suffers: jobs that move less than they did, by more than they usually differ. A job that merely runs at the time
//! is no victim.

use crate::scene::{Fare, Scene};
use std::collections::BTreeMap;

/// What a job must have lost of its usual traffic.
const LOSS: f64 = 0.1;
/// Jobs that differ by no more than this by chance are steady: what they lose, they lose.
const STEADY: f64 = 0.05;
/// How often its usual difference any other job's loss must exceed that.
const CHANCES: f64 = 2.0;

/// Jobs that lose; those who cause it are left out. `before` is what jobs moved of their usual just before, where that was
/// less already: they lose what they lose beyond that.
pub fn victims(scene: &Scene<'_>, culprits: &[usize], before: &BTreeMap<usize, f64>) -> Vec<usize> {
    let lost = |job: &usize| {
        let part = before.get(job).copied().unwrap_or(1.0);
        let fare = scene.fare(*job).map(|f| Fare { ratio: f.ratio / part, chance: f.chance / part, ..f });
        // Who moved next to nothing has nothing more to lose.
        part > LOSS && !culprits.contains(job) && fare.is_some_and(suffers)
    };
    (0..scene.fabric.jobs.len()).filter(lost).collect()
}

/// What jobs that lose already move of their usual.
pub fn low(scene: &Scene<'_>) -> BTreeMap<usize, f64> {
    let fares = scene.fares().iter().enumerate().filter_map(|(job, fare)| Some((job, (*fare)?)));
    fares.filter(|(_, fare)| suffers(*fare)).map(|(job, fare)| (job, fare.ratio)).collect()
}

fn suffers(fare: Fare) -> bool {
    let doubt = if fare.chance > STEADY { CHANCES * fare.chance } else { 0.0 };
    fare.ratio + doubt < 1.0 - LOSS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_must_exceed_what_a_job_differs_by() {
        let fare = |ratio, chance| Fare { ratio, chance, high: 1.0 };
        assert!(suffers(fare(0.88, 0.04)), "a steady job");
        assert!(!suffers(fare(0.92, 0.04)), "it lost less than a tenth");
        assert!(!suffers(fare(0.78, 0.09)), "its traffic differs as much by chance");
        assert!(suffers(fare(0.6, 0.09)));
    }
}
