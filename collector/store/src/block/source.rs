//! Inputs of a block build: a head generation, other blocks, or rollups of a block. All yield series in label order
//! and rows by layout.

use super::column_list::ColumnList;
use super::index::ColumnLocation;
use super::label_table::{LabelPair, LabelTable};
use super::read::Block;
use super::reader::{BUILD_PAGES, Reader};
use super::series_list::SeriesList;
use crate::error::StoreError;
use crate::head::generation::Generation;
use crate::head::rows::Rows;
use crate::rollup::RollupSource;
use fabriclens_model::is_absent;
use foldhash::{HashMap, HashMapExt as _};
use parking_lot::Mutex;
use std::sync::Arc;

/// One input of a build.
pub enum Source {
    /// Rows in memory.
    Head(HeadSource),
    /// A block.
    Block(Box<BlockSource>),
    /// Rollups computed from a block.
    Rollup(Box<RollupSource>),
}

/// A block. A build asks for labels in their order, so that those of one section are in memory at a time.
pub struct BlockSource {
    block: Arc<Block>,
    reader: Reader,
    /// Of the series of all sections.
    columns: ColumnList,
    /// Position of the first series of each section.
    first: Vec<usize>,
    series: usize,
    /// The section whose labels were asked for last.
    section: Mutex<Option<(usize, Arc<SeriesList>)>>,
}

impl BlockSource {
    /// Loads the places of all columns.
    pub fn of(block: &Arc<Block>) -> Result<Self, StoreError> {
        let index = block.index()?;
        let (mut columns, mut first, mut series) = (ColumnList::default(), Vec::new(), 0);
        for section in &index.sections {
            let list = block.series_once(section, &index)?;
            columns.append(list.columns());
            first.push(series);
            series += list.len();
        }
        columns.shrink_to_fit();
        let reader = Reader::new(block.clone(), index, BUILD_PAGES);
        Ok(Self { block: block.clone(), reader, columns, first, series, section: Mutex::default() })
    }

    /// Appends the labels of a series.
    fn labels(&self, n: usize, out: &mut Vec<LabelPair>) -> Result<(), StoreError> {
        let at = self.first.partition_point(|first| *first <= n) - 1;
        let mut last = self.section.lock();
        if last.as_ref().is_none_or(|(of, _)| *of != at) {
            let index = &self.reader.index;
            *last = Some((at, self.block.series_once(&index.sections[at], index)?));
        }
        if let Some((_, list)) = &*last {
            out.extend(list.pairs_of(n - self.first[at]));
        }
        Ok(())
    }
}

/// A generation of the head.
pub struct HeadSource {
    generation: Arc<Generation>,
    /// Label sets by series index.
    names: LabelTable,
    /// Series indexes in label order.
    order: Vec<u32>,
    /// Values of the unsealed rows of the last layouts whose times were asked for, column-major, by layout and buffer.
    unsealed: HashMap<u32, Vec<Vec<f64>>>,
}

/// Layouts whose unsealed rows are kept: as many as those of a series usually are, at most.
const MAX_UNSEALED: usize = 8;

impl Source {
    /// A source over a head generation.
    pub fn head(generation: Arc<Generation>) -> Self {
        let names = LabelTable::of((0..generation.series.len()).map(|series| generation.labels(series as u32)));
        let order = names.order();
        Self::Head(HeadSource { generation, names, order, unsealed: HashMap::new() })
    }

    /// Number of series.
    pub fn series(&self) -> usize {
        match self {
            Self::Head(h) => h.order.len(),
            Self::Block(b) => b.series,
            Self::Rollup(r) => r.series(),
        }
    }

    /// Label texts.
    pub fn texts(&self) -> &[Arc<str>] {
        match self {
            Self::Head(h) => &h.names.texts,
            Self::Block(b) => &b.reader.index.tables.texts,
            Self::Rollup(r) => r.texts(),
        }
    }

    /// Appends the labels of the n-th series as text indexes.
    pub fn labels(&self, n: usize, out: &mut Vec<LabelPair>) -> Result<(), StoreError> {
        match self {
            Self::Head(h) => out.extend(h.names.labels(h.order[n] as usize)),
            Self::Block(b) => b.labels(n, out)?,
            Self::Rollup(r) => r.labels(n, out),
        }
        Ok(())
    }

    /// Calls `put` with the location of each column of the n-th series.
    pub fn locations(&self, n: usize, mut put: impl FnMut(ColumnLocation)) {
        match self {
            Self::Head(h) => h.generation.series.locations(h.order[n]).for_each(put),
            Self::Block(b) => put((b.columns.layout(n) as u32, n as u32)),
            Self::Rollup(r) => put(r.location(n)),
        }
    }

    /// Times of each chunk of a layout.
    pub fn times(&mut self, layout: u32) -> Result<Vec<Arc<[i64]>>, StoreError> {
        match self {
            Self::Head(h) => {
                let l = &h.generation.layouts[layout as usize];
                if h.unsealed.len() >= MAX_UNSEALED {
                    h.unsealed.clear();
                }
                h.unsealed.insert(layout, l.unsealed().map(Rows::columns).collect());
                let sealed = l.sealed.iter().map(|c| c.times().map(Arc::from));
                let unsealed = l.unsealed().map(|rows| Ok(Arc::from(rows.times())));
                sealed.chain(unsealed).collect::<Result<_, _>>().map_err(in_memory)
            }
            Self::Block(b) => {
                let r = &mut b.reader;
                r.forget_times();
                (0..r.index.tables.layouts[layout as usize].len()).map(|c| r.times(layout as usize, c)).collect()
            }
            Self::Rollup(r) => Ok(vec![r.times(layout)?]),
        }
    }

    /// Calls `put(chunk, row, value)` for each sample of a column.
    pub fn column(
        &mut self,
        location: ColumnLocation,
        mut put: impl FnMut(usize, usize, f64),
    ) -> Result<(), StoreError> {
        let mut each = |chunk: usize, values: &mut dyn Iterator<Item = f64>| {
            values.enumerate().filter(|(_, v)| !is_absent(*v)).for_each(|(row, v)| put(chunk, row, v));
        };
        match self {
            Self::Head(h) => {
                let l = &h.generation.layouts[location.0 as usize];
                for (i, chunk) in l.sealed.iter().enumerate() {
                    let values = chunk.column(location.1 as usize).map_err(in_memory)?;
                    each(i, &mut values.into_iter());
                }
                let known = h.unsealed.get(&location.0);
                for (i, rows) in l.unsealed().enumerate() {
                    let (n, mut own) = (rows.times().len(), Vec::new());
                    let values = match known {
                        Some(values) => &values[i][location.1 as usize * n..][..n],
                        None => {
                            rows.column(location.1 as usize, 0..n, &mut own);
                            &own
                        }
                    };
                    each(l.sealed.len() + i, &mut values.iter().copied());
                }
            }
            Self::Block(b) => {
                let BlockSource { reader: r, columns, .. } = &mut **b;
                let at: Vec<(u64, u32)> = columns.of(location.1 as usize, &r.index.tables.layouts).collect();
                for (i, at) in at.into_iter().enumerate().filter(|(_, at)| at.1 > 0) {
                    let rows = r.index.tables.layouts[location.0 as usize][i].rows as usize;
                    each(i, &mut r.column(at, rows)?.into_iter());
                }
            }
            Self::Rollup(r) => r.column(location.1 as usize, |row, value| put(0, row, value))?,
        }
        Ok(())
    }
}

fn in_memory(e: crate::codec::Corrupt) -> StoreError {
    StoreError::damaged(std::path::Path::new("rows in memory"), e)
}
