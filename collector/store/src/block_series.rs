//! The matching series of a block.

use crate::block::index::Index;
use crate::block::read::Block;
use crate::block::series_list::SeriesList;
use crate::error::StoreError;
use crate::label_ranges::LabelOrdered;
use fabriclens_model::{Budget, Labels, Matcher, ReadError};
use std::sync::Arc;

/// Matching series of one section, in label order.
pub(crate) struct BlockSeries<'b> {
    pub block: &'b Arc<Block>,
    pub index: Arc<Index>,
    pub list: Arc<SeriesList>,
    /// Their positions in the list.
    pub series: Vec<u32>,
}

impl<'b> BlockSeries<'b> {
    /// Those of each section that has any. Damaged sections are left out, and `damage` is called.
    pub fn of(
        block: &'b Arc<Block>,
        matchers: &[Matcher],
        budget: &dyn Budget,
        damage: &dyn Fn(&StoreError),
    ) -> Result<Vec<Self>, ReadError> {
        let index = match block.index() {
            Ok(index) => index,
            Err(e) => return skip_damaged(e, damage).map(|()| Vec::new()),
        };
        let mut found = Vec::new();
        for section in &index.sections {
            budget.check()?;
            if !index.may_match(section, matchers) {
                continue;
            }
            match block.series(section, &index) {
                Ok(list) => {
                    let series = list.matching(matchers, &index.tables, budget)?;
                    if !series.is_empty() {
                        found.push(Self { block, index: index.clone(), list, series });
                    }
                }
                Err(e) => skip_damaged(e, damage)?,
            }
        }
        Ok(found)
    }
}

impl LabelOrdered for BlockSeries<'_> {
    fn len(&self) -> usize {
        self.series.len()
    }

    fn labels(&self, at: usize) -> Labels {
        self.list.labels(self.series[at] as usize, &self.index.tables)
    }
}

/// Damage is left out of the answer and reported; an I/O error fails the read.
pub(crate) fn skip_damaged(e: StoreError, damage: &dyn Fn(&StoreError)) -> Result<(), ReadError> {
    match e {
        StoreError::Damaged { .. } => {
            damage(&e);
            Ok(())
        }
        other => Err(ReadError::Storage(other.to_string())),
    }
}
