//! Packets dropped on the physical port and by its buffers.

use super::units::*;

metrics! {
    PORT_DISCARDS, Counter, Port, "fabric.port.discards", PACKETS, ["direction", "reason"],
        "Packets without error dropped at the physical port, by reason (`buffer`: no room).";
    PORT_DISCARD_DETAILS, Counter, Port, "fabric.port.discard.details", PACKETS, ["direction", "reason"],
        "Break-down of port discards by cause where performance management gives it; part of fabric.port.discards.";
    PORT_PRIORITY_DISCARDS, Counter, Port, "fabric.port.priority.discards", PACKETS, ["direction", "priority", "reason"],
        "Packets dropped at the physical port per priority, by reason.";
    PORT_QUEUE_DISCARDS, Counter, Port, "fabric.port.queue.discards", PACKETS, ["direction", "queue"],
        "Packets dropped per hardware class-of-service queue.";
    PORT_QUEUE_DISCARD_IO, Counter, Port, "fabric.port.queue.discard.io", Bytes, ["direction", "queue"],
        "Bytes dropped per hardware class-of-service queue.";
    PORT_BUFFER_EVENTS, Counter, Port, "fabric.port.buffer.events", EVENTS, ["reason"],
        "Times that a port or device buffer passed its threshold or a queue owned by the device ran empty.";
    VL_DISCARDS, Counter, Port, "fabric.vl.discards", PACKETS, ["direction", "vl"],
        "Packets dropped per virtual lane.";
    CONTEXT_OVERRUNS, Counter, Port, "fabric.port.context_overruns", PACKETS, [],
        "Packets dropped because a receive context's header queue was full, all contexts together (Omni-Path).";
    SWITCH_DISCARDS, Counter, Port, "fabric.eswitch.discards", PACKETS, ["direction", "reason"],
        "Packets dropped or found in error by the adapter's internal switch.";
    ALLOWANCE_EXCEEDED, Counter, Port, "fabric.port.allowance_exceeded", PACKETS, ["reason"],
        "Packets queued or dropped because the cloud instance exceeded an allowance (bandwidth, packets, connections).";
    LOOPBACK_DISCARDS, Counter, Port, "fabric.port.loopback.discards", PACKETS, ["reason"],
        "Looped-back packets dropped or found in error inside the adapter.";
}
