//! The highest throughput of each job since it began. A baseline remembers a minute, and a job may evaluate, compute or
//! wait for its input for longer: when it goes on, it moves what it always did.

use crate::model::fabric::Fabric;
use std::collections::HashMap;

/// Lengths of windows in frames.
const LENGTHS: [usize; 3] = [10, 20, 40];

/// The highest means over windows of [`LENGTHS`], bytes per second; 0 where none was that long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Highs([f64; LENGTHS.len()]);

impl Highs {
    /// The highest mean over `ticks` frames, or over fewer ones: short windows have higher means.
    pub fn over(self, ticks: usize) -> f64 {
        let known = LENGTHS.iter().zip(self.0).filter(|(length, _)| **length <= ticks.max(LENGTHS[0]));
        known.map(|(_, high)| high).rfind(|high| *high > 0.0).unwrap_or(0.0)
    }
}

/// Those of all jobs, by id and begin.
#[derive(Default)]
pub(super) struct JobHighs(HashMap<(String, i64), Highs>);

impl JobHighs {
    /// Learns from a job's calm load, given as the mean of its last frames by their number; gives all that is known of the job.
    pub fn learn(&mut self, fabric: &Fabric, job: usize, last_mean: impl Fn(usize) -> Option<f64>) -> Highs {
        let key = (fabric.jobs[job].id.clone(), fabric.jobs[job].since_ns);
        let highs = self.0.entry(key).or_default();
        for (length, high) in LENGTHS.iter().zip(&mut highs.0) {
            *high = last_mean(*length).map_or(*high, |mean| mean.max(*high));
        }
        *highs
    }

    /// Forgets jobs that the fabric no longer has.
    pub fn retain(&mut self, fabric: &Fabric) {
        if self.0.len() > 2 * fabric.jobs.len() {
            let known: HashMap<&str, i64> = fabric.jobs.iter().map(|job| (job.id.as_str(), job.since_ns)).collect();
            self.0.retain(|(id, since_ns), _| known.get(id.as_str()) == Some(since_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_windows_have_their_own_high() {
        let highs = Highs([9.0, 6.0, 0.0]);
        assert_eq!([5, 10, 19, 20, 60].map(|ticks| highs.over(ticks)), [9.0, 9.0, 9.0, 6.0, 6.0]);
        assert_eq!(Highs::default().over(20), 0.0);
    }
}
