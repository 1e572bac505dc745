//! Bursts shorter than a second on selected interfaces, measured on the kernel's packet path in bins of one millisecond.

use super::units::*;

metrics! {
    BURST_IO_PEAK, Gauge, Host, "fabric.microburst.io.peak", BytesPerSecond, ["direction", "netdev"],
        "Rate of the busiest millisecond (by bytes) since the previous sample; kernel path only, without RDMA that bypasses it.";
    BURST_PACKETS_PEAK, Gauge, Host, "fabric.microburst.packets.peak", Count("{packet}/s"), ["direction", "netdev"],
        "Rate of the busiest millisecond (by packets) since the previous sample.";
    BURST_THRESHOLD, Gauge, Host, "fabric.microburst.threshold", BytesPerSecond, ["netdev"],
        "Rate from which a millisecond counts as a burst: the configured share of the line rate, or the configured bytes.";
    BURST_TIME, Counter, Host, "fabric.microburst.time", Seconds, ["direction", "netdev"],
        "Total time of the milliseconds that were bursts.";
    BURST_CE, Counter, Host, "fabric.microburst.ce_packets", PACKETS, ["direction", "netdev"],
        "Packets with a congestion mark (CE) that passed through the kernel on this interface.";
    BURST_ROCE, Counter, Host, "fabric.microburst.roce_packets", PACKETS, ["direction", "netdev"],
        "RoCEv2 packets (UDP to port 4791) that passed through the kernel on this interface: soft-RoCE, or packets that the adapter did not handle itself.";
    BURST_MISSED, Counter, Host, "fabric.microburst.missed", Seconds, ["netdev"],
        "Time that was not observed because its bins were overwritten before they were read.";
    BURST_DUMPS, Counter, Host, "fabric.microburst.dumps", Count("{dump}"), ["netdev"],
        "Recordings of the milliseconds around a burst, kept at /debug/microburst.";
}
