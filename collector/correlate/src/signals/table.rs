//! What detectors look at: one row for each quantity of a port, with the question in PromQL that gives it.

/// A quantity of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Bytes a second sent.
    Tx,
    /// Bytes a second received.
    Rx,
    /// Packets a second received.
    RxPackets,
    /// Share of time in which this port kept its peer from sending.
    PauseTx,
    /// Share of time in which this port was kept from sending.
    PauseRx,
    /// Pause frames a second sent.
    PauseFrames,
    /// Packets a second that this port marked on their way out.
    Marks,
    /// Marked packets a second that arrived at their destination.
    EcnRx,
    /// Congestion notifications a second sent.
    CnpTx,
    /// Congestion notifications a second received.
    CnpRx,
    /// RDMA packets a second sent again.
    Retransmits,
    /// RDMA packets a second that came out of sequence.
    OutOfSequence,
    /// Host: negative acknowledgements of packets that the other end missed, received a second.
    SequenceNaks,
    /// Acknowledgements a second that did not come in time.
    Timeouts,
    /// Frames a second received with errors of the wire.
    WireErrors,
    /// Packets a second dropped for want of buffer.
    Discards,
    /// Bytes that wait at this port: a switch's queue out, a NIC's receive buffer.
    Queue,
    /// The most that waited since the sample before.
    QueueMax,
    /// Bytes a second that the link could carry.
    Rate,
    /// 1 if the link is up.
    Up,
    /// Share of the line rate that could not be sent for want of credits, or because arbitration was lost.
    XmitWait,
    /// Pause of its own that a NIC found to be a storm, and ended by force: times a second.
    StormErrors,
    /// Pause of its own that a NIC found too long: times a second.
    StormWarnings,
    /// Times that the link went down in the last ten minutes.
    LinkDowns,
    /// The same in the last day.
    LinkDownsDay,
    /// Errors of the wire in the last 12 minutes.
    WireErrorsShort,
    /// The same in the last 125 minutes.
    WireErrorsLong,
    /// Code words a second that error correction could not mend.
    FecLost,
    /// What error correction mended a second: code words, or bits.
    FecMended,
    /// The same a day ago.
    FecMendedBefore,
    /// Bytes a second that the narrowest link between adapter and processor carries.
    PcieRate,
    /// The same, if each such link ran as well as its ends can.
    PcieRateMax,
    /// Share of seconds in which the adapter's requests to memory stalled.
    PcieStall,
    /// Watts of light that the weakest lane receives.
    RxPower,
    /// The same a day ago.
    RxPowerBefore,
    /// Degrees Celsius of the pluggable module.
    ModuleTemperature,
    /// Bytes a second that RDMA sent.
    RdmaTx,
    /// Bytes a second that the kernel sent: TCP and the like.
    NetdevTx,
    /// Queue pairs a second that gave up.
    RetriesExceeded,
    /// Lanes that the link runs on.
    Width,
}

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
pub struct Row {
    /// Which.
    pub signal: Signal,
    /// PromQL; `$w` stands for a window of a few samples.
    pub query: &'static str,
    /// Over series of a port.
    pub join: Join,
    /// It changes over minutes: who asks all the time may ask this seldom, and carry the answer on.
    pub slow: bool,
}

impl Row {
    /// Whether its values are means over the time since the sample before.
    pub fn is_rate(&self) -> bool {
        self.query.starts_with("irate(")
    }
}

const fn row(signal: Signal, join: Join, query: &'static str) -> Row {
    Row { signal, query, join, slow: false }
}

const fn slow(signal: Signal, join: Join, query: &'static str) -> Row {
    Row { signal, query, join, slow: true }
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

/// Every signal, in the order of [`Signal`].
pub const ALL: [Row; 40] = [
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
