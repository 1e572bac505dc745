//! Columns of `ports.csv.gz` and the series that they are.

use fabriclens_model::{Labels, absent};

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
const COLUMNS: [Column; 43] = [
    counter("tx_bytes", "fabric_port_io_bytes_total", &[TX]),
    counter("rx_bytes", "fabric_port_io_bytes_total", &[RX]),
    counter("tx_pkts", "fabric_port_packets_total", &[TX]),
    counter("rx_pkts", "fabric_port_packets_total", &[RX]),
    counter("ecn_marked_pkts", "fabric_ecn_marks_total", &[]),
    counter("np_ecn_marked_pkts", "fabric_ecn_packets_total", &[]),
    counter("fecn_pkts", "fabric_ecn_packets_total", &[]),
    counter("becn_pkts", "fabric_cnp_packets_total", &[RX]),
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

/// A column of the header that is read: what its cells become.
pub(super) struct CellReader {
    column: &'static Column,
    priority: Option<String>,
    /// Factor from a cell to the value.
    factor: f64,
}

impl CellReader {
    /// The reader of a column by its name in the header; `None` if the table does not know it.
    pub(super) fn of(name: &str, stretch: i64) -> Option<Self> {
        let (column, priority) = find(name)?;
        let factor = if column.counts { column.scale * stretch as f64 } else { column.scale };
        Some(Self { column, priority: priority.map(str::to_owned), factor })
    }

    /// Whether both become the same series of a port: drivers give one counter several names.
    pub(super) fn is_same_series(&self, other: &Self) -> bool {
        let series = |reader: &Self| (reader.column.metric, reader.column.labels, reader.priority.clone());
        series(self) == series(other)
    }

    /// Labels of the series of a port.
    pub(super) fn labels(&self, node: &str, port: &str) -> Labels {
        let own = [("__name__", self.column.metric), ("host", node), ("port", port)];
        let priority = self.priority.as_deref().map(|p| ("priority", p));
        Labels::new(own.into_iter().chain(self.column.labels.iter().copied()).chain(priority))
    }

    /// Value of a cell; absent for an empty one, `None` if it is no number.
    pub(super) fn value(&self, cell: &[u8]) -> Option<f64> {
        if cell.is_empty() {
            return Some(absent());
        }
        number(cell).map(|number| number * self.factor)
    }
}

/// Digits of the longest whole number that is read digit by digit: it fits into 64 bits.
const DIGITS: usize = 19;

/// The number of a cell, as `f64` parses it; nearly all are whole.
pub(super) fn number(cell: &[u8]) -> Option<f64> {
    let whole = |digits: &[u8]| {
        let mut number = 0;
        for digit in digits {
            number = number * 10 + u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        }
        Some(number as f64)
    };
    let short = (1..=DIGITS).contains(&cell.len());
    short.then(|| whole(cell)).flatten().or_else(|| std::str::from_utf8(cell).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_stretched_and_events_are_not() {
        let value = |name: &str, cell: &str| CellReader::of(name, 1000).unwrap().value(cell.as_bytes());
        assert_eq!(value("tx_bytes", "7"), Some(7000.0));
        assert!(value("tx_pause_ns_p3", "2000000").is_some_and(|s| (s - 2.0).abs() < 1e-9), "nanoseconds");
        assert_eq!(value("link_downs", "1"), Some(1.0), "a link that fell once fell once");
        assert_eq!(value("speed_gbps", "100"), Some(1.25e10));
        assert!(value("up", "").is_some_and(fabriclens_model::is_absent));
        assert_eq!(value("up", "yes"), None);
        assert!(CellReader::of("colour", 1).is_none());
    }

    #[test]
    fn numbers_are_as_parsed() {
        for cell in [
            "0",
            "-0",
            "7",
            "007",
            "1e3",
            "0.25",
            "-3",
            "9007199254740993",
            "1764160000123456789",
            "9999999999999999999",
        ] {
            assert_eq!(number(cell.as_bytes()).map(f64::to_bits), cell.parse().ok().map(f64::to_bits), "{cell}");
        }
        assert_eq!(
            ["", "+", "1_000", "99999999999999999999"].map(|cell| number(cell.as_bytes())),
            [None, None, None, Some(1e20)]
        );
    }

    #[test]
    fn congestion_marks_of_infiniband_are_those_of_the_adapter() {
        let same = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|name| CellReader::of(name, 1).unwrap());
            a.is_same_series(&b)
        };
        assert!(same("fecn_pkts", "np_ecn_marked_pkts") && same("becn_pkts", "rp_cnp_handled"));
        assert!(!same("becn_pkts", "np_cnp_sent") && !same("tx_pfc_p3", "tx_pfc_p4"));
    }
}
