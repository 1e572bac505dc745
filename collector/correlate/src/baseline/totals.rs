//! Sums and counts of one column over several frames, by port. They are computed for a section of the ports when it is first asked for,
//! because an incident concerns few ports of a large fabric.

use crate::model::frame::{BLOCK, Block, Column, Frame};
use std::sync::{Arc, OnceLock};

/// Blocks of ports in a section: enough that frames are read one after the other.
const SECTION: usize = 16;

/// Sums and counts of a column by section.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(OnceLock<Box<[OnceLock<SectionTotals>]>>);

/// Sums and counts of a section, in blocks of ports as columns have them.
#[derive(Clone, Debug, Default)]
pub(super) struct SectionTotals([Option<BlockTotals>; SECTION]);

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
    /// The totals of a section, computed once; `None` if no frame has it.
    pub fn section(
        &self,
        section: usize,
        (frames, column): (&[Arc<Frame>], usize),
        compute: impl FnOnce() -> SectionTotals,
    ) -> Option<&SectionTotals> {
        let blocks = || frames.iter().map(|frame| frame.columns[column].len()).max().unwrap_or(0);
        let all = self.0.get_or_init(|| (0..blocks().div_ceil(SECTION)).map(|_| OnceLock::new()).collect());
        all.get(section).map(|totals| totals.get_or_init(compute))
    }
}

impl SectionTotals {
    /// The section of a port.
    pub fn of(port: usize) -> usize {
        port / (SECTION * BLOCK)
    }

    /// Adds the values of a frame in a section.
    pub fn add_column(&mut self, column: &Column, section: usize) {
        for (totals, block) in self.0.iter_mut().zip(column.blocks_from(section * SECTION)) {
            if let Some(block) = block {
                totals.get_or_insert_default().add_values(block);
            }
        }
    }

    /// Adds the sums and counts of other frames.
    pub fn add(&mut self, other: &Self) {
        for (totals, more) in self.0.iter_mut().zip(&other.0) {
            if let Some(more) = more {
                totals.get_or_insert_default().add(more);
            }
        }
    }

    /// Sum of the values of a port, which is in this section, and the frames in which it has one; zeros if there is none.
    pub fn get(&self, port: usize) -> (f64, u32) {
        let Some(block) = &self.0[port / BLOCK % SECTION] else { return (0.0, 0) };
        let sum = block.sums.as_deref().map_or(0.0, |sums| sums[port % BLOCK]);
        let partly = block.counts.as_deref().map_or(0, |counts| counts[port % BLOCK]);
        (sum, (block.full + partly).into())
    }
}

impl BlockTotals {
    fn add_values(&mut self, block: &Block) {
        if block.is_full() {
            self.full += 1;
        } else {
            for (count, value) in self.counts().iter_mut().zip(&*block.values) {
                *count += u16::from(!value.is_nan());
            }
        }
        if block.moves {
            for (sum, value) in self.sums().iter_mut().zip(&*block.values) {
                *sum += f64::from(if value.is_nan() { 0.0 } else { *value });
            }
        }
    }

    fn add(&mut self, more: &Self) {
        self.full += more.full;
        if let Some(more) = more.counts.as_deref() {
            self.counts().iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        if let Some(more) = more.sums.as_deref() {
            self.sums().iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

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
    use crate::model::signal::Signal;

    fn add(totals: &mut SectionTotals, frame: &Frame) {
        totals.add_column(&frame.columns[Signal::Tx as usize], 0);
    }

    #[test]
    fn zeros_are_counted() {
        let mut frame = Frame::new(0);
        frame.set(Signal::Tx, 3, 0.0);
        frame.set(Signal::Tx, 130, 2.0);
        let (mut totals, mut twice) = (SectionTotals::default(), SectionTotals::default());
        add(&mut totals, &frame);
        (0..2).for_each(|_| twice.add(&totals));
        assert_eq!([3, 130, 4, 900].map(|port| twice.get(port)), [(0.0, 2), (4.0, 2), (0.0, 0), (0.0, 0)]);
    }

    #[test]
    fn full_and_partly_measured_frames_count_alike() {
        let (mut frame, mut totals) = (Frame::new(0), SectionTotals::default());
        (0..BLOCK).for_each(|port| frame.set(Signal::Tx, port, 1.0));
        add(&mut totals, &frame);
        frame.set(Signal::Tx, 7, f64::NAN);
        add(&mut totals, &frame);
        assert_eq!([6, 7, BLOCK].map(|port| totals.get(port)), [(2.0, 2), (1.0, 1), (0.0, 0)]);
        frame.set(Signal::Tx, 7, 3.0);
        let mut twice = SectionTotals::default();
        add(&mut twice, &frame);
        twice.add(&totals);
        assert_eq!([6, 7].map(|port| twice.get(port)), [(3.0, 3), (4.0, 2)]);
    }

    #[test]
    fn a_section_is_computed_once_and_only_if_asked_for() {
        const PORTS: usize = SECTION * BLOCK;
        let (mut frame, column) = (Frame::new(0), Signal::Tx as usize);
        [0, PORTS, PORTS + 9].iter().for_each(|port| frame.set(Signal::Tx, *port, 1.0));
        let (frames, totals, mut computed) = ([Arc::new(frame)], Totals::default(), Vec::new());
        for port in [PORTS, PORTS + 9, 2 * PORTS, PORTS + 1] {
            let section = SectionTotals::of(port);
            let found = totals.section(section, (&frames, column), || {
                computed.push(section);
                let mut totals = SectionTotals::default();
                totals.add_column(&frames[0].columns[column], section);
                totals
            });
            let want = (port < 2 * PORTS).then_some(if port == PORTS + 1 { (0.0, 0) } else { (1.0, 1) });
            assert_eq!(found.map(|section| section.get(port)), want, "{port}");
        }
        assert_eq!(computed, [1]);
    }
}
