//! Leaves rows out: samples, hosts or switches that nobody reads, and clocks that are late.

use super::row::{Row, RowChange};
use std::collections::{BTreeSet, HashSet};

fn hash(node: &str) -> u32 {
    node.bytes().fold(7u32, |hash, b| hash.wrapping_mul(31).wrapping_add(u32::from(b)))
}

/// Selects one node in so many, by a hash of the name.
fn is_one_in(many: u32, node: &str) -> bool {
    hash(node).is_multiple_of(many)
}

fn keep_if(mut condition: impl FnMut(&Row<'_>) -> bool + 'static) -> RowChange {
    Box::new(move |row| Ok(condition(row)))
}

/// Keeps one of so many samples.
pub fn each(samples: usize) -> RowChange {
    keep_if(move |row| row.instant.is_multiple_of(samples))
}

/// Keeps all samples of hosts, and one of so many of each switch, in its own phase.
pub fn switches_each(samples: usize, hosts: HashSet<String>) -> RowChange {
    keep_if(move |row| hosts.contains(row.node()) || (row.instant + hash(row.node()) as usize).is_multiple_of(samples))
}

/// Keeps the ports of hosts.
pub fn switches(hosts: HashSet<String>) -> RowChange {
    keep_if(move |row| hosts.contains(row.node()))
}

/// Leaves out every other switch.
pub fn half_of_switches(hosts: HashSet<String>) -> RowChange {
    keep_if(move |row| hosts.contains(row.node()) || !is_one_in(2, row.node()))
}

/// Leaves out a quarter of the hosts, of which none has a fault.
pub fn quarter_of_hosts(hosts: HashSet<String>, faulty: BTreeSet<String>) -> RowChange {
    keep_if(move |row| !hosts.contains(row.node()) || !is_one_in(4, row.node()) || faulty.contains(row.node()))
}

/// Sets the clock of every other node so many nanoseconds back.
pub fn late_clocks(late_ns: i64) -> RowChange {
    Box::new(move |row| {
        if row.node().bytes().last().is_some_and(|b| b % 2 == 1) {
            let cell = &mut row.cells[row.columns.tick];
            *cell = (cell.parse::<i64>()? + late_ns).to_string();
        }
        Ok(true)
    })
}
