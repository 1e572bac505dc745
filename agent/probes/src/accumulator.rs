//! Totals by control group and place, put together from counts that the kernel keeps only for a while: its table is
//! small and given to those who talk, and what was counted must not go back when an entry goes.
//!
//! Used by `samplers/tcp_traffic`.

use crate::cgroup_names::CgroupNames;
use fabriclens_ebpf_abi::tcp_traffic::{ENTRIES, Key, RECEIVED_SEGMENTS, Record, SENT_SEGMENTS, WORDS};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Reads without a change after which an entry may go.
const QUIET: u32 = 60;
/// The same while the kernel's table is nearly full.
const QUIET_WHEN_FULL: u32 = 5;
/// Totals that are kept; more are put together under [`OTHER`].
const TOTALS: usize = 4096;

/// Control groups for which there is no room, in the kernel or here.
pub const OTHER: &str = "other";

/// See the module.
#[derive(Default)]
pub struct Ledger {
    seen: HashMap<Key, Seen>,
    /// By place, what the kernel counted for want of room.
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

impl Ledger {
    /// Takes what the kernel has counted: all of its table. Returns the keys that have been silent for long.
    pub fn take(&mut self, table: impl Iterator<Item = (Key, Record)>, names: &mut CgroupNames) -> Vec<Key> {
        self.round += 1;
        for (key, counts) in table {
            // Until the name is known the counts wait in the kernel.
            let Some(name) = names.name(key[0]).cloned() else { continue };
            let seen = self.seen.entry(key).or_insert(Seen { counts: [0; WORDS], quiet: 0, round: 0 });
            seen.quiet = if seen.counts == counts { seen.quiet + 1 } else { 0 };
            seen.round = self.round;
            let grown = growth(&seen.counts, &counts);
            seen.counts = counts;
            self.add(name, key[1] as u32, &grown);
        }
        // What is not in the table any more would count from zero if it came back.
        self.seen.retain(|_, seen| seen.round == self.round);
        let longest = if self.is_crowded() { QUIET_WHEN_FULL } else { QUIET };
        self.seen.iter().filter(|(_, seen)| seen.quiet >= longest).map(|(key, _)| *key).collect()
    }

    /// Takes what the kernel has counted at one place for control groups that had no room in its table.
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

    /// What was last read of an entry.
    pub fn last(&self, key: &Key) -> Option<&Record> {
        self.seen.get(key).map(|seen| &seen.counts)
    }

    /// A silent entry stays in the kernel's table.
    pub fn spare(&mut self, key: &Key) {
        if let Some(seen) = self.seen.get_mut(key) {
            seen.quiet = 0;
        }
    }

    /// An entry left the kernel's table; its total goes on.
    pub fn left(&mut self, key: &Key) {
        self.seen.remove(key);
    }

    /// A control group is gone, and its series with it.
    pub fn end(&mut self, name: &str) {
        self.totals.retain(|(of, _), _| **of != *name);
    }

    /// Whether the kernel's table has an entry of that control group.
    pub fn has(&self, cgroup: u64) -> bool {
        self.seen.keys().any(|key| key[0] == cgroup)
    }

    /// Name of the control group, place, counts so far.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u32, &Record)> {
        self.totals.iter().map(|((name, place), counts)| (&**name, *place, counts))
    }

    /// Segments that were counted as those of [`OTHER`].
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }
}

/// An entry that was taken out and came back counts from zero.
fn growth(before: &Record, now: &Record) -> Record {
    let again = now.iter().zip(before).any(|(now, before)| now < before);
    std::array::from_fn(|i| if again { now[i] } else { now[i] - before[i] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// A tree with these control groups, and their ids.
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

    fn told(ledger: &Ledger) -> Vec<(String, u32, u64)> {
        ledger.totals().map(|(name, place, r)| (name.to_owned(), place, r[RECEIVED_SEGMENTS])).collect()
    }

    #[test]
    fn totals_go_on_when_entries_leave_the_kernel_and_come_back() {
        let (_tree, mut names, ids) = tree(&["job"]);
        let mut ledger = Ledger::default();
        let key = [ids[0], 5];
        ledger.take([(key, counts(7))].into_iter(), &mut names);
        assert_eq!(told(&ledger), [], "nothing is told before its name is known");
        names.look();
        ledger.take([(key, counts(8))].into_iter(), &mut names);
        assert_eq!(told(&ledger), [("/job".to_owned(), 5, 8)], "what was counted meanwhile is not lost");
        ledger.left(&key);
        ledger.take(std::iter::empty(), &mut names);
        ledger.take([(key, counts(2))].into_iter(), &mut names);
        assert_eq!(told(&ledger), [("/job".to_owned(), 5, 10)]);
        ledger.end("/job");
        assert_eq!(told(&ledger), []);
    }

    #[test]
    fn what_found_no_room_counts_under_one_name() {
        let mut ledger = Ledger::default();
        ledger.take_other(1, &counts(0));
        assert_eq!((told(&ledger), ledger.unplaced()), (vec![], 0));
        ledger.take_other(1, &counts(4));
        ledger.take_other(1, &counts(6));
        assert_eq!(told(&ledger), [(OTHER.to_owned(), 1, 6)]);
        assert_eq!(ledger.unplaced(), 6 * 3);
    }

    #[test]
    fn silence_is_noticed_and_sooner_when_the_table_is_nearly_full() {
        let (_tree, mut names, ids) = tree(&["a"]);
        names.name(ids[0]);
        names.look();
        let mut ledger = Ledger::default();
        let mut reads = |keys: u64| {
            (1..200).find(|_| !ledger.take((0..keys).map(|i| ([ids[0], i], counts(1))), &mut names).is_empty())
        };
        assert_eq!(reads(1), Some(QUIET + 1));
        let mut ledger = Ledger::default();
        let mut reads = |keys: u64| {
            (1..200).find(|_| !ledger.take((0..keys).map(|i| ([ids[0], i], counts(1))), &mut names).is_empty())
        };
        assert_eq!(reads(u64::from(ENTRIES)), Some(QUIET_WHEN_FULL + 1));
    }

    #[test]
    fn memory_is_bounded_whatever_churns() {
        let (_tree, mut names, ids) = tree(&["a"]);
        names.name(ids[0]);
        names.look();
        let mut ledger = Ledger::default();
        for place in 0..TOTALS as u64 + 10 {
            ledger.take([([ids[0], place], counts(1))].into_iter(), &mut names);
        }
        assert_eq!(ledger.seen.len(), 1);
        assert_eq!(ledger.unplaced(), 10 * 3, "beyond the limit they count together");
        assert_eq!(ledger.totals().map(|(_, _, r)| r[RECEIVED_SEGMENTS]).sum::<u64>(), TOTALS as u64 + 10);
    }
}
