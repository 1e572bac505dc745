//! Connected queue pairs with their source ports, by the port that tells of them.

use super::path::Flow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How long a closed queue pair is kept, nanoseconds: longer than any window that is judged.
const KEPT_NS: i64 = 300_000_000_000;

/// A queue pair as one end tells of it. Data may go either way, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// From the port that tells of it to its peer.
    pub flow: Flow,
    /// When it was connected, Unix nanoseconds.
    pub open_ns: i64,
    /// When it ended; `None` while it is connected.
    pub close_ns: Option<i64>,
}

impl QueuePair {
    /// Whether it was connected at some time of a span.
    fn existed(&self, [from_ns, to_ns]: [i64; 2]) -> bool {
        self.open_ns <= to_ns && self.close_ns.is_none_or(|ns| ns >= from_ns)
    }
}

/// Queue pairs by the port that tells of them and their number there.
#[derive(Clone, Debug, Default)]
pub struct QueuePairTable {
    of_port: HashMap<usize, BTreeMap<u32, QueuePair>>,
}

impl QueuePairTable {
    /// A queue pair was connected. Its number may be that of an earlier one.
    pub fn open(&mut self, number: u32, flow: Flow, open_ns: i64) {
        let of_port = self.of_port.entry(flow.from).or_default();
        of_port.insert(number, QueuePair { flow, open_ns, close_ns: None });
    }

    /// A queue pair ended. Unknown ones are ignored.
    pub fn close(&mut self, port: usize, number: u32, close_ns: i64) {
        let Some(of_port) = self.of_port.get_mut(&port) else { return };
        if let Some(pair) = of_port.get_mut(&number) {
            pair.close_ns = Some(close_ns);
        }
        of_port.retain(|_, pair| pair.close_ns.is_none_or(|ns| ns >= close_ns - KEPT_NS));
    }

    /// Queue pairs of a port that were connected at some time of a span, Unix nanoseconds.
    pub fn of(&self, port: usize, span_ns: [i64; 2]) -> impl Iterator<Item = &QueuePair> {
        self.of_port.get(&port).into_iter().flat_map(BTreeMap::values).filter(move |pair| pair.existed(span_ns))
    }

    /// Drops the queue pairs of these ports.
    pub(super) fn forget(&mut self, ports: &HashSet<usize>) {
        self.of_port.retain(|port, _| !ports.contains(port));
        self.of_port.values_mut().for_each(|pairs| pairs.retain(|_, pair| !ports.contains(&pair.flow.to)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_counts_while_it_is_connected() {
        let mut table = QueuePairTable::default();
        let flow = |to| Flow { from: 3, to, source_port: None };
        table.open(7, flow(4), 100);
        table.open(8, flow(5), 200);
        table.close(3, 7, 300);
        table.close(3, 99, 300);
        let peers = |span| table.of(3, span).map(|pair| pair.flow.to).collect::<Vec<_>>();
        assert_eq!(
            [peers([0, 99]), peers([100, 150]), peers([250, 400]), peers([301, 400])],
            [vec![], vec![4], vec![4, 5], vec![5]]
        );
        table.close(3, 8, 400 + KEPT_NS);
        assert_eq!(table.of(3, [0, i64::MAX]).count(), 1, "the first ended long ago");
    }
}
