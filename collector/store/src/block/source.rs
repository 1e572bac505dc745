//! What a block is built from: a generation of the head, or other blocks. Both give series in order of their labels
//! and rows by layout.

use super::read::Reader;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::rollup::RollupSource;
use fabriclens_model::{Labels, is_absent};
use std::sync::Arc;

/// Columns of a series in a source: layout, and column of the layout (head) or number of the series (block).
pub type Home = (u32, u32);

/// One input of a build.
pub enum Source {
    /// Rows in memory; the second is its series in order of labels.
    Head(Arc<Generation>, Vec<u32>),
    /// A block.
    Block(Box<Reader>),
    /// What stands for the samples of a block.
    Rollup(Box<RollupSource>),
}

impl Source {
    /// Of a generation.
    pub fn head(generation: Arc<Generation>) -> Self {
        let mut order: Vec<u32> = (0..generation.series.len() as u32).collect();
        order.sort_unstable_by(|a, b| {
            let labels = |i: &u32| &generation.series[*i as usize].labels;
            labels(a).cmp(labels(b))
        });
        Self::Head(generation, order)
    }

    /// Number of series.
    pub fn series(&self) -> usize {
        match self {
            Self::Head(_, order) => order.len(),
            Self::Block(r) => r.index.series(),
            Self::Rollup(r) => r.series(),
        }
    }

    /// Labels of the n-th series in order.
    pub fn labels(&self, n: usize) -> Labels {
        match self {
            Self::Head(g, order) => g.series[order[n] as usize].labels.clone(),
            Self::Block(r) => r.index.labels(n),
            Self::Rollup(r) => r.labels(n),
        }
    }

    /// Where the columns of the n-th series are.
    pub fn homes(&self, n: usize) -> Vec<Home> {
        match self {
            Self::Head(g, order) => g.series[order[n] as usize].homes.clone(),
            Self::Block(r) => vec![(r.index.layout(n) as u32, n as u32)],
            Self::Rollup(r) => vec![r.home(n)],
        }
    }

    /// Times of each chunk of a layout.
    pub fn times(&mut self, layout: u32) -> Result<Vec<Arc<[i64]>>, StoreError> {
        match self {
            Self::Head(g, _) => {
                let l = &g.layouts[layout as usize];
                let sealed = l.sealed.iter().map(|c| c.times().map(Arc::from));
                let open = [&l.open, &l.late].map(|r| Ok(Arc::from(r.times())));
                sealed.chain(open).collect::<Result<_, _>>().map_err(in_memory)
            }
            Self::Block(r) => {
                r.forget_times();
                (0..r.index.layouts[layout as usize].len()).map(|c| r.times(layout as usize, c)).collect()
            }
            Self::Rollup(r) => Ok(vec![r.times(layout)?]),
        }
    }

    /// Calls `put(chunk, row, value)` for each sample of a column.
    pub fn column(&mut self, home: Home, mut put: impl FnMut(usize, usize, f64)) -> Result<(), StoreError> {
        let mut each = |chunk: usize, values: &mut dyn Iterator<Item = f64>| {
            values.enumerate().filter(|(_, v)| !is_absent(*v)).for_each(|(row, v)| put(chunk, row, v));
        };
        match self {
            Self::Head(g, _) => {
                let l = &g.layouts[home.0 as usize];
                for (i, chunk) in l.sealed.iter().enumerate() {
                    let values = chunk.column(home.1 as usize).map_err(in_memory)?;
                    each(i, &mut values.into_iter());
                }
                for (i, rows) in [&l.open, &l.late].into_iter().enumerate() {
                    each(l.sealed.len() + i, &mut rows.column(home.1 as usize));
                }
            }
            Self::Block(r) => {
                let at: Vec<(u64, u32)> = r.index.columns(home.1 as usize).collect();
                for (i, at) in at.into_iter().enumerate().filter(|(_, at)| at.1 > 0) {
                    let rows = r.index.layouts[home.0 as usize][i].rows as usize;
                    each(i, &mut r.column(at, rows)?.into_iter());
                }
            }
            Self::Rollup(r) => r.column(home.1 as usize, |row, value| put(0, row, value))?,
        }
        Ok(())
    }
}

fn in_memory(e: crate::codec::Corrupt) -> StoreError {
    StoreError::damaged(std::path::Path::new("rows in memory"), e)
}
