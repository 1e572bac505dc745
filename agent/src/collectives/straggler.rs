//! Which rank the others wait for, by the time that each spends outside of MPI.
//!
//! Ranks that work in step take the same time for a step; one that is longer outside of MPI is shorter in it. So the rank that is least
//! in MPI is the one that others wait for, and messages of MPI do not keep it, but what it computes, reads or writes. A rank for which
//! others wait because the network is slow to it waits in MPI itself, and is not named.

/// Least difference of the share of time in MPI to the mean of the others.
const LEAST: f64 = 0.05;

/// A rank of this host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// Number in `MPI_COMM_WORLD`.
    pub number: u32,
    /// Share of the time since the last look that it was in MPI; `None` if unknown.
    pub share: Option<f64>,
}

/// The rank that is clearly less in MPI than the others; `None` if there is none, or if the share of one is unknown.
pub fn straggler(ranks: &[Rank]) -> Option<u32> {
    let mut all: Vec<(u32, f64)> = ranks.iter().map(|rank| Some((rank.number, rank.share?))).collect::<Option<_>>()?;
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(number, least), others @ ..] = &all[..] else { return None };
    let second = others.first()?.1;
    let mean = others.iter().map(|(_, share)| share).sum::<f64>() / others.len() as f64;
    (mean - least >= LEAST && second - least >= LEAST / 2.0).then_some(*number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &[f64]) -> Option<u32> {
        let rank = |(number, share): (u32, &f64)| Rank { number, share: Some(*share) };
        straggler(&(0..).zip(shares).map(rank).collect::<Vec<_>>())
    }

    #[test]
    fn the_rank_that_is_least_in_mpi_holds_back_the_others() {
        assert_eq!(of(&[0.8, 0.8, 0.1, 0.8]), Some(2));
        assert_eq!(of(&[0.10, 0.02]), Some(1));
        assert_eq!(of(&[0.5, 0.52, 0.51]), None, "too close");
        assert_eq!(of(&[0.1, 0.11, 0.8, 0.8]), None, "two of them");
        assert_eq!((of(&[0.5]), of(&[])), (None, None));
        let unknown = [Rank { number: 0, share: Some(0.1) }, Rank { number: 1, share: None }];
        assert_eq!(straggler(&unknown), None);
    }
}
