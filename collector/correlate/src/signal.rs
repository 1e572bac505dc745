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
    /// Share of the line rate that could not be sent for want of credits.
    XmitWait,
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
}

const fn row(signal: Signal, join: Join, query: &'static str) -> Row {
    Row { signal, query, join }
}

use Join::{Max, Sum};

/// Every signal, in the order of [`Signal`].
pub const ALL: [Row; 20] = [
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
    row(Signal::Timeouts, Sum, "irate(fabric_rdma_ack_timeouts_total[$w])"),
    row(
        Signal::WireErrors,
        Sum,
        r#"irate(fabric_link_crc_errors_total{direction="receive"}[$w]) or irate(fabric_link_symbol_errors_total[$w])"#,
    ),
    row(Signal::Discards, Sum, "irate(fabric_port_discards_total[$w])"),
    row(Signal::Queue, Sum, "fabric_port_queue_bytes"),
    row(Signal::QueueMax, Max, "fabric_port_queue_max_bytes"),
    row(Signal::Rate, Max, "fabric_port_rate_bytes_per_second"),
    row(Signal::Up, Max, "fabric_port_up"),
    row(Signal::XmitWait, Max, "irate(fabric_port_xmit_wait_bytes_total[$w]) / fabric_port_rate_bytes_per_second"),
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
