//! What detectors look at: one row for each quantity of a port, with the question in PromQL that gives it.

use crate::model::signal::Signal;

/// How series of one port become one value: those of several priorities, for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Together.
    Sum,
    /// The worst.
    Max,
}

impl Join {
    /// Of two values.
    pub fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Max => a.max(b),
        }
    }
}

/// A row of [`ALL`].
pub struct SignalSpec {
    /// Which.
    pub signal: Signal,
    /// PromQL; `$w` stands for a window of a few samples.
    pub query: &'static str,
    /// Over series of a port.
    pub join: Join,
    /// It changes over minutes: who asks all the time may ask this seldom, and carry the answer on.
    pub slow: bool,
}

impl SignalSpec {
    /// Whether its values are means over the time since the sample before.
    pub fn is_rate(&self) -> bool {
        self.query.starts_with("irate(")
    }
}

const fn row(signal: Signal, join: Join, query: &'static str) -> SignalSpec {
    SignalSpec { signal, query, join, slow: false }
}

const fn slow(signal: Signal, join: Join, query: &'static str) -> SignalSpec {
    SignalSpec { signal, query, join, slow: true }
}

/// How much a counter grew over a long time: a difference of two samples, which costs two, however long. A reset is no growth.
macro_rules! grown {
    ($series:literal, $time:literal) => {
        concat!("clamp_min(", $series, " - ", $series, " offset ", $time, ", 0)")
    };
}

/// Times that a link went down, by whichever of these the driver counts.
macro_rules! downs {
    ($time:literal) => {
        concat!(
            grown!("fabric_link_downs_total", $time),
            " or ",
            grown!(r#"fabric_link_carrier_transitions_total{state="down"}"#, $time),
            " or ",
            grown!("fabric_link_carrier_changes_total", $time),
            " / 2"
        )
    };
}

/// Errors of the wire.
macro_rules! wire_errors {
    ($time:literal) => {
        concat!(
            grown!(r#"fabric_link_crc_errors_total{direction="receive"}"#, $time),
            " or ",
            grown!("fabric_link_symbol_errors_total", $time)
        )
    };
}

use Join::{Max, Sum};

/// Frames that a rate looks back over, because an agent may miss some samples.
pub const LOOK_BACK: i64 = 5;

/// Every signal, in the order of [`Signal`].
pub const ALL: [SignalSpec; Signal::COUNT] = [
    row(Signal::Tx, Sum, r#"irate(fabric_port_io_bytes_total{direction="transmit"}[$w])"#),
    row(Signal::Rx, Sum, r#"irate(fabric_port_io_bytes_total{direction="receive"}[$w])"#),
    row(Signal::RxPackets, Sum, r#"irate(fabric_port_packets_total{direction="receive"}[$w])"#),
    row(
        Signal::PauseTx,
        Max,
        r#"irate(fabric_pfc_pause_seconds_total{direction="transmit"}[$w]) or irate(fabric_pause_duration_seconds_total{direction="transmit"}[$w])"#,
    ),
    row(
        Signal::PauseRx,
        Max,
        r#"irate(fabric_pfc_pause_seconds_total{direction="receive"}[$w]) or irate(fabric_pause_duration_seconds_total{direction="receive"}[$w])"#,
    ),
    row(Signal::PauseFrames, Sum, r#"irate(fabric_pfc_frames_total{direction="transmit"}[$w])"#),
    row(Signal::Marks, Sum, "irate(fabric_ecn_marks_total[$w])"),
    row(Signal::EcnRx, Sum, "irate(fabric_ecn_packets_total[$w])"),
    row(Signal::CnpTx, Sum, r#"irate(fabric_cnp_packets_total{direction="transmit"}[$w])"#),
    row(Signal::CnpRx, Sum, r#"irate(fabric_cnp_packets_total{direction="receive"}[$w])"#),
    row(Signal::Retransmits, Sum, "irate(fabric_rdma_retransmits_total[$w])"),
    row(Signal::OutOfSequence, Sum, "irate(fabric_rdma_out_of_sequence_total[$w])"),
    row(Signal::SequenceNaks, Sum, r#"irate(fabric_rdma_sequence_naks_total{direction="receive"}[$w])"#),
    row(Signal::Timeouts, Sum, "irate(fabric_rdma_ack_timeouts_total[$w])"),
    row(
        // One bad frame moves several of them.
        Signal::WireErrors,
        Max,
        r#"irate(fabric_link_crc_errors_total{direction="receive"}[$w]) or irate(fabric_link_symbol_errors_total[$w]) or irate(fabric_link_receive_errors_total[$w])"#,
    ),
    row(Signal::Discards, Sum, "irate(fabric_port_discards_total[$w])"),
    row(Signal::Queue, Sum, "fabric_port_queue_bytes"),
    row(Signal::QueueMax, Max, "fabric_port_queue_max_bytes"),
    row(Signal::Rate, Max, "fabric_port_rate_bytes_per_second"),
    row(Signal::Up, Max, "fabric_port_up or fabric_netdev_carrier"),
    row(Signal::XmitWait, Max, "irate(fabric_port_xmit_wait_bytes_total[$w]) / fabric_port_rate_bytes_per_second"),
    row(
        Signal::StormErrors,
        Sum,
        r#"irate(fabric_pause_storm_events_total{direction="transmit",reason=~"error|continuous.*"}[$w])"#,
    ),
    row(
        Signal::StormWarnings,
        Sum,
        r#"irate(fabric_pause_storm_events_total{direction="transmit",reason="warning"}[$w])"#,
    ),
    slow(Signal::LinkDowns, Max, downs!("10m")),
    slow(Signal::LinkDownsDay, Max, downs!("1d")),
    slow(Signal::WireErrorsShort, Max, wire_errors!("12m")),
    slow(Signal::WireErrorsLong, Max, wire_errors!("125m")),
    row(Signal::FecLost, Sum, "irate(fabric_fec_uncorrectable_blocks_total[$w])"),
    slow(
        Signal::FecMended,
        Max,
        "rate(fabric_fec_corrected_blocks_total[5m]) or rate(fabric_fec_corrected_bits_total[5m]) unless on (host, device, port) fabric_fec_corrected_blocks_total",
    ),
    slow(
        Signal::FecMendedBefore,
        Max,
        "rate(fabric_fec_corrected_blocks_total[5m] offset 1d) or rate(fabric_fec_corrected_bits_total[5m] offset 1d) unless on (host, device, port) fabric_fec_corrected_blocks_total offset 1d",
    ),
    // These are told by device; ports of the device have them.
    slow(
        Signal::PcieRate,
        Max,
        "0 * fabric_port_up + on (host, device) group_left () fabric_pcie_rate_bytes_per_second",
    ),
    slow(
        Signal::PcieRateMax,
        Max,
        "0 * fabric_port_up + on (host, device) group_left () fabric_pcie_rate_max_bytes_per_second",
    ),
    row(Signal::PcieStall, Max, "irate(fabric_pcie_stall_seconds_total[$w])"),
    slow(Signal::RxPower, Max, "min by (host, device, port) (fabric_module_receive_power_watts)"),
    slow(Signal::RxPowerBefore, Max, "min by (host, device, port) (fabric_module_receive_power_watts offset 1d)"),
    slow(Signal::ModuleTemperature, Max, "fabric_module_temperature_celsius"),
    row(Signal::RdmaTx, Sum, r#"irate(fabric_rdma_io_bytes_total{direction="transmit"}[$w])"#),
    row(Signal::NetdevTx, Sum, r#"irate(fabric_netdev_io_bytes_total{direction="transmit"}[$w])"#),
    row(Signal::RetriesExceeded, Sum, "irate(fabric_rdma_retries_exceeded_total[$w])"),
    row(Signal::Width, Max, "fabric_port_width"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_signals_and_parse() {
        for (at, row) in ALL.iter().enumerate() {
            assert_eq!(row.signal as usize, at, "{:?}", row.signal);
            fabriclens_promql::check(&row.query.replace("$w", "5s")).unwrap();
        }
    }
}
