//! Index of the series of a head generation: lookup by labels and by metric, and the locations of their columns. Labels are
//! those of the first location, so that a series has no label set of its own. Generations share the index until one of them
//! gets a new series; copying it needs no rehashing.

use super::label_orders::LabelOrders;
use super::layout::HeadLayout;
use super::memory;
use fabriclens_model::Labels;
use foldhash::HashMap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Layout index, and column of the layout.
pub type Location = (u32, u32);

/// By series index. Its layouts are those of the generation.
#[derive(Clone, Default)]
pub struct SeriesTable {
    /// First location.
    first: Vec<Location>,
    /// Further locations of the series that are in several layouts.
    more: HashMap<u32, Vec<Location>>,
    by_labels: HashTable<u32>,
    by_metric: HashMap<Arc<str>, Vec<u32>>,
    /// Series of the metrics that were asked for, in label order.
    pub orders: LabelOrders,
    hasher: RandomState,
}

impl SeriesTable {
    /// Number of series.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds a location of the series with these labels, which the layout has there; returns the index of the series and
    /// whether it is new.
    pub fn add(&mut self, labels: &Labels, location: Location, layouts: &[HeadLayout]) -> (u32, bool) {
        if let Some(known) = self.find(labels, layouts) {
            self.more.entry(known).or_default().push(location);
            return (known, false);
        }
        let next = self.first.len() as u32;
        self.first.push(location);
        let (first, hasher) = (&self.first, &self.hasher);
        let hash = |s: &u32| hasher.hash_one(at(first[*s as usize], layouts));
        self.by_labels.insert_unique(hasher.hash_one(labels), next, hash);
        match self.by_metric.get_mut(labels.metric()) {
            Some(list) => list.push(next),
            None => _ = self.by_metric.insert(labels.metric().into(), vec![next]),
        }
        (next, true)
    }

    /// The labels of a series.
    pub fn labels<'a>(&self, series: u32, layouts: &'a [HeadLayout]) -> &'a Labels {
        at(self.first[series as usize], layouts)
    }

    /// Locations of the columns of a series, in the order in which they were added.
    pub fn locations(&self, series: u32) -> impl Iterator<Item = Location> + '_ {
        let more = if self.more.is_empty() { None } else { self.more.get(&series) };
        [self.first[series as usize]].into_iter().chain(more.into_iter().flatten().copied())
    }

    /// The index of a series.
    pub fn find(&self, labels: &Labels, layouts: &[HeadLayout]) -> Option<u32> {
        let same = |s: &u32| at(self.first[*s as usize], layouts) == labels;
        self.by_labels.find(self.hasher.hash_one(labels), same).copied()
    }

    /// Indexes of the series of a metric, in the order in which they came.
    pub fn of_metric(&self, metric: &str) -> &[u32] {
        self.by_metric.get(metric).map_or(&[], Vec::as_slice)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let lists = self.by_metric.values().map(memory::vec).sum::<usize>();
        let more = self.more.values().map(memory::vec).sum::<usize>();
        memory::vec(&self.first)
            + memory::table::<(u32, Vec<Location>)>(self.more.capacity())
            + more
            + memory::table::<u32>(self.by_labels.capacity())
            + memory::table::<(Arc<str>, Vec<u32>)>(self.by_metric.capacity())
            + lists
            + self.orders.memory()
    }
}

fn at(location: Location, layouts: &[HeadLayout]) -> &Labels {
    &layouts[location.0 as usize].columns[location.1 as usize]
}
