//! Rows of `ports.csv.gz`, and what changes them.

use anyhow::{Context, Result};

/// Columns of a file, and the places of those that identify a row.
pub struct Columns {
    /// Names, in order.
    pub names: Vec<String>,
    /// Place of the time.
    pub tick: usize,
    /// Place of the node.
    pub node: usize,
    /// Place of the port.
    pub port: usize,
    /// Place of the link's rate, Gb/s.
    pub speed: usize,
}

impl Columns {
    /// Columns of the first line of a file.
    ///
    /// # Errors
    /// When one that identifies a row is absent.
    pub fn parse(head: &str) -> Result<Self> {
        let names: Vec<String> = head.split(',').map(str::to_owned).collect();
        let place = |name: &str| names.iter().position(|n| n == name).with_context(|| format!("no column {name}"));
        let [tick, node, port, speed] = [place("tick_ns")?, place("node")?, place("port")?, place("speed_gbps")?];
        Ok(Self { names, tick, node, port, speed })
    }

    /// Places of the columns that a condition selects by name.
    pub fn places(&self, mut condition: impl FnMut(&str) -> bool) -> Vec<usize> {
        (0..self.names.len()).filter(|at| condition(&self.names[*at])).collect()
    }
}

/// A row.
pub struct Row<'a> {
    /// Columns of its file.
    pub columns: &'a Columns,
    /// Its cells.
    pub cells: Vec<String>,
    /// Number of its instant in the file, from 0.
    pub instant: usize,
}

impl Row<'_> {
    /// Its node.
    pub fn node(&self) -> &str {
        &self.cells[self.columns.node]
    }

    /// Its node and port.
    pub fn key(&self) -> (String, String) {
        (self.node().to_owned(), self.cells[self.columns.port].clone())
    }
}

/// Changes the rows of a file in turn; false leaves a row out. Fails when a cell is not what its column says.
pub type RowChange = Box<dyn FnMut(&mut Row<'_>) -> Result<bool>>;
