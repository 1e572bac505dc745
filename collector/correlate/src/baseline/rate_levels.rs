//! The two levels of a job's load: that of its communication, and that of its gaps.

/// Load, relative to the highest, below which differences say nothing: heartbeats, acknowledgments, other traffic.
/// Verdicts on recorded runs are the same from 0.0001 to 0.003.
const FLOOR: f64 = 1e-3;

/// Mean loads of the frames in which a job communicates and of its quiet frames, split so that each frame is nearer to
/// its own level than to the other, by ratio.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLevels {
    pub quiet: f64,
    pub active: f64,
}

impl RateLevels {
    /// Splits loads where their logarithms differ most between the two sides (Otsu's method). `None` if all are equal.
    pub fn of(loads: &[f64]) -> Option<Self> {
        let highest = loads.iter().copied().fold(0.0, f64::max);
        let mut logs: Vec<f64> = loads.iter().map(|load| load.max(FLOOR * highest).ln()).collect();
        logs.sort_by(f64::total_cmp);
        let (n, total) = (logs.len() as f64, logs.iter().sum::<f64>());
        let mut below = 0.0;
        let splits = (1..logs.len()).filter_map(|at| {
            below += logs[at - 1];
            let (quiet, active) = (below / at as f64, (total - below) / (n - at as f64));
            let between = at as f64 * (n - at as f64) * (active - quiet).powi(2);
            (logs[at] > logs[at - 1]).then_some((between, quiet, active))
        });
        let best = splits.max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, quiet, active)| Self { quiet: quiet.exp(), active: active.exp() })
    }

    /// Load halfway between them, by ratio. Verdicts on recorded runs are the same from 0.4 to 0.5 of the way.
    pub fn middle(self) -> f64 {
        (self.quiet * self.active).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_lies_between_gaps_and_communication() {
        let cycle = [0.3, 1.0, 0.9, 1.0, 0.2, 0.002, 0.004, 0.0, 0.003].repeat(6);
        let levels = RateLevels::of(&cycle).unwrap();
        assert!(levels.quiet < 0.004 && levels.active > 0.5, "{levels:?}");
        assert!((0.01..0.1).contains(&levels.middle()), "frames at the edges are communication: {levels:?}");
        let scaled: Vec<f64> = cycle.iter().map(|load| load * 7e9).collect();
        let same = RateLevels::of(&scaled).unwrap().middle() / 7e9;
        assert!((same / levels.middle() - 1.0).abs() < 1e-9, "it does not depend on the unit");
        assert!(RateLevels::of(&[1.0; 9]).is_none(), "there is one level only");
        assert!(RateLevels::of(&[]).is_none());
    }
}
