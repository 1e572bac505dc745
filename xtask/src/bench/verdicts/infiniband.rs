//! Makes InfiniBand's counters of RoCE's: pause becomes waiting for credits, and what InfiniBand lacks is left out.

use super::row::{Columns, RowChange};
use std::collections::HashMap;

/// Column of what waited for credits, in bytes at the port's rate.
pub const WAIT: &str = "xmit_wait_bytes";
/// Parts of column names that InfiniBand does not have.
const ETHERNET: [&str; 6] = ["_pfc_", "_pause_", "ecn_marked", "cnp_", "q_", "sw_shared"];

/// Whether InfiniBand has a column.
pub fn has(column: &str) -> bool {
    !ETHERNET.iter().any(|part| column.contains(part))
}

/// Fills the column [`WAIT`], which is the last, from the most paused priority.
pub fn waits(columns: &Columns) -> RowChange {
    let paused = columns.places(|name| name.starts_with("rx_pause_ns"));
    let mut rates: HashMap<(String, String), f64> = HashMap::new();
    Box::new(move |row| {
        // Bytes per nanosecond at the first rate of the port: a counter must not fall when a link gets slower.
        let first = row.cells[row.columns.speed].parse::<f64>().unwrap_or(0.0) / 8.0;
        let rate = *rates.entry(row.key()).or_insert(first);
        let paused_ns = paused.iter().filter_map(|at| row.cells[*at].parse::<f64>().ok()).fold(0.0, f64::max);
        if let Some(wait) = row.cells.last_mut() {
            *wait = format!("{:.0}", paused_ns * rate);
        }
        Ok(true)
    })
}
