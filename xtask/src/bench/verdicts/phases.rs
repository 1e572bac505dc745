//! Lets each node sample in its own phase and period, as agents do.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Periods, in samples of the recording.
const PERIODS: [u64; 3] = [1, 2, 5];
/// Parts of column names that are no counters.
const GAUGES: [&str; 7] = ["speed", "up", "width", "q_", "sw_shared", "temp", "dbm"];

/// The last row of each port, and how many there were.
#[derive(Default)]
pub struct Phases(HashMap<(String, String), (Vec<String>, u64)>);

impl Phases {
    /// Moves a row to the phase of its node; false if it is not sampled. `places` are those of time, node and port.
    /// Counters are interpolated.
    pub fn change(&mut self, names: &[&str], cells: &mut [String], [tick, node, port]: [usize; 3]) -> bool {
        let key = (cells[node].clone(), cells[port].clone());
        let mut hasher = DefaultHasher::new();
        cells[node].hash(&mut hasher);
        let random = hasher.finish();
        let number = self.0.get(&key).map_or(0, |(_, number)| number + 1);
        let Some((before, _)) = self.0.insert(key, (cells.to_vec(), number)) else { return false };
        let (period, part) = (PERIODS[(random % 3) as usize], (random >> 8 & 0xff) as f64 / 256.0);
        for at in (0..cells.len()).filter(|at| ![node, port].contains(at)) {
            let gauge = at != tick && GAUGES.iter().any(|gauge| names[at].contains(gauge));
            match (cells[at].parse::<f64>(), before[at].parse::<f64>()) {
                _ if gauge => cells[at].clone_from(&before[at]),
                (Ok(new), Ok(old)) if new >= old => cells[at] = format!("{:.0}", old + (new - old) * part),
                _ => {}
            }
        }
        (number + random / 3).is_multiple_of(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_interpolated_and_gauges_are_not() {
        let names = ["tick_ns", "node", "port", "tx_bytes", "q_bytes"];
        let (mut phases, mut kept) = (Phases::default(), Vec::new());
        for tick in 0..50_i64 {
            let now = [tick * 1000, 7, 1, tick * 256_000, tick];
            let mut cells: Vec<String> = now.iter().map(i64::to_string).collect();
            if phases.change(&names, &mut cells, [0, 1, 2]) {
                kept.push(cells.iter().map(|cell| cell.parse().unwrap()).collect::<Vec<i64>>());
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
