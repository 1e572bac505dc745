//! Accumulates counts per cgroup and interface from a kernel table of limited size: entries of quiet cgroups are
//! removed from the table, and their totals must not decrease.
//!
//! Used by `samplers/tcp_traffic`.

use crate::cgroup_names::CgroupNames;
use fabriclens_ebpf_abi::tcp_traffic::{ENTRIES, Key, RECEIVED_SEGMENTS, Record, SENT_SEGMENTS, WORDS};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Reads without a change before an entry may be removed.
const QUIET: u32 = 60;
/// Same, while the kernel's table is nearly full.
const QUIET_WHEN_FULL: u32 = 5;
/// Limit of totals; further cgroups are counted under [`OTHER`].
const TOTALS: usize = 4096;

/// Name for cgroups without an entry, in the kernel's table or here.
pub const OTHER: &str = "other";

/// Monotonic totals by cgroup and place in the kernel's maps.
#[derive(Default)]
pub struct CounterAccumulator {
    seen: HashMap<Key, Seen>,
    /// Counts of cgroups without an entry in the kernel's table, by place.
    other: BTreeMap<u32, Record>,
    totals: BTreeMap<(Arc<str>, u32), Record>,
    unplaced: u64,
    round: u64,
}

struct Seen {
    counts: Record,
    quiet: u32,
    round: u64,
}

impl CounterAccumulator {
    /// Adds the counts of the whole kernel table. Returns the keys of quiet entries.
    pub fn take(&mut self, table: impl Iterator<Item = (Key, Record)>, names: &mut CgroupNames) -> Vec<Key> {
        self.round += 1;
        for (key, counts) in table {
            // The counts stay in the kernel until the name is known.
            let Some(name) = names.name(key[0]).cloned() else { continue };
            let seen = self.seen.entry(key).or_insert(Seen { counts: [0; WORDS], quiet: 0, round: 0 });
            seen.quiet = if seen.counts == counts { seen.quiet + 1 } else { 0 };
            seen.round = self.round;
            let grown = growth(&seen.counts, &counts);
            seen.counts = counts;
            self.add(name, key[1] as u32, &grown);
        }
        // An entry that left the table starts from zero if it comes back.
        self.seen.retain(|_, seen| seen.round == self.round);
        let longest = if self.is_crowded() { QUIET_WHEN_FULL } else { QUIET };
        self.seen.iter().filter(|(_, seen)| seen.quiet >= longest).map(|(key, _)| *key).collect()
    }

    /// Adds the counts of cgroups without an entry, at one place.
    pub fn take_other(&mut self, place: u32, counts: &Record) {
        let before = self.other.insert(place, *counts).unwrap_or_default();
        let grown = growth(&before, counts);
        if grown != [0; WORDS] {
            self.unplaced += grown[RECEIVED_SEGMENTS] + grown[SENT_SEGMENTS];
            self.add(Arc::from(OTHER), place, &grown);
        }
    }

    fn add(&mut self, name: Arc<str>, place: u32, grown: &Record) {
        let full = self.totals.len() >= TOTALS;
        let mut key = (name, place);
        if full && !self.totals.contains_key(&key) {
            self.unplaced += grown[RECEIVED_SEGMENTS] + grown[SENT_SEGMENTS];
            key.0 = Arc::from(OTHER);
        }
        let total = self.totals.entry(key).or_insert([0; WORDS]);
        total.iter_mut().zip(grown).for_each(|(total, n)| *total = total.wrapping_add(*n));
    }

    /// Whether the kernel's table is nearly full.
    pub fn is_crowded(&self) -> bool {
        self.seen.len() * 4 > ENTRIES as usize * 3
    }

    /// Last counts of an entry.
    pub fn last(&self, key: &Key) -> Option<&Record> {
        self.seen.get(key).map(|seen| &seen.counts)
    }

    /// Keeps a quiet entry in the kernel's table.
    pub fn spare(&mut self, key: &Key) {
        if let Some(seen) = self.seen.get_mut(key) {
            seen.quiet = 0;
        }
    }

    /// Records that an entry was removed from the kernel's table; its total stays.
    pub fn left(&mut self, key: &Key) {
        self.seen.remove(key);
    }

    /// Removes the totals of a cgroup that no longer exists.
    pub fn end(&mut self, name: &str) {
        self.totals.retain(|(of, _), _| **of != *name);
    }

    /// Whether the kernel's table has an entry of this cgroup.
    pub fn has(&self, cgroup: u64) -> bool {
        self.seen.keys().any(|key| key[0] == cgroup)
    }

    /// Name of the cgroup, place and total counts.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u32, &Record)> {
        self.totals.iter().map(|((name, place), counts)| (&**name, *place, counts))
    }

    /// Segments counted under [`OTHER`].
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }
}

/// Growth between two reads; an entry that was removed and came back starts from zero.
fn growth(before: &Record, now: &Record) -> Record {
    let again = now.iter().zip(before).any(|(now, before)| now < before);
    std::array::from_fn(|i| if again { now[i] } else { now[i] - before[i] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Cgroup tree with these groups, and their ids.
    fn tree(groups: &[&str]) -> (tempfile::TempDir, CgroupNames, Vec<u64>) {
        let tree = tempfile::tempdir().unwrap();
        let make = |group: &&str| {
            std::fs::create_dir_all(tree.path().join(group)).unwrap();
            inode(&tree.path().join(group))
        };
        let ids = groups.iter().map(make).collect();
        let names = CgroupNames::new(tree.path().to_owned());
        (tree, names, ids)
    }

    fn inode(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().ino()
    }

    fn counts(n: u64) -> Record {
        [n * 100, n, n * 200, n * 2, 0, 0, 0]
    }

    fn totals(accumulator: &CounterAccumulator) -> Vec<(String, u32, u64)> {
        accumulator.totals().map(|(name, place, r)| (name.to_owned(), place, r[RECEIVED_SEGMENTS])).collect()
    }

    #[test]
    fn totals_survive_removed_entries() {
        let (_tree, mut names, ids) = tree(&["job"]);
        let mut accumulator = CounterAccumulator::default();
        let key = [ids[0], 5];
        accumulator.take([(key, counts(7))].into_iter(), &mut names);
        assert_eq!(totals(&accumulator), [], "no total before the name is known");
        names.look();
        accumulator.take([(key, counts(8))].into_iter(), &mut names);
        assert_eq!(totals(&accumulator), [("/job".to_owned(), 5, 8)], "earlier counts are kept");
        accumulator.left(&key);
        accumulator.take(std::iter::empty(), &mut names);
        accumulator.take([(key, counts(2))].into_iter(), &mut names);
        assert_eq!(totals(&accumulator), [("/job".to_owned(), 5, 10)]);
        accumulator.end("/job");
        assert_eq!(totals(&accumulator), []);
    }

    #[test]
    fn overflow_counts_under_other() {
        let mut accumulator = CounterAccumulator::default();
        accumulator.take_other(1, &counts(0));
        assert_eq!((totals(&accumulator), accumulator.unplaced()), (vec![], 0));
        accumulator.take_other(1, &counts(4));
        accumulator.take_other(1, &counts(6));
        assert_eq!(totals(&accumulator), [(OTHER.to_owned(), 1, 6)]);
        assert_eq!(accumulator.unplaced(), 6 * 3);
    }

    #[test]
    fn quiet_entries_expire_sooner_in_a_full_table() {
        let (_tree, mut names, ids) = tree(&["a"]);
        names.name(ids[0]);
        names.look();
        let mut accumulator = CounterAccumulator::default();
        let mut reads = |keys: u64| {
            (1..200).find(|_| !accumulator.take((0..keys).map(|i| ([ids[0], i], counts(1))), &mut names).is_empty())
        };
        assert_eq!(reads(1), Some(QUIET + 1));
        let mut accumulator = CounterAccumulator::default();
        let mut reads = |keys: u64| {
            (1..200).find(|_| !accumulator.take((0..keys).map(|i| ([ids[0], i], counts(1))), &mut names).is_empty())
        };
        assert_eq!(reads(u64::from(ENTRIES)), Some(QUIET_WHEN_FULL + 1));
    }

    #[test]
    fn memory_is_bounded_under_churn() {
        let (_tree, mut names, ids) = tree(&["a"]);
        names.name(ids[0]);
        names.look();
        let mut accumulator = CounterAccumulator::default();
        for place in 0..TOTALS as u64 + 10 {
            accumulator.take([([ids[0], place], counts(1))].into_iter(), &mut names);
        }
        assert_eq!(accumulator.seen.len(), 1);
        assert_eq!(accumulator.unplaced(), 10 * 3, "beyond the limit they count together");
        assert_eq!(accumulator.totals().map(|(_, _, r)| r[RECEIVED_SEGMENTS]).sum::<u64>(), TOTALS as u64 + 10);
    }
}
