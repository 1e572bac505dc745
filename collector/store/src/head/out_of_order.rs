//! Out-of-order path: splits a row that is not newer than everything before, column by column, into new samples,
//! duplicates and conflicts.

use crate::rows::Appended;
use fabriclens_model::{absent, is_absent};

/// Makes the columns absent that have an `existing` sample at the row's time, because the first sample is kept. Samples
/// in blocks are resolved the same way when they are read or merged.
pub fn drop_existing(row: &mut [f64], mut existing: impl FnMut(usize) -> Option<f64>) -> Appended {
    let mut sum = Appended::default();
    for (column, value) in row.iter_mut().enumerate().filter(|(_, v)| !is_absent(**v)) {
        match existing(column) {
            None => {
                sum.accepted += 1;
                continue;
            }
            Some(v) if v.to_bits() == value.to_bits() => sum.duplicates += 1,
            Some(_) => sum.conflicts += 1,
        }
        *value = absent();
    }
    sum
}
