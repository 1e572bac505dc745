//! The series of a head generation: labels, lookup by labels and by metric, and the location of their columns. A clone
//! shares the labels and copies the tables without rehashing, because every rotation of the head makes one.

use super::memory;
use fabriclens_model::Labels;
use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt as _};
use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;

/// A series and the locations of its columns.
#[derive(Clone)]
pub struct HeadSeries {
    /// Its labels.
    pub labels: Labels,
    /// All series of a generation, by index.
    pub locations: SmallVec<[(u32, u32); 1]>,
}

/// By series index.
#[derive(Clone)]
pub struct SeriesTable {
    all: Vec<HeadSeries>,
    by_labels: HashTable<u32>,
    by_metric: HashMap<Arc<str>, Vec<u32>>,
    hasher: RandomState,
}

impl Default for SeriesTable {
    fn default() -> Self {
        Self { all: Vec::new(), by_labels: HashTable::new(), by_metric: HashMap::new(), hasher: RandomState::default() }
    }
}

impl Deref for SeriesTable {
    type Target = [HeadSeries];

    fn deref(&self) -> &[HeadSeries] {
        &self.all
    }
}

impl SeriesTable {
    /// Finds or inserts a series; returns its index and whether it is new.
    pub fn find_or_insert(&mut self, labels: &Labels) -> (u32, bool) {
        if let Some(known) = self.find(labels) {
            return (known, false);
        }
        let next = self.all.len() as u32;
        self.all.push(HeadSeries { labels: labels.clone(), locations: smallvec![] });
        let (all, hasher) = (&self.all, &self.hasher);
        let hash = |s: &u32| hasher.hash_one(&all[*s as usize].labels);
        self.by_labels.insert_unique(hash(&next), next, hash);
        match self.by_metric.get_mut(labels.metric()) {
            Some(list) => list.push(next),
            None => _ = self.by_metric.insert(labels.metric().into(), vec![next]),
        }
        (next, true)
    }

    /// A series, to add a location.
    pub fn of(&mut self, series: u32) -> &mut HeadSeries {
        &mut self.all[series as usize]
    }

    /// The index of a series.
    pub fn find(&self, labels: &Labels) -> Option<u32> {
        let same = |s: &u32| self.all[*s as usize].labels == *labels;
        self.by_labels.find(self.hasher.hash_one(labels), same).copied()
    }

    /// Bytes of memory, without the labels.
    pub fn memory(&self) -> usize {
        let spilled = self.all.iter().filter(|s| s.locations.spilled());
        let lists = self.by_metric.values().map(memory::vec);
        memory::vec(&self.all)
            + spilled.map(|s| s.locations.capacity() * size_of::<(u32, u32)>()).sum::<usize>()
            + memory::table::<u32>(self.by_labels.capacity())
            + memory::table::<(Arc<str>, Vec<u32>)>(self.by_metric.capacity())
            + lists.sum::<usize>()
    }

    /// Indexes of the series of a metric.
    pub fn of_metric(&self, metric: &str) -> &[u32] {
        self.by_metric.get(metric).map_or(&[], Vec::as_slice)
    }
}
