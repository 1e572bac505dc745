//! The kernel path of the netdev. On most adapters it does not include RDMA traffic.

use super::units::*;

metrics! {
    NETDEV_IO, Counter, Port, "fabric.netdev.io", Bytes, ["direction"],
        "Bytes through the kernel's network stack (TCP and the like; no RDMA).";
    NETDEV_PACKETS, Counter, Port, "fabric.netdev.packets", PACKETS, ["direction"],
        "Packets through the kernel's network stack.";
    NETDEV_PACKETS_CAST, Counter, Port, "fabric.netdev.packets.by_cast", PACKETS, ["cast", "direction"],
        "Packets of this function's kernel path by unicast, multicast, broadcast.";
    NETDEV_IO_CAST, Counter, Port, "fabric.netdev.io.by_cast", Bytes, ["cast", "direction"],
        "Bytes of this function's kernel path by unicast, multicast, broadcast.";
    NETDEV_RING_IO, Counter, Port, "fabric.netdev.ring.io", Bytes, ["direction"],
        "Bytes counted by the driver's rings, all rings together.";
    NETDEV_RING_PACKETS, Counter, Port, "fabric.netdev.ring.packets", PACKETS, ["direction"],
        "Packets counted by the driver's rings, all rings together.";
    NETDEV_RING_IO_CAST, Counter, Port, "fabric.netdev.ring.io.by_cast", Bytes, ["cast", "direction"],
        "Bytes counted by the driver's rings by unicast, multicast, broadcast, all rings together.";
    NETDEV_RING_PACKETS_CAST, Counter, Port, "fabric.netdev.ring.packets.by_cast", PACKETS, ["cast", "direction"],
        "Packets counted by the driver's rings by unicast, multicast, broadcast, all rings together.";
    NETDEV_XSK_IO, Counter, Port, "fabric.netdev.xsk.io", Bytes, ["direction"],
        "Bytes through AF_XDP rings, all rings together.";
    NETDEV_XSK_PACKETS, Counter, Port, "fabric.netdev.xsk.packets", PACKETS, ["direction"],
        "Packets through AF_XDP rings, all rings together.";
    NETDEV_OFFLOAD_PACKETS, Counter, Port, "fabric.netdev.offload.packets", PACKETS, ["reason"],
        "Packets by driver or adapter processing (checksum, segmentation, XDP, time stamps), by the vendor's name.";
    NETDEV_OFFLOAD_IO, Counter, Port, "fabric.netdev.offload.io", Bytes, ["reason"],
        "Bytes by driver or adapter processing, by the vendor's name.";
    NETDEV_ERRORS, Counter, Port, "fabric.netdev.errors", PACKETS, ["direction"],
        "Packets with errors on the kernel path, as the netdev totals them.";
    NETDEV_ERROR_DETAILS, Counter, Port, "fabric.netdev.error.details", ERRORS, ["direction", "reason"],
        "Break-down of errors on the kernel path by reason.";
    NETDEV_DISCARDS, Counter, Port, "fabric.netdev.discards", PACKETS, ["direction"],
        "Packets dropped on the kernel path, as the netdev totals them.";
    NETDEV_DISCARD_DETAILS, Counter, Port, "fabric.netdev.discard.details", PACKETS, ["direction", "reason"],
        "Break-down of drops on the kernel path by reason.";
    NETDEV_RING_ERRORS, Counter, Port, "fabric.netdev.ring.errors", ERRORS, ["direction", "reason"],
        "Errors and drops counted by the driver's rings, all rings together, by reason.";
    NETDEV_QUEUE_EVENTS, Counter, Port, "fabric.netdev.queue.events", EVENTS, ["reason"],
        "Times a send queue of the driver stopped, woke or was congested.";
    NETDEV_RING_QUEUE_EVENTS, Counter, Port, "fabric.netdev.ring.queue.events", EVENTS, ["reason"],
        "Times a send queue of a ring stopped, woke or was congested, all rings together.";
    NETDEV_TIMEOUTS, Counter, Port, "fabric.netdev.timeouts", EVENTS, ["reason"],
        "Transmit time-outs and expired watchdogs of the driver.";
    NETDEV_ECN, Counter, Port, "fabric.netdev.ecn.packets", PACKETS, [],
        "Packets received with a congestion mark through the driver (kernel path).";
    NETDEV_RING_ECN, Counter, Port, "fabric.netdev.ring.ecn.packets", PACKETS, ["reason"],
        "Packets received with a congestion mark by the driver's rings, by the kind of ring.";
    NETDEV_SRD_PACKETS, Counter, Port, "fabric.netdev.srd.packets", PACKETS, ["reason"],
        "Packets of the netdev that travelled over SRD (ENA Express), by the vendor's name.";
    NETDEV_SRD_UTILIZATION, Gauge, Port, "fabric.netdev.srd.utilization", Ratio, [],
        "Share of the SRD resources in use (ENA Express).";
    NETDEV_UP, Gauge, Port, "fabric.netdev.up", None, [],
        "1 when the netdev's operational state is up, 0 otherwise.";
    NETDEV_CARRIER, Gauge, Port, "fabric.netdev.carrier", None, [],
        "1 with carrier, 0 without.";
    NETDEV_RATE, Gauge, Port, "fabric.netdev.rate", BytesPerSecond, [],
        "Speed of the netdev's link, one direction.";
    NETDEV_MTU, Gauge, Port, "fabric.netdev.mtu", Bytes, [],
        "MTU of the netdev.";
    NETDEV_RING_SIZE, Gauge, Port, "fabric.netdev.ring.size", Count("{entry}"), ["direction"],
        "Entries of each ring of the driver.";
    NETDEV_SIGNAL_QUALITY, Gauge, Port, "fabric.netdev.signal_quality", None, [],
        "Signal quality index, where the PHY has one.";
    NETDEV_DOWN_REASON, Gauge, Port, "fabric.netdev.down_reason", None, ["detail", "reason"],
        "1 while the link is down for this reason, as the driver reports it.";
    NETDEV_VFS, Gauge, Device, "fabric.device.virtual_functions", None, [],
        "Virtual functions enabled.";
}
