//! Bursts shorter than a second on chosen interfaces, as the kernel's packet path sees them, in bins of a millisecond.

use super::words::*;

metrics! {
    BURST_IO_PEAK, Gauge, Host, "fabric.microburst.io.peak", BytesPerSecond, ["direction", "netdev"],
        "Rate of the millisecond with most bytes since the sample before; the kernel path, no RDMA that passes it by.";
    BURST_PACKETS_PEAK, Gauge, Host, "fabric.microburst.packets.peak", Count("{packet}/s"), ["direction", "netdev"],
        "Rate of the millisecond with most packets since the sample before.";
    BURST_THRESHOLD, Gauge, Host, "fabric.microburst.threshold", BytesPerSecond, ["netdev"],
        "Rate from which a millisecond is a burst: the configured share of the line, or the configured bytes.";
    BURST_TIME, Counter, Host, "fabric.microburst.time", Seconds, ["direction", "netdev"],
        "Time in milliseconds that were bursts.";
    BURST_CE, Counter, Host, "fabric.microburst.ce_packets", PACKETS, ["direction", "netdev"],
        "Packets with a congestion mark (CE) that crossed the kernel on this interface.";
    BURST_ROCE, Counter, Host, "fabric.microburst.roce_packets", PACKETS, ["direction", "netdev"],
        "RoCEv2 packets (UDP to port 4791) that crossed the kernel on this interface: soft-RoCE, or what an adapter gave up.";
    BURST_MISSED, Counter, Host, "fabric.microburst.missed", Seconds, ["netdev"],
        "Time that was not looked at because the sample came after its bins were used again.";
    BURST_DUMPS, Counter, Host, "fabric.microburst.dumps", Count("{dump}"), ["netdev"],
        "Recordings of the milliseconds around a burst, kept at /debug/microburst.";
}
