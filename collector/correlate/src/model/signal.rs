//! The quantities of a port that detectors read; `signals` says how each is measured.

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

impl Signal {
    /// How many signals there are.
    pub const COUNT: usize = Self::Width as usize + 1;
}
