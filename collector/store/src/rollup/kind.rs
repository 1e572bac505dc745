//! The kinds of rollups, their labels and their interval.

use fabriclens_model::{Labels, Rollup};

/// Length of a rollup interval, ms. An interval begins at a multiple of it and is stamped with its end.
pub const RESOLUTION: i64 = 60_000;

/// Label that names the kind of a rollup. Arrival refuses it in samples, and it sorts right after `__name__`, so that the
/// rollups of a metric are adjacent.
pub const LABEL: &str = fabriclens_model::names::ROLLUP;

/// All kinds, ordered by name.
pub const ALL: [Rollup; 5] = [Rollup::Increase, Rollup::Last, Rollup::Max, Rollup::Mean, Rollup::Min];

/// Value of [`LABEL`] for a kind.
pub fn name(rollup: Rollup) -> &'static str {
    match rollup {
        Rollup::Increase => "increase",
        Rollup::Last => "last",
        Rollup::Max => "max",
        Rollup::Mean => "mean",
        Rollup::Min => "min",
    }
}

/// Labels of the samples behind a rollup; labels of samples are returned unchanged.
pub fn sample_labels(of: Labels) -> Labels {
    if of.get(LABEL).is_empty() { of } else { Labels::new(of.iter().filter(|(n, _)| *n != LABEL)) }
}

/// Start of the interval that contains a time.
pub fn interval_start(time: i64) -> i64 {
    time.div_euclid(RESOLUTION).saturating_mul(RESOLUTION)
}
