//! Sums over a group of consecutive frames, which all windows share that contain the group.

use crate::baseline::totals::Totals;
use crate::model::frame::Frame;
use crate::model::priority::{COLUMNS, columns};
use crate::model::signal::Signal;
use std::sync::{Arc, OnceLock};

/// Frames of a group.
pub(super) const GROUP: usize = 8;

/// Sums and counts of a group by column, as far as they were asked for.
#[derive(Debug)]
pub(super) struct FrameGroup(Vec<OnceLock<Totals>>);

impl Default for FrameGroup {
    fn default() -> Self {
        Self(vec![OnceLock::new(); COLUMNS])
    }
}

impl FrameGroup {
    /// Sums and counts of a column; `frames` are those of the group.
    pub fn totals(&self, column: usize, frames: &[Arc<Frame>]) -> &Totals {
        self.0[column].get_or_init(|| {
            let mut totals = Totals::default();
            frames.iter().for_each(|frame| totals.add_column(&frame.columns[column]));
            totals
        })
    }

    /// Forgets the sums of a signal, of which a frame changes.
    pub fn forget(&mut self, signal: Signal) {
        columns(signal).for_each(|column| _ = self.0[column].take());
    }
}
