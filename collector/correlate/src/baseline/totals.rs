//! Sums and counts of one signal over several frames, by port.

use crate::model::frame::{BLOCK, Column};

/// Sums and counts by port, in blocks of ports as columns have them.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(Vec<Option<BlockTotals>>);

#[derive(Clone, Debug, Default)]
struct BlockTotals {
    /// Frames in which each port has a value, as in most.
    full: u16,
    /// Other frames with a value; `None` if there are none.
    counts: Option<Box<[u16; BLOCK]>>,
    /// `None` while all values are zero, as most counters of events are.
    sums: Option<Box<[f64; BLOCK]>>,
}

impl Totals {
    /// Adds the values of a frame.
    pub fn add_column(&mut self, column: &Column) {
        for (at, block) in column.blocks() {
            let totals = self.block(at);
            if block.is_full() {
                totals.full += 1;
            } else {
                for (count, value) in totals.counts().iter_mut().zip(&*block.values) {
                    *count += u16::from(!value.is_nan());
                }
            }
            if block.moves {
                for (sum, value) in totals.sums().iter_mut().zip(&*block.values) {
                    *sum += f64::from(if value.is_nan() { 0.0 } else { *value });
                }
            }
        }
    }

    /// Adds the sums and counts of other frames.
    pub fn add(&mut self, other: &Self) {
        let blocks = other.0.iter().enumerate().filter_map(|(at, block)| Some((at, block.as_ref()?)));
        for (at, more) in blocks {
            let totals = self.block(at);
            totals.full += more.full;
            if let Some(more) = more.counts.as_deref() {
                totals.counts().iter_mut().zip(more).for_each(|(count, more)| *count += more);
            }
            if let Some(more) = more.sums.as_deref() {
                totals.sums().iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
    }

    /// Sum of a port's values, and the frames in which it has one; zeros if there is none.
    pub fn get(&self, port: usize) -> (f64, u32) {
        let Some(block) = self.0.get(port / BLOCK).and_then(Option::as_ref) else { return (0.0, 0) };
        let sum = block.sums.as_deref().map_or(0.0, |sums| sums[port % BLOCK]);
        let partly = block.counts.as_deref().map_or(0, |counts| counts[port % BLOCK]);
        (sum, (block.full + partly).into())
    }

    fn block(&mut self, at: usize) -> &mut BlockTotals {
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at].get_or_insert_default()
    }
}

impl BlockTotals {
    fn counts(&mut self) -> &mut [u16; BLOCK] {
        self.counts.get_or_insert_with(|| Box::new([0; BLOCK]))
    }

    fn sums(&mut self) -> &mut [f64; BLOCK] {
        self.sums.get_or_insert_with(|| Box::new([0.0; BLOCK]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::frame::Frame;
    use crate::model::signal::Signal;

    #[test]
    fn zeros_are_counted() {
        let mut frame = Frame::new(0);
        frame.set(Signal::Tx, 3, 0.0);
        frame.set(Signal::Tx, 130, 2.0);
        let (mut totals, mut twice) = (Totals::default(), Totals::default());
        totals.add_column(&frame.columns[Signal::Tx as usize]);
        (0..2).for_each(|_| twice.add(&totals));
        assert_eq!([3, 130, 4, 900].map(|port| twice.get(port)), [(0.0, 2), (4.0, 2), (0.0, 0), (0.0, 0)]);
    }

    #[test]
    fn full_and_partly_measured_frames_count_alike() {
        let (mut frame, mut totals) = (Frame::new(0), Totals::default());
        (0..BLOCK).for_each(|port| frame.set(Signal::Tx, port, 1.0));
        totals.add_column(&frame.columns[Signal::Tx as usize]);
        frame.set(Signal::Tx, 7, f64::NAN);
        totals.add_column(&frame.columns[Signal::Tx as usize]);
        assert_eq!([6, 7, BLOCK].map(|port| totals.get(port)), [(2.0, 2), (1.0, 1), (0.0, 0)]);
        frame.set(Signal::Tx, 7, 3.0);
        let mut twice = Totals::default();
        twice.add_column(&frame.columns[Signal::Tx as usize]);
        twice.add(&totals);
        assert_eq!([6, 7].map(|port| twice.get(port)), [(3.0, 3), (4.0, 2)]);
    }
}
