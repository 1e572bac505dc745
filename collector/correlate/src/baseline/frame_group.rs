//! Sums over a group of consecutive frames, which all windows share that contain the group.

use crate::baseline::totals::{SectionTotals, Totals};
use crate::model::frame::Frame;
use crate::model::priority::{COLUMNS, columns};
use crate::model::signal::Signal;
use std::sync::Arc;

/// Frames of a group.
pub(super) const GROUP: usize = 8;

/// Sums and counts of a group by column, as far as they were asked for.
#[derive(Debug)]
pub(super) struct FrameGroup(Vec<Totals>);

impl Default for FrameGroup {
    fn default() -> Self {
        Self(vec![Totals::default(); COLUMNS])
    }
}

impl FrameGroup {
    /// Sums and counts of a section of a column; `frames` are those of the group.
    pub fn section(&self, column: usize, section: usize, frames: &[Arc<Frame>]) -> Option<&SectionTotals> {
        self.0[column].section(section, (frames, column), || {
            let mut totals = SectionTotals::default();
            frames.iter().for_each(|frame| totals.add_column(&frame.columns[column], section));
            totals
        })
    }

    /// Forgets the sums of a signal, of which a frame changes.
    pub fn forget(&mut self, signal: Signal) {
        columns(signal).for_each(|column| _ = std::mem::take(&mut self.0[column]));
    }
}
