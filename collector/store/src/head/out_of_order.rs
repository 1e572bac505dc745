//! Out-of-order path: rows that are not newer than everything before, split column by column into new samples,
//! duplicates and conflicts.

use super::generation::Generation;
use crate::rows::Appended;
use fabriclens_model::{absent, is_absent};
use std::sync::Arc;

/// Inserts one row of a layout. If a sample already exists in this generation, or in an older one that is not a block
/// yet, the first one is kept. Samples in blocks are resolved the same way when they are read or merged.
pub fn insert(head: &mut Generation, older: &[Arc<Generation>], layout: u32, time: i64, mut row: Vec<f64>) -> Appended {
    let mut sum = Appended::default();
    for (column, value) in row.iter_mut().enumerate() {
        if is_absent(*value) {
            continue;
        }
        let series = head.layouts[layout as usize].series[column];
        let labels = &head.series[series as usize].labels;
        let found = head
            .at(series, time)
            .or_else(|| older.iter().find_map(|g| g.series.find(labels).and_then(|s| g.at(s, time))));
        match found {
            None => {
                sum.accepted += 1;
                continue;
            }
            Some(v) if v.to_bits() == value.to_bits() => sum.duplicates += 1,
            Some(_) => sum.conflicts += 1,
        }
        *value = absent();
    }
    if sum.accepted > 0 {
        head.layouts[layout as usize].insert_late(time, &row);
    }
    sum
}
