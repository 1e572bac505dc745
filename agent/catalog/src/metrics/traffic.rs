//! Bytes and packets: of the physical port, of RDMA alone, and of representors.

use super::units::*;

metrics! {
    PORT_IO, Counter, Port, "fabric.port.io", Bytes, ["direction"],
        "Bytes on the physical port, all traffic (RDMA and kernel path), shared by every function of the port.";
    PORT_PACKETS, Counter, Port, "fabric.port.packets", PACKETS, ["direction"],
        "Packets on the physical port, all traffic.";
    PORT_PACKETS_CAST, Counter, Port, "fabric.port.packets.by_cast", PACKETS, ["cast", "direction"],
        "Packets on the physical port by unicast, multicast, broadcast.";
    PORT_IO_CAST, Counter, Port, "fabric.port.io.by_cast", Bytes, ["cast", "direction"],
        "Bytes on the physical port by unicast, multicast, broadcast.";
    PORT_FRAMES_SIZE, Counter, Port, "fabric.port.frames_by_size", PACKETS, ["direction", "size"],
        "Frames on the physical port by size; `size` is the upper edge of the bucket in bytes (not cumulative; edges differ by vendor), `max` when open.";
    PORT_PACKETS_CLASS, Counter, Port, "fabric.port.packets.by_class", PACKETS, ["class", "direction"],
        "Frames on the physical port by a class that the vendor counts in addition to the total (tagged, good, all, other); classes overlap.";
    PORT_IO_CLASS, Counter, Port, "fabric.port.io.by_class", Bytes, ["class", "direction"],
        "Bytes on the physical port by a class that the vendor counts in addition to the total; classes overlap.";
    PORT_PRIORITY_IO, Counter, Port, "fabric.port.priority.io", Bytes, ["direction", "priority"],
        "Bytes on the physical port per 802.1p priority.";
    PORT_PRIORITY_PACKETS, Counter, Port, "fabric.port.priority.packets", PACKETS, ["direction", "priority"],
        "Packets on the physical port per 802.1p priority.";
    PORT_QUEUE_IO, Counter, Port, "fabric.port.queue.io", Bytes, ["direction", "queue"],
        "Bytes per hardware class-of-service queue of the physical port.";
    PORT_QUEUE_PACKETS, Counter, Port, "fabric.port.queue.packets", PACKETS, ["direction", "queue"],
        "Packets per hardware class-of-service queue of the physical port.";
    PORT_UNTAGGED_IO, Counter, Port, "fabric.port.untagged.io", Bytes, ["direction"],
        "Bytes of frames without a VLAN tag if the driver counts them separately from the priorities.";
    PORT_UNTAGGED_PACKETS, Counter, Port, "fabric.port.untagged.packets", PACKETS, ["direction"],
        "Frames without a VLAN tag if the driver counts them separately from the priorities.";
    PORT_IO_PEAK, Gauge, Port, "fabric.port.io.peak", BytesPerSecond, ["direction"],
        "Highest rate of the physical port in any congestion sample (100 ms) of the last second.";
    RDMA_IO_PEAK, Gauge, Port, "fabric.rdma.io.peak", BytesPerSecond, ["direction"],
        "Highest RDMA rate in any congestion sample (100 ms) of the last second.";
    NETDEV_IO_PEAK, Gauge, Port, "fabric.netdev.io.peak", BytesPerSecond, ["direction"],
        "Highest kernel-path rate in any congestion sample (100 ms) of the last second.";
    LOOPBACK_IO, Counter, Port, "fabric.port.loopback.io", Bytes, [],
        "Bytes looped back inside the adapter; they never reach the wire.";
    LOOPBACK_PACKETS, Counter, Port, "fabric.port.loopback.packets", PACKETS, ["class"],
        "Packets looped back inside the adapter, all and by the vendor's classes; classes overlap.";
    SWITCH_IO, Counter, Port, "fabric.eswitch.io", Bytes, ["direction"],
        "Bytes through the adapter's internal switch.";
    SWITCH_PACKETS_CAST, Counter, Port, "fabric.eswitch.packets.by_cast", PACKETS, ["cast", "direction"],
        "Packets through the adapter's internal switch by unicast, multicast, broadcast.";
    SWITCH_TC_IO, Counter, Port, "fabric.eswitch.tc.io", Bytes, ["direction", "tc"],
        "Bytes through the adapter's internal switch per traffic class.";
    SWITCH_TC_PACKETS, Counter, Port, "fabric.eswitch.tc.packets", PACKETS, ["direction", "tc"],
        "Packets through the adapter's internal switch per traffic class.";
    RDMA_IO, Counter, Port, "fabric.rdma.io", Bytes, ["direction"],
        "RDMA bytes of this function (not shared with other functions of the port).";
    RDMA_PACKETS, Counter, Port, "fabric.rdma.packets", PACKETS, ["direction"],
        "RDMA packets of this function.";
    RDMA_PACKETS_CAST, Counter, Port, "fabric.rdma.packets.by_cast", PACKETS, ["cast", "direction"],
        "RDMA packets by unicast and multicast, if they are counted in addition to the total.";
    RDMA_IO_CAST, Counter, Port, "fabric.rdma.io.by_cast", Bytes, ["cast", "direction"],
        "RDMA bytes by unicast and multicast, if they are counted in addition to the total.";
    RDMA_PACKETS_CLASS, Counter, Port, "fabric.rdma.packets.by_class", PACKETS, ["class", "direction"],
        "RDMA packets by transport or another class that the vendor counts in addition to the total; classes overlap.";
    RDMA_IO_CLASS, Counter, Port, "fabric.rdma.io.by_class", Bytes, ["class", "direction"],
        "RDMA bytes by a class that the vendor counts in addition to the total; classes overlap.";
    RDMA_OPERATIONS, Counter, Port, "fabric.rdma.operations", Count("{operation}"), ["direction", "operation"],
        "RDMA operations by kind: requests received or sent, read responses, work requests.";
    RDMA_OPERATION_IO, Counter, Port, "fabric.rdma.operation.io", Bytes, ["direction", "operation"],
        "Payload bytes by kind of RDMA operation.";
    VL_IO, Counter, Port, "fabric.vl.io", Bytes, ["direction", "vl"],
        "Bytes per virtual lane (InfiniBand, Omni-Path).";
    VL_PACKETS, Counter, Port, "fabric.vl.packets", PACKETS, ["direction", "vl"],
        "Packets per virtual lane (InfiniBand, Omni-Path).";
    SL_IO, Counter, Port, "fabric.sl.io", Bytes, ["direction", "sl"],
        "Bytes per service level (InfiniBand).";
    OPCODE_IO, Counter, Port, "fabric.opcode.io", Bytes, ["direction"],
        "Bytes of the one op code that performance management is configured to count (InfiniBand).";
    OPCODE_PACKETS, Counter, Port, "fabric.opcode.packets", PACKETS, ["direction"],
        "Packets of the one op code that performance management is configured to count (InfiniBand).";
    OPCODE_VL_IO, Counter, Port, "fabric.opcode.vl.io", Bytes, ["vl"],
        "Bytes per virtual lane of the op code that performance management is configured to count (InfiniBand).";
    OPCODE_VL_PACKETS, Counter, Port, "fabric.opcode.vl.packets", PACKETS, ["vl"],
        "Packets per virtual lane of the op code that performance management is configured to count (InfiniBand).";
    REPRESENTOR_IO, Counter, Port, "fabric.representor.io", Bytes, ["direction"],
        "Bytes of the function behind a representor, as that function sees them; not part of the uplink.";
    REPRESENTOR_PACKETS, Counter, Port, "fabric.representor.packets", PACKETS, ["direction"],
        "Packets of the function behind a representor, as that function sees them; not part of the uplink.";
    REPRESENTOR_EVENTS, Counter, Port, "fabric.representor.events", EVENTS, ["reason"],
        "RDMA requests and transport events of the function behind a representor, by the vendor's name.";
}
