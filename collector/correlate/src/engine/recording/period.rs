//! How often the ports of a recording were sampled.

use super::rows::Row;
use std::collections::HashMap;

/// Distances between samples that are kept of a port.
const KEPT: usize = 15;
/// Share of the ports that may be sampled more often than the period that is given.
const FASTER: f64 = 0.05;

/// Estimates the sampling period.
#[derive(Default)]
pub(super) struct Period {
    ports: HashMap<u32, (i64, Vec<i64>)>,
}

impl Period {
    /// Takes a row into account.
    pub(super) fn add(&mut self, row: &Row) {
        let (last, apart) = self.ports.entry(row.port).or_insert((row.time_ms, Vec::new()));
        if row.time_ms > *last && apart.len() < KEPT {
            apart.push(row.time_ms - *last);
        }
        *last = row.time_ms.max(*last);
    }

    /// The shortest period that more than a few ports have, in ms, to two digits, because clocks drift: agents sample
    /// at different periods, each in its own phase. 1 s if no port has two samples.
    pub(super) fn estimate_ms(self) -> i64 {
        let median = |(_, mut apart): (i64, Vec<i64>)| {
            apart.sort_unstable();
            apart.get(apart.len() / 2).copied()
        };
        let mut all: Vec<i64> = self.ports.into_values().filter_map(median).collect();
        all.sort_unstable();
        all.get((all.len() as f64 * FASTER) as usize).map_or(1000, |ms| two_digits(*ms))
    }
}

fn two_digits(number: i64) -> i64 {
    let unit = 10_i64.pow((number.max(1).ilog10()).saturating_sub(1));
    (number + unit / 2) / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_usual_period_counts() {
        let mut period = Period::default();
        for port in 0..30_u32 {
            let every = [1000, 2000, 5000][port as usize % 3];
            let drift = i64::from(port) % 4;
            // One sample of each port is missing.
            for at in (0..10).filter(|at| *at != 4) {
                period.add(&Row { port, time_ms: i64::from(port) * 37 + at * (every + drift), values: Vec::new() });
            }
        }
        period.add(&Row { port: 99, time_ms: 10, values: Vec::new() });
        period.add(&Row { port: 99, time_ms: 110, values: Vec::new() });
        assert_eq!(period.estimate_ms(), 1000, "one odd port changes nothing");
        assert_eq!([1, 7, 998, 1004, 10_020, 1250].map(two_digits), [1, 7, 1000, 1000, 10_000, 1300]);
        assert_eq!(Period::default().estimate_ms(), 1000);
    }
}
