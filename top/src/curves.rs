//! The course of a quantity of each row over the last readings.

use crate::table::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Shares of the last readings by row, the newest last.
#[derive(Debug)]
pub struct Curves {
    /// Readings that a curve shows.
    length: usize,
    shares: BTreeMap<String, VecDeque<f64>>,
}

impl Curves {
    /// Curves of so many readings.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { length, shares: BTreeMap::new() }
    }

    /// Adds a row's newest share of 1, if it is known, and draws all that are kept.
    pub fn draw(&mut self, row: &str, newest: Option<f64>) -> Cell {
        let shares = self.shares.entry(row.to_owned()).or_default();
        shares.extend(newest);
        shares.drain(..shares.len().saturating_sub(self.length));
        Cell::curve(shares.make_contiguous(), 1.0)
    }

    /// Forgets rows that are gone.
    pub fn keep<'a>(&mut self, rows: impl Iterator<Item = &'a str>) {
        let rows: BTreeSet<&str> = rows.collect();
        self.shares.retain(|row, _| rows.contains(row.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_shows_the_last_readings_of_rows_that_are_still_there() {
        let mut curves = Curves::new(2);
        curves.draw("a", Some(0.1));
        curves.draw("a", None);
        curves.draw("a", Some(1.0));
        assert_eq!(curves.draw("a", Some(0.0)).shown(), "█ ");
        curves.draw("b", Some(1.0));
        curves.keep(["b"].into_iter());
        assert_eq!(curves.draw("a", Some(0.5)).shown(), "▄");
        assert_eq!(curves.draw("b", Some(0.5)).shown(), "█▄");
    }
}
