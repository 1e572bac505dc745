//! Appends samples of histograms. Each is one row: it is stored as a whole or not at all.

use super::generation::Generation;
use super::sealed_times::SealedTimes;
use crate::rows::Appended;
use fabriclens_base::Sender;
use fabriclens_model::{RowGroup, absent};
use std::sync::Arc;

impl Generation {
    /// Logs and stores a group with the components of one histogram series, whose shape and times have been checked. A sample
    /// counts once, and only if all of it is stored.
    pub fn append_histograms(
        &mut self,
        group: &RowGroup,
        sender: Sender<'_>,
        older: &[Arc<Self>],
        log: &mut Vec<u8>,
    ) -> Appended {
        let (mut sum, rows) = (Appended::default(), group.times.len());
        if !self.takes_histogram(&group.series, sender) {
            sum.over_series_limit += rows as u64;
            return sum;
        }
        let mut sealed = SealedTimes::default();
        for (r, time) in group.times.iter().enumerate() {
            let row: Vec<f64> = group.values.iter().skip(r).step_by(rows).copied().collect();
            match self.is_known(group, &row, *time, older, &mut sealed) {
                Some(true) => sum.duplicates += 1,
                Some(false) => sum.conflicts += 1,
                None => {
                    let one = RowGroup { series: group.series.clone(), times: vec![*time], values: row };
                    let appended = self.append(&one, sender, older, log);
                    if appended.accepted > 0 {
                        sum.accepted += 1;
                    } else if appended.over_series_limit > 0 {
                        sum.over_series_limit += 1;
                    } else {
                        sum.out_of_order += 1;
                    }
                }
            }
        }
        sum.histograms = sum.accepted + sum.duplicates;
        sum
    }

    /// Whether the sample at this time is the same; `None` if there is none.
    fn is_known(
        &self,
        group: &RowGroup,
        row: &[f64],
        time: i64,
        older: &[Arc<Self>],
        sealed: &mut SealedTimes,
    ) -> Option<bool> {
        let count = group.series.first()?;
        let newest = older.iter().map(|old| old.newest(count)).fold(self.newest(count), i64::max);
        if time > newest {
            return None;
        }
        self.sample_at(count, time, older, sealed)?;
        let mut cells = group.series.iter().zip(row);
        Some(cells.all(|(labels, value)| {
            self.sample_at(labels, time, older, sealed).unwrap_or_else(absent).to_bits() == value.to_bits()
        }))
    }
}
