//! What switches count and hosts do not: queues, buffers, headroom, watchdogs. The collector's table of foreign names
//! (`collector/foreign`) feeds these; agents do not export them.
//!
//! `priority` is the priority of a frame (802.1p, PFC), `traffic_class` an egress class of a Spectrum switch, `queue` an
//! egress queue of a SONiC switch, `priority_group` an ingress buffer, `vl` a virtual lane. They are never renamed into
//! each other: which priority uses which queue is configuration of the switch.

use super::units::*;

metrics! {
    QUEUE, Gauge, Port, "fabric.port.queue", Bytes, ["queue", "traffic_class"],
        "Bytes waiting now in an egress queue of the port, by `queue` or `traffic_class`, whichever the switch names.";
    QUEUE_MAX, Gauge, Port, "fabric.port.queue.max", Bytes, ["queue", "traffic_class"],
        "Most bytes that waited in an egress queue since the previous sample.";
    QUEUE_WATERMARK, Gauge, Port, "fabric.port.queue.watermark", Bytes, ["queue", "traffic_class"],
        "Most bytes that waited in an egress queue since the switch last cleared its watermarks, which may be long ago.";
    QUEUE_DELAY_WATERMARK, Gauge, Port, "fabric.port.queue.delay.watermark", Seconds, ["queue"],
        "Longest time that a packet waited in an egress queue since the switch last cleared its watermarks.";
    QUEUE_MARKS, Counter, Port, "fabric.port.queue.ecn.marks", PACKETS, ["queue", "traffic_class"],
        "Packets that an egress queue marked (ECN), by `queue` or `traffic_class`, whichever the switch names.";
    QUEUE_TRIMS, Counter, Port, "fabric.port.queue.trimmed", PACKETS, ["outcome", "queue", "traffic_class"],
        "Packets of an egress queue that were trimmed to their headers: `all`, `sent`, `dropped`.";
    PORT_TRIMS, Counter, Port, "fabric.port.trimmed", PACKETS, ["outcome"],
        "Packets of the port that were trimmed to their headers: `all`, `sent`, `dropped`.";
    SWITCH_TRIMS, Counter, Host, "fabric.switch.trimmed", PACKETS, ["outcome"],
        "Packets of the whole switch that were trimmed to their headers: `all`, `sent`, `dropped`.";
    TRAFFIC_CLASS_IO, Counter, Port, "fabric.port.traffic_class.io", Bytes, ["direction", "traffic_class"],
        "Bytes per traffic class of the port.";
    TRAFFIC_CLASS_PACKETS, Counter, Port, "fabric.port.traffic_class.packets", PACKETS, ["direction", "traffic_class"],
        "Packets per traffic class of the port.";
    TRAFFIC_CLASS_DISCARDS, Counter, Port, "fabric.port.traffic_class.discards", PACKETS, ["direction", "reason", "traffic_class"],
        "Packets dropped per traffic class: no buffer, or early by WRED.";
    QUEUE_WRED_DISCARDS, Counter, Port, "fabric.port.queue.wred.discards", PACKETS, ["queue"],
        "Packets that an egress queue dropped early by WRED; part of fabric.port.queue.discards on most switches.";
    QUEUE_WATCHDOG_DISCARDS, Counter, Port, "fabric.port.queue.watchdog.discards", PACKETS, ["queue"],
        "Packets deleted from an egress queue by a watchdog of the switch (credit watchdog).";
    PRIORITY_GROUP_IO, Counter, Port, "fabric.port.priority_group.io", Bytes, ["direction", "priority_group"],
        "Bytes received per priority group (ingress buffer) of the port.";
    PRIORITY_GROUP_PACKETS, Counter, Port, "fabric.port.priority_group.packets", PACKETS, ["direction", "priority_group"],
        "Packets received per priority group (ingress buffer) of the port.";
    PRIORITY_GROUP_DISCARDS, Counter, Port, "fabric.port.priority_group.discards", PACKETS, ["priority_group"],
        "Packets dropped by a priority group: the shared buffer and the headroom were full. On a lossless priority this must not happen.";
    PRIORITY_GROUP_OCCUPANCY, Gauge, Port, "fabric.port.priority_group.occupancy", Bytes, ["priority_group", "region"],
        "Bytes that a priority group holds now: in `all` of its buffer, or in the `shared` part.";
    PRIORITY_GROUP_WATERMARK, Gauge, Port, "fabric.port.priority_group.watermark", Bytes, ["priority_group", "region"],
        "Most bytes that a priority group held since the switch last cleared its watermarks.";
    HEADROOM, Gauge, Port, "fabric.port.headroom", Bytes, ["priority_group"],
        "Bytes in the headroom now: what arrives after the peer was paused. Without `priority_group`: of the whole port.";
    HEADROOM_WATERMARK, Gauge, Port, "fabric.port.headroom.watermark", Bytes, ["priority_group"],
        "Most bytes in the headroom since the switch last cleared its watermarks.";
    PORT_BUFFER, Gauge, Port, "fabric.port.buffer", Bytes, ["direction", "pool"],
        "Bytes of the switch's buffer that the port holds now, on ingress (`receive`) or egress (`transmit`).";
    PORT_BUFFER_WATERMARK, Gauge, Port, "fabric.port.buffer.watermark", Bytes, ["direction", "pool"],
        "Most bytes of the switch's buffer that the port held since the switch last cleared its watermarks.";
    BUFFER, Gauge, Host, "fabric.switch.buffer", Bytes, ["pool"],
        "Bytes in a buffer pool of the switch now.";
    BUFFER_MAX, Gauge, Host, "fabric.switch.buffer.max", Bytes, ["pool"],
        "Most bytes in a buffer pool since the previous sample.";
    BUFFER_WATERMARK, Gauge, Host, "fabric.switch.buffer.watermark", Bytes, ["pool"],
        "Most bytes in a buffer pool since the switch last cleared its watermarks.";
    BUFFER_DISCARDS, Counter, Host, "fabric.switch.buffer.discards", PACKETS, ["pool", "reason"],
        "Packets dropped by a buffer pool: full (`buffer`), or early (`wred`).";
    BUFFER_MARKS, Counter, Host, "fabric.switch.buffer.ecn.marks", PACKETS, ["pool"],
        "Packets marked (ECN) because of a buffer pool.";
    BUFFER_HEADROOM, Gauge, Host, "fabric.switch.headroom", Bytes, ["pool"],
        "Bytes in the headroom of a buffer pool now.";
    BUFFER_HEADROOM_WATERMARK, Gauge, Host, "fabric.switch.headroom.watermark", Bytes, ["pool"],
        "Most bytes in the headroom of a buffer pool since the switch last cleared its watermarks.";
    SWITCH_DISCARDS, Counter, Host, "fabric.switch.discards", PACKETS, ["direction", "reason"],
        "Packets dropped by the switch as a whole, by reason.";
    WATCHDOG_EVENTS, Counter, Port, "fabric.pfc.watchdog.events", EVENTS, ["event", "queue"],
        "Decisions of the switch's PFC watchdog: a queue was paused for too long (`storm`), or works again (`restore`).";
    WATCHDOG_DISCARDS, Counter, Port, "fabric.pfc.watchdog.discards", PACKETS, ["direction", "queue"],
        "Packets that the PFC watchdog dropped while a queue was in a storm.";
    XMIT_WAIT_TIME, Counter, Port, "fabric.port.xmit_wait.time", Seconds, [],
        "Time in which the port had data to send and could not send it.";
    VL_PORT_DISCARDS, Counter, Port, "fabric.vl.discard.details", PACKETS, ["direction", "reason", "vl"],
        "Packets dropped per virtual lane by reason (`hoq`: they waited too long at the head of the queue).";
    LINK_DOWN_CAUSES, Counter, Port, "fabric.link.down.causes", EVENTS, ["cause"],
        "Times the link went down because of the operator (`intentional`) or not (`unintentional`).";
    LINK_DEBOUNCE, Counter, Port, "fabric.link.debounce.events", EVENTS, ["event"],
        "Link events that the switch's debounce timer saw: `ignored`, `received`, `reverted` (the link flapped), `stable`.";
    BIT_ERROR_RATIO, Gauge, Port, "fabric.link.ber", Ratio, ["kind", "lane"],
        "Bit error ratio as the switch computes it: `raw` before FEC, `effective` after it, `symbol`.";
    FEC_CODEWORDS, Counter, Port, "fabric.fec.codewords", BLOCKS, ["symbols"],
        "FEC code words by the number of symbols that had to be corrected; many close to the limit of 15 announce losses.";
}
