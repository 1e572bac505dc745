//! Runs every target on its seeds, on earlier findings, and briefly on random mutations of both. CI runs this;
//! `cargo xtask fuzz` finds more with coverage, but its build alone takes minutes.

use fabriclens_fuzz::targets::{self, Target};
use fabriclens_fuzz::{corpus, mutate::Mutator};
use std::time::{Duration, Instant};

/// Time for which each target runs on mutations.
const MUTATION_TIME: Duration = Duration::from_millis(500);

fn run(target: &Target) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{} has no seed", target.name);
    corpus.iter().for_each(|seed| (target.run)(seed));
    let mut mutator = Mutator::new(&corpus);
    let begin = Instant::now();
    while begin.elapsed() < MUTATION_TIME {
        (target.run)(mutator.next());
    }
}

#[test]
fn targets_survive_seeds_findings_and_mutations() {
    // A panic names the target by its thread.
    let threads = targets::ALL.iter().map(|target| {
        let thread = std::thread::Builder::new().name(target.name.into());
        thread.spawn(|| run(target)).expect("a thread can be started")
    });
    let failed: Vec<_> = threads.collect::<Vec<_>>().into_iter().filter_map(|thread| thread.join().err()).collect();
    assert!(failed.is_empty(), "{} targets failed, see above", failed.len());
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = targets::ALL.iter().map(|t| t.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), targets::ALL.len());
}
