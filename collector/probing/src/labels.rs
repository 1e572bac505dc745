//! How many source ports cover the parallel paths between two switches, and which.

use std::hash::{BuildHasher as _, Hash};

use fabriclens_probe_plan::SOURCE_PORTS;

/// Chance that every one of the parallel paths is crossed.
const COVERED: f64 = 0.9;
/// Lowest source port of a flow label: 0xC000 would be label 0, for which a driver takes a port at random.
const FIRST: u16 = 0xC001;
const COUNT: u64 = 0x3FFF;
/// Each port at such a position changes hourly; the others stay, so that series go on.
const CHANGES: usize = 5;

/// Source ports that cross all of `paths` parallel paths with a chance of [`COVERED`], if a switch's hash spreads them evenly.
///
/// `n = ceil(ln(1 - p^(1/m)) / ln((m - 1)/m))`: a path is missed by `n` ports with the chance `((m-1)/m)^n`.
pub(crate) fn covering(paths: usize) -> usize {
    if paths <= 1 {
        return 1;
    }
    let m = paths as f64;
    ((1.0 - COVERED.powf(1.0 / m)).ln() / ((m - 1.0) / m).ln()).ceil() as usize
}

/// Different source ports of a pair of ports, at most [`SOURCE_PORTS`], the same for the same pair and hour.
pub(crate) fn choose(pair: impl Hash, count: usize, hour: u64) -> Vec<u16> {
    let state = foldhash::fast::FixedState::default();
    let seed = state.hash_one(pair);
    let mut chosen: Vec<u16> = Vec::with_capacity(count.min(SOURCE_PORTS));
    for at in 0..count.min(SOURCE_PORTS) {
        let hour = if at % CHANGES == CHANGES - 1 { hour } else { 0 };
        let mut port = FIRST + (state.hash_one((seed, at, hour)) % COUNT) as u16;
        while chosen.contains(&port) {
            port = if port == u16::MAX { FIRST } else { port + 1 };
        }
        chosen.push(port);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_labels_as_the_formula_says() {
        assert_eq!([0, 1, 2, 4, 16].map(covering), [1, 1, 5, 13, 78]);
    }

    #[test]
    fn each_fifth_port_changes_hourly() {
        let (now, later) = (choose(("a", "b"), 20, 7), choose(("a", "b"), 20, 8));
        assert!(now.iter().all(|port| *port >= FIRST) && now.len() == 20);
        let changed: Vec<usize> = (0..20).filter(|at| now[*at] != later[*at]).collect();
        assert_eq!(changed, [4, 9, 14, 19]);
        assert_eq!(now, choose(("a", "b"), 20, 7));
        assert_ne!(now, choose(("a", "c"), 20, 7));
        let all = choose(("a", "b"), 1000, 0);
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), SOURCE_PORTS, "no port twice");
    }
}
