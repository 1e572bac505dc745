//! Sums and counts of one signal over several frames, by port.

use crate::model::frame::{BLOCK, Column};

/// Sums and counts by port, in blocks of ports as columns have them.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(Vec<Option<Box<BlockTotals>>>);

#[derive(Clone, Debug)]
struct BlockTotals {
    /// Frames with a value.
    counts: [u16; BLOCK],
    /// `None` while all values are zero, as most counters of events are.
    sums: Option<Box<[f64; BLOCK]>>,
}

impl Totals {
    /// Adds the values of a frame.
    pub fn add_column(&mut self, column: &Column) {
        for (at, block) in column.blocks() {
            let totals = self.block(at);
            for (count, value) in totals.counts.iter_mut().zip(&block.values) {
                *count += u16::from(!value.is_nan());
            }
            if block.moves {
                for (sum, value) in totals.sums().iter_mut().zip(&block.values) {
                    *sum += f64::from(if value.is_nan() { 0.0 } else { *value });
                }
            }
        }
    }

    /// Adds the sums and counts of other frames.
    pub fn add(&mut self, other: &Self) {
        let blocks = other.0.iter().enumerate().filter_map(|(at, block)| Some((at, block.as_deref()?)));
        for (at, more) in blocks {
            let totals = self.block(at);
            totals.counts.iter_mut().zip(&more.counts).for_each(|(count, more)| *count += more);
            if let Some(more) = more.sums.as_deref() {
                totals.sums().iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
    }

    /// Sum of a port's values, and the frames in which it has one; zeros if there is none.
    pub fn get(&self, port: usize) -> (f64, u32) {
        let Some(block) = self.0.get(port / BLOCK).and_then(Option::as_deref) else { return (0.0, 0) };
        let sum = block.sums.as_deref().map_or(0.0, |sums| sums[port % BLOCK]);
        (sum, block.counts[port % BLOCK].into())
    }

    fn block(&mut self, at: usize) -> &mut BlockTotals {
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at].get_or_insert_with(|| Box::new(BlockTotals { counts: [0; BLOCK], sums: None }))
    }
}

impl BlockTotals {
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
}
