//! Who suffers: jobs that move less than they did, by more than they usually differ. A job that merely runs at the time
//! is no victim.

use crate::limits::{Limits, limits};
use crate::scene::{Fare, Scene};
use std::collections::BTreeMap;

limits! {
    /// what a job must have lost to be a victim
    LOSS = "victims.loss", 0.1, "share of usual bytes";
    /// jobs that differ by no more than this by chance are steady: what they lose, they lose
    STEADY = "victims.steady", 0.05, "share of usual bytes";
    /// how often its chance the loss of any other must exceed that
    CHANCES = "victims.chances", 2.0, "chances";
}

/// Jobs that lose; those who cause it are left out. `before` is what jobs moved of their usual just before, where that was
/// less already: they lose what they lose beyond that.
pub fn victims(scene: &Scene<'_>, culprits: &[usize], before: &BTreeMap<usize, f64>) -> Vec<usize> {
    let lost = |job: &usize| {
        let part = before.get(job).copied().unwrap_or(1.0);
        let fare = scene.fare(*job).map(|f| Fare { ratio: f.ratio / part, chance: f.chance / part, ..f });
        // Who moved next to nothing has nothing more to lose.
        part > scene.limit(&LOSS) && !culprits.contains(job) && fare.is_some_and(|fare| suffers(scene.limits, fare))
    };
    (0..scene.fabric.jobs.len()).filter(lost).collect()
}

/// What jobs that lose already move of their usual.
pub fn low(scene: &Scene<'_>) -> BTreeMap<usize, f64> {
    let fares = scene.fares().iter().enumerate().filter_map(|(job, fare)| Some((job, (*fare)?)));
    fares.filter(|(_, fare)| suffers(scene.limits, *fare)).map(|(job, fare)| (job, fare.ratio)).collect()
}

fn suffers(limits: &Limits, fare: Fare) -> bool {
    let doubt = if fare.chance > limits.get(&STEADY) { limits.get(&CHANCES) * fare.chance } else { 0.0 };
    fare.ratio + doubt < 1.0 - limits.get(&LOSS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_must_exceed_what_a_job_differs_by() {
        let fare = |ratio, chance| Fare { ratio, chance, high: 1.0 };
        let mut limits = Limits::default();
        assert!(suffers(&limits, fare(0.88, 0.04)), "a steady job");
        assert!(!suffers(&limits, fare(0.92, 0.04)), "it lost less than a tenth");
        assert!(!suffers(&limits, fare(0.78, 0.09)), "its traffic differs as much by chance");
        assert!(suffers(&limits, fare(0.6, 0.09)));
        limits.set("victims.loss", 0.2).unwrap();
        assert!(!suffers(&limits, fare(0.88, 0.04)), "it is the user's number");
    }
}
