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
    INTERRUPTS, Gauge, Device, "fabric.device.interrupts", Count("{interrupt}"), ["locality"],
        "Interrupts of the adapter that a CPU of its own NUMA node handles (`near`), and others (`far`). Absent where all CPUs are near.";
    PCIE_MAX_READ_REQUEST, Gauge, Device, "fabric.pcie.max_read_request", Bytes, [],
        "Largest read request that the adapter may send to memory (MaxReadReq).";
    PCIE_MAX_PAYLOAD, Gauge, Device, "fabric.pcie.max_payload", Bytes, [],
        "Largest payload of a packet that the adapter may send (MaxPayload).";
    PCIE_RELAXED_ORDERING, Gauge, Device, "fabric.pcie.relaxed_ordering", None, [],
        "1 if the adapter may mark writes as not ordered with each other.";
    PCIE_ATS, Gauge, Device, "fabric.pcie.ats", None, [],
        "1 if the adapter caches address translations (address translation service), 0 if it does not or cannot.";
    PCIE_ACS, Gauge, Device, "fabric.pcie.acs", Count("{bridge}"), ["control"],
        "Number of bridges above the adapter that have this control of access control services (ACS) on, for instance `request_redirect`.";
    PCIE_IOMMU, Gauge, Device, "fabric.pcie.iommu", None, ["type"],
        "1 for the type of the adapter's IOMMU group in the kernel's words: `DMA`, `DMA-FQ` (each transfer is translated), `identity` (none is), `none` (no IOMMU).";
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
