//! Lets each node sample in its own phase and period, as agents do.

use super::row::{Row, RowChange};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Periods, in samples of the recording.
const PERIODS: [u64; 3] = [1, 2, 5];
/// Parts of column names that are no counters.
const GAUGES: [&str; 7] = ["speed", "up", "width", "q_", "sw_shared", "temp", "dbm"];

/// The last row of each port.
#[derive(Default)]
struct Phases(HashMap<(String, String), Vec<String>>);

/// Moves each row to the phase of its node, or leaves it out if the node takes no sample then. Counters are interpolated.
pub fn own_phases() -> RowChange {
    let mut phases = Phases::default();
    Box::new(move |row| Ok(phases.change(row)))
}

impl Phases {
    fn change(&mut self, row: &mut Row<'_>) -> bool {
        let key = row.key();
        let mut hasher = DefaultHasher::new();
        row.node().hash(&mut hasher);
        let random = hasher.finish();
        let Some(before) = self.0.insert(key, row.cells.clone()) else { return false };
        let (period, part) = (PERIODS[(random % 3) as usize], (random >> 8 & 0xff) as f64 / 256.0);
        let columns = row.columns;
        for (at, cell) in row.cells.iter_mut().enumerate().filter(|(at, _)| ![columns.node, columns.port].contains(at))
        {
            let gauge = at != columns.tick && GAUGES.iter().any(|gauge| columns.names[at].contains(gauge));
            match (cell.parse::<f64>(), before[at].parse::<f64>()) {
                _ if gauge => cell.clone_from(&before[at]),
                (Ok(new), Ok(old)) if new >= old => *cell = format!("{:.0}", old + (new - old) * part),
                _ => {}
            }
        }
        // All ports of a node alike, as an agent reads them.
        (row.instant as u64 + random / 3).is_multiple_of(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::verdicts::row::Columns;

    #[test]
    fn counters_are_interpolated_and_gauges_are_not() {
        let columns = Columns::parse("tick_ns,node,port,tx_bytes,q_bytes,speed_gbps").unwrap();
        let (mut phases, mut kept) = (Phases::default(), Vec::new());
        for tick in 0..50_i64 {
            let now = [tick * 1000, 7, 1, tick * 256_000, tick, 100];
            let cells = now.iter().map(i64::to_string).collect();
            let mut row = Row { columns: &columns, cells, instant: tick as usize };
            if phases.change(&mut row) {
                kept.push(row.cells.iter().map(|cell| cell.parse().unwrap()).collect::<Vec<i64>>());
            }
        }
        let apart = kept[1][0] - kept[0][0];
        assert!([1000, 2000, 5000].contains(&apart), "{apart}");
        for row in &kept {
            assert!((row[3] - row[0] * 256).abs() <= 256, "{row:?} lies on the line");
            assert_eq!(row[4], row[0] / 1000, "{row:?}");
        }
    }
}
