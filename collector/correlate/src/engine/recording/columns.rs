//! Reads `ports.csv.gz`: maps columns to series.

use super::error::RecordingError;
use fabriclens_model::{Labels, Memory, Series, settle};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A column of the table.
struct Column {
    name: &'static str,
    metric: &'static str,
    labels: &'static [(&'static str, &'static str)],
    /// Factor to the metric's unit.
    scale: f64,
    /// A cumulative counter of traffic, which is multiplied by the stretch factor as time is.
    counts: bool,
}

const fn counter(name: &'static str, metric: &'static str, labels: &'static [(&'static str, &'static str)]) -> Column {
    Column { name, metric, labels, scale: 1.0, counts: true }
}

/// Counts of single events (a link fell), which are not stretched: one event stays one.
const fn events(name: &'static str, metric: &'static str, labels: &'static [(&'static str, &'static str)]) -> Column {
    Column { name, metric, labels, scale: 1.0, counts: false }
}

const fn gauge(name: &'static str, metric: &'static str, scale: f64) -> Column {
    Column { name, metric, labels: &[], scale, counts: false }
}

const TX: (&str, &str) = ("direction", "transmit");
const RX: (&str, &str) = ("direction", "receive");

/// Columns without a priority; the others are in [`BY_PRIORITY`].
const COLUMNS: [Column; 41] = [
    counter("tx_bytes", "fabric_port_io_bytes_total", &[TX]),
    counter("rx_bytes", "fabric_port_io_bytes_total", &[RX]),
    counter("tx_pkts", "fabric_port_packets_total", &[TX]),
    counter("rx_pkts", "fabric_port_packets_total", &[RX]),
    counter("ecn_marked_pkts", "fabric_ecn_marks_total", &[]),
    counter("np_ecn_marked_pkts", "fabric_ecn_packets_total", &[]),
    counter("np_cnp_sent", "fabric_cnp_packets_total", &[TX]),
    counter("rp_cnp_handled", "fabric_cnp_packets_total", &[RX]),
    counter("retx_pkts", "fabric_rdma_retransmits_total", &[]),
    counter("nack_sent", "fabric_rdma_sequence_naks_total", &[TX]),
    counter("nack_rcvd", "fabric_rdma_sequence_naks_total", &[RX]),
    counter("out_of_seq", "fabric_rdma_out_of_sequence_total", &[]),
    counter("dup_pkts", "fabric_rdma_duplicate_requests_total", &[]),
    counter("rto", "fabric_rdma_ack_timeouts_total", &[]),
    counter("buf_drops", "fabric_port_discards_total", &[RX, ("reason", "buffer")]),
    counter("rx_discards", "fabric_port_discards_total", &[RX, ("reason", "nic_buffer")]),
    counter("rx_crc_err", "fabric_link_crc_errors_total", &[RX]),
    counter("xmit_wait_bytes", "fabric_port_xmit_wait_bytes_total", &[]),
    counter("xmit_discards", "fabric_port_discards_total", &[TX, ("reason", "discarded")]),
    counter("other_drops", "fabric_port_discards_total", &[RX, ("reason", "dropped")]),
    events("retry_exceeded", "fabric_rdma_retries_exceeded_total", &[]),
    events("symbol_err", "fabric_link_symbol_errors_total", &[]),
    events("rx_symbol_err", "fabric_link_symbol_errors_total", &[]),
    counter("rx_err", "fabric_link_receive_errors_total", &[]),
    counter("rcv_remote_phys_err", "fabric_link_errors_total", &[RX, ("reason", "remote_physical")]),
    events("link_integrity_err", "fabric_link_errors_total", &[RX, ("reason", "local_link_integrity")]),
    events("link_error_recovery", "fabric_link_recoveries_total", &[]),
    counter("link_replays", "fabric_link_errors_total", &[RX, ("reason", "replay")]),
    events("link_downs", "fabric_link_downs_total", &[]),
    events("link_downed", "fabric_link_downs_total", &[]),
    counter("fec_corrected", "fabric_fec_corrected_blocks_total", &[]),
    counter("fec_uncorrectable", "fabric_fec_uncorrectable_blocks_total", &[]),
    gauge("up", "fabric_port_up", 1.0),
    gauge("link_up", "fabric_port_up", 1.0),
    gauge("width", "fabric_port_width", 1.0),
    gauge("temp_c", "fabric_module_temperature_celsius", 1.0),
    gauge("q_bytes", "fabric_port_queue_bytes", 1.0),
    gauge("q_max_bytes", "fabric_port_queue_max_bytes", 1.0),
    gauge("sw_shared_bytes", "fabric_switch_buffer_bytes", 1.0),
    gauge("sw_shared_max_bytes", "fabric_switch_buffer_max_bytes", 1.0),
    gauge("speed_gbps", "fabric_port_rate_bytes_per_second", 1.25e8),
];

/// Columns per priority, named `…_pN`.
const BY_PRIORITY: [Column; 4] = [
    counter("tx_pfc_p", "fabric_pfc_frames_total", &[TX]),
    counter("rx_pfc_p", "fabric_pfc_frames_total", &[RX]),
    Column { scale: 1e-9, ..counter("tx_pause_ns_p", "fabric_pfc_pause_seconds_total", &[TX]) },
    Column { scale: 1e-9, ..counter("rx_pause_ns_p", "fabric_pfc_pause_seconds_total", &[RX]) },
];

/// Row and priority of a column.
fn find(name: &str) -> Option<(&'static Column, Option<&str>)> {
    let plain = COLUMNS.iter().find(|c| c.name == name).map(|c| (c, None));
    plain.or_else(|| {
        let prefixed = |c: &'static Column| {
            let priority = name.strip_prefix(c.name)?;
            priority.bytes().all(|b| b.is_ascii_digit()).then_some((c, Some(priority)))
        };
        BY_PRIORITY.iter().find_map(prefixed)
    })
}

/// Samples of the `wanted` nodes, and the instants with samples (Unix ms). Unknown columns and empty cells are skipped.
pub(super) fn read(
    dir: &Path,
    stretch: i64,
    wanted: impl Fn(&str) -> bool,
) -> Result<(Memory, Vec<i64>), RecordingError> {
    let path = dir.join("ports.csv.gz");
    let shown = path.display().to_string();
    let failed = |error| RecordingError::Read { path: shown.clone(), error };
    let wrong = |line: usize, what: String| RecordingError::Row { path: shown.clone(), line: line + 1, what };
    let file = std::fs::File::open(&path).map_err(failed)?;
    let mut lines = BufReader::new(flate2::read::MultiGzDecoder::new(file)).lines();
    let head = lines.next().transpose().map_err(failed)?.unwrap_or_default();
    let names: Vec<&str> = head.trim_end().split(',').collect();
    let place = |name: &str| {
        let at = names.iter().position(|n| *n == name);
        at.ok_or_else(|| wrong(0, format!("there is no column {name}")))
    };
    let (tick, node, port) = (place("tick_ns")?, place("node")?, place("port")?);
    let columns: Vec<_> = names.iter().map(|n| find(n)).collect();
    let mut series: HashMap<(String, String, usize), Series> = HashMap::new();
    let mut ticks = Vec::new();
    for (line, text) in lines.enumerate() {
        let text = text.map_err(failed)?;
        let cells: Vec<&str> = text.split(',').collect();
        if cells.len() != names.len() {
            let what = format!("{} cells under {} columns", cells.len(), names.len());
            return Err(wrong(line + 1, what));
        }
        if !wanted(cells[node]) {
            continue;
        }
        let number = |at: usize| -> Result<f64, RecordingError> {
            cells[at].parse().map_err(|_| wrong(line + 1, format!("{} is {:?}, no number", names[at], cells[at])))
        };
        let time_ms = (number(tick)? as i64).saturating_mul(stretch) / 1_000_000;
        ticks.push(time_ms);
        for (at, column) in columns.iter().enumerate() {
            let Some((column, priority)) = column else { continue };
            if cells[at].is_empty() {
                continue;
            }
            let factor = if column.counts { column.scale * stretch as f64 } else { column.scale };
            let one = series.entry((cells[node].to_owned(), cells[port].to_owned(), at)).or_insert_with(|| {
                let own = [("__name__", column.metric), ("host", cells[node]), ("port", cells[port])];
                let priority = priority.map(|p| ("priority", p));
                Series {
                    labels: Labels::new(own.into_iter().chain(column.labels.iter().copied()).chain(priority)),
                    ..Series::default()
                }
            });
            one.times.push(time_ms);
            one.values.push(number(at)? * factor);
        }
    }
    // Rows may be in any order.
    let mut series: Vec<Series> = series.into_values().collect();
    for one in &mut series {
        (one.times, one.values) = settle(std::mem::take(&mut one.times), std::mem::take(&mut one.values));
    }
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    let ticks = instants(ticks, &series);
    Ok((Memory(series), ticks))
}

/// Instants to evaluate. Node clocks differ, so instants closer than half the sampling period of a port are one, the
/// last of them.
fn instants(mut times: Vec<i64>, series: &[Series]) -> Vec<i64> {
    times.sort_unstable();
    times.dedup();
    let steps = series.iter().flat_map(|one| one.times.windows(2).map(|w| w[1] - w[0]));
    let step = steps.min().unwrap_or(0);
    let mut instants: Vec<i64> = Vec::new();
    let mut first = i64::MIN;
    for time in times {
        match instants.last_mut() {
            Some(last) if (time - first) * 2 < step => *last = time,
            _ => {
                first = time;
                instants.push(time);
            }
        }
    }
    instants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_clocks_share_instants() {
        let one = |times: &[i64]| Series { times: times.to_vec(), ..Series::default() };
        let series = [one(&[1000, 2000, 4000]), one(&[1200, 2200, 4200])];
        let times = |series: &[Series]| series.iter().flat_map(|s| s.times.clone()).collect();
        assert_eq!(instants(times(&series), &series), [1200, 2200, 4200]);
        assert_eq!(instants(times(&series[..1]), &series[..1]), [1000, 2000, 4000]);
        assert!(instants(Vec::new(), &[]).is_empty());
    }
}
