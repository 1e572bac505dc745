//! The PCIe path behind the port: negotiated and maximum speed, errors, stalls.

use super::units::*;

metrics! {
    PCIE_SPEED, Gauge, Device, "fabric.pcie.lane.speed", Count("{transfer}/s"), [],
        "Negotiated PCIe speed per lane in transfers per second (32 GT/s = 3.2e10).";
    PCIE_SPEED_MAX, Gauge, Device, "fabric.pcie.lane.speed.max", Count("{transfer}/s"), [],
        "Highest PCIe speed per lane that the adapter can do.";
    PCIE_WIDTH, Gauge, Device, "fabric.pcie.width", Count("{lane}"), [],
        "Negotiated PCIe lanes.";
    PCIE_WIDTH_MAX, Gauge, Device, "fabric.pcie.width.max", Count("{lane}"), [],
        "PCIe lanes that the adapter can use.";
    PCIE_RATE, Gauge, Device, "fabric.pcie.rate", BytesPerSecond, [],
        "Bandwidth of the narrowest PCIe link from the adapter to the root, one direction, after line coding.";
    PCIE_RATE_MAX, Gauge, Device, "fabric.pcie.rate.max", BytesPerSecond, [],
        "Bandwidth of the PCIe path if every link ran at the highest speed and width that both its ends support.";
    PCIE_BRIDGE_SPEED, Gauge, Device, "fabric.pcie.bridge.lane.speed", Count("{transfer}/s"), ["bridge"],
        "Negotiated speed per lane of the worst link above the adapter; `bridge` is its PCI address.";
    PCIE_BRIDGE_SPEED_MAX, Gauge, Device, "fabric.pcie.bridge.lane.speed.max", Count("{transfer}/s"), ["bridge"],
        "Highest speed per lane of the worst link above the adapter.";
    PCIE_BRIDGE_WIDTH, Gauge, Device, "fabric.pcie.bridge.width", Count("{lane}"), ["bridge"],
        "Negotiated lanes of the worst link above the adapter.";
    PCIE_BRIDGE_WIDTH_MAX, Gauge, Device, "fabric.pcie.bridge.width.max", Count("{lane}"), ["bridge"],
        "Lanes that the worst link above the adapter could use.";
    PCIE_AER, Counter, Device, "fabric.pcie.aer.errors", ERRORS, ["reason", "severity"],
        "PCIe errors of the adapter by AER severity (`correctable`, `nonfatal`, `fatal`) and kind.";
    PCIE_AER_TOTAL, Counter, Device, "fabric.pcie.aer.errors.all", ERRORS, ["severity"],
        "PCIe errors of the adapter by AER severity, all kinds, as the kernel totals them.";
    PCIE_AER_ROOT, Counter, Device, "fabric.pcie.aer.root.messages", Count("{message}"), ["severity"],
        "Error messages that the root port above the adapter received.";
    PCIE_SIGNAL_ERRORS, Counter, Port, "fabric.pcie.signal_integrity_errors", ERRORS, ["direction"],
        "PCIe errors of the physical layer, seen by the adapter (receive) or by the other side (transmit).";
    PCIE_OVERFLOWS, Counter, Port, "fabric.pcie.buffer_overflows", PACKETS, [],
        "Packets dropped because PCIe could not take them fast enough.";
    PCIE_STALL_SHARE, Gauge, Port, "fabric.pcie.stall.share", Ratio, ["direction"],
        "Share of the last second with outbound PCIe requests stalled: receive = writes to memory, transmit = reads from memory.";
    PCIE_STALL, Counter, Port, "fabric.pcie.stall", Seconds, ["direction"],
        "Seconds in which outbound PCIe requests were stalled beyond the adapter's limit: receive = writes, transmit = reads.";
    PCIE_CREDIT_STALLS, Counter, Port, "fabric.pcie.credit_stall.ticks", TICKS, ["reason"],
        "Ticks in which the adapter waited for PCIe credits or tags.";
    PCIE_RESPONDER_ERRORS, Counter, Port, "fabric.pcie.responder.errors", ERRORS, ["direction"],
        "PCIe errors while answering RDMA requests.";
}
