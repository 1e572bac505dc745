//! The quantities of a port that detectors read; `signals` says how each is measured.

/// A quantity of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Bytes per second sent.
    Tx,
    /// Bytes per second received.
    Rx,
    /// Packets per second received.
    RxPackets,
    /// Share of time in which this port paused its peer.
    PauseTx,
    /// Share of time in which this port was paused.
    PauseRx,
    /// Pause frames per second sent.
    PauseFrames,
    /// Packets per second that this port marked on egress (ECN); where only queues are counted, those of the queue with most.
    Marks,
    /// Marked packets per second that arrived at their destination.
    EcnRx,
    /// Congestion notification packets per second sent.
    CnpTx,
    /// Congestion notification packets per second received.
    CnpRx,
    /// RDMA packets per second retransmitted.
    Retransmits,
    /// RDMA packets per second received out of sequence.
    OutOfSequence,
    /// Negative acknowledgments per second received for packets that the other end missed.
    SequenceNaks,
    /// Acknowledgment timeouts per second.
    Timeouts,
    /// Frames per second received with errors of the physical link.
    WireErrors,
    /// Packets per second dropped because a buffer was full.
    Discards,
    /// Bytes queued at this port: the egress queue of a switch, the receive buffer of a NIC.
    Queue,
    /// Highest queue since the sample before, bytes.
    QueueMax,
    /// Line rate in bytes per second.
    Rate,
    /// 1 if the link is up.
    Up,
    /// Share of the line rate that could not be sent because credits were missing or arbitration was lost.
    XmitWait,
    /// Pause storms per second that the NIC detected in its own pause and stopped.
    StormErrors,
    /// Warnings per second of the NIC about its own long pause.
    StormWarnings,
    /// How often the link went down in the last 10 minutes.
    LinkDowns,
    /// How often the link went down in the last day.
    LinkDownsDay,
    /// Errors of the physical link in the last 12 minutes.
    WireErrorsShort,
    /// Errors of the physical link in the last 125 minutes.
    WireErrorsLong,
    /// Uncorrectable FEC code words per second.
    FecLost,
    /// FEC corrections per second: code words, or bits.
    FecMended,
    /// FEC corrections per second, a day ago.
    FecMendedBefore,
    /// Bytes per second that the narrowest PCIe link between adapter and processor carries.
    PcieRate,
    /// The same if each PCIe link ran as its two ends are able to.
    PcieRateMax,
    /// Share of seconds in which the adapter's memory requests stalled.
    PcieStall,
    /// 1 if the adapter reaches the memory of its host's GPUs directly (GPUDirect RDMA), 0 if data is copied through host memory.
    GpuDirect,
    /// Receive power of the weakest lane, watts.
    RxPower,
    /// Receive power of the weakest lane a day ago, watts.
    RxPowerBefore,
    /// Temperature of the pluggable module, degrees Celsius.
    ModuleTemperature,
    /// Bytes per second sent by RDMA.
    RdmaTx,
    /// Bytes per second sent by the kernel's network stack, such as TCP.
    NetdevTx,
    /// Queue pairs per second that exhausted their retries.
    RetriesExceeded,
    /// Lanes of the link.
    Width,
    /// Storms per second that the PFC watchdog of a switch found at this port: an egress queue was paused for too long.
    WatchdogStorms,
    /// Packets per second received that were dropped because the shared buffer and the headroom were full.
    HeadroomDrops,
    /// How often a second the link went down, by the device's own count.
    Falls,
}

impl Signal {
    /// Number of signals.
    pub const COUNT: usize = Self::Falls as usize + 1;
}
