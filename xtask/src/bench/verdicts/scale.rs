//! Makes a fabric faster or slower: rates, bytes, packets, frames and queues are multiplied; times, states and errors stay.

use super::row::{Columns, RowChange};
use serde_json::Value;

/// Parts of the names of columns that grow with the rate of the links.
const SCALED: [&str; 11] =
    ["bytes", "pkts", "pfc", "cnp", "marked", "speed", "drops", "discards", "nack", "out_of_seq", "rx_err"];

/// Multiplies the rates that a topology gives for its links.
pub fn change_links(topology: &mut Value, factor: f64) {
    for link in topology["links"].as_array_mut().into_iter().flatten() {
        if let Some(rate) = link["rate_gbps"].as_f64() {
            link["rate_gbps"] = (rate * factor).into();
        }
    }
}

/// Multiplies the cells of each row.
pub fn faster(columns: &Columns, factor: f64) -> RowChange {
    let scaled = columns.places(|name| SCALED.iter().any(|part| name.contains(part)));
    Box::new(move |row| {
        for at in &scaled {
            if let Ok(value) = row.cells[*at].parse::<f64>() {
                row.cells[*at] = format!("{:.0}", value * factor);
            }
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::verdicts::row::Row;

    #[test]
    fn times_states_and_absent_cells_stay() {
        let columns =
            Columns::parse("tick_ns,node,port,tx_bytes,rx_pause_ns_p3,up,ecn_marked_pkts,speed_gbps").unwrap();
        let cells = ["1000", "7", "1", "10", "500", "1", "", "100"].map(str::to_owned).to_vec();
        let mut row = Row { columns: &columns, cells, instant: 0 };
        assert!(faster(&columns, 4.0)(&mut row).unwrap());
        assert_eq!(row.cells, ["1000", "7", "1", "40", "500", "1", "", "400"]);
    }
}
