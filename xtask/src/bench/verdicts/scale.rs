//! Makes a fabric faster or slower: rates, bytes, packets, frames and queues are multiplied; times, states and errors stay.

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

/// Multiplies the cells of a row.
pub fn change(names: &[&str], cells: &mut [String], factor: f64) {
    for (name, cell) in names.iter().zip(cells) {
        if SCALED.iter().any(|part| name.contains(part))
            && let Ok(value) = cell.parse::<f64>()
        {
            *cell = format!("{:.0}", value * factor);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_states_and_absent_cells_stay() {
        let names = ["tick_ns", "node", "tx_bytes", "rx_pause_ns_p3", "up", "ecn_marked_pkts", "speed_gbps"];
        let mut cells = ["1000", "7", "10", "500", "1", "", "100"].map(str::to_owned);
        super::change(&names, &mut cells, 4.0);
        assert_eq!(cells, ["1000", "7", "40", "500", "1", "", "400"]);
    }
}
