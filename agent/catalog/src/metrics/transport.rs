//! RDMA transport: loss, duplicates, time-outs and errors.

use super::units::*;

metrics! {
    RETRANSMITS, Counter, Port, "fabric.rdma.retransmits", PACKETS, [],
        "RDMA packets retransmitted (on iWARP: TCP segments).";
    RETRANSMIT_IO, Counter, Port, "fabric.rdma.retransmit.io", Bytes, [],
        "RDMA bytes retransmitted.";
    OUT_OF_SEQUENCE, Counter, Port, "fabric.rdma.out_of_sequence", PACKETS, [],
        "Packets the responder received out of order: loss or reordering on the path to this host.";
    SEQUENCE_NAKS, Counter, Port, "fabric.rdma.sequence_naks", PACKETS, ["direction"],
        "Sequence-error NAKs: received by the requester (the peer missed a packet), or sent by the responder.";
    IMPLIED_NAKS, Counter, Port, "fabric.rdma.implied_naks", EVENTS, [],
        "Responses beyond the expected one: the requester infers that a response was lost.";
    DUPLICATE_REQUESTS, Counter, Port, "fabric.rdma.duplicate_requests", PACKETS, [],
        "Duplicate requests received after their execution: this host's answers are lost or late.";
    DUPLICATE_RESPONSES, Counter, Port, "fabric.rdma.duplicate_responses", PACKETS, [],
        "Responses the requester received twice.";
    ACK_TIMEOUTS, Counter, Port, "fabric.rdma.ack_timeouts", EVENTS, [],
        "Retransmission timers that expired without an acknowledgement.";
    RETRIES_EXCEEDED, Counter, Port, "fabric.rdma.retries_exceeded", EVENTS, ["reason"],
        "Queue pairs that gave up: retry limit of the transport (`transport`) or of receiver-not-ready (`rnr`).";
    RNR_NAKS, Counter, Port, "fabric.rdma.rnr_naks", PACKETS, ["direction"],
        "Receiver-not-ready NAKs: received (the peer posts no receive buffers) or transmitted (this host does not).";
    OUT_OF_BUFFER, Counter, Port, "fabric.rdma.out_of_buffer", PACKETS, [],
        "RDMA packets dropped because no receive work request was posted.";
    ADAPTIVE_RETRANSMITS, Counter, Port, "fabric.rdma.adaptive_retransmits", EVENTS, ["reason"],
        "Adaptive retransmission of RoCE: retransmissions and time-outs.";
    TRANSPORT_EVENTS, Counter, Port, "fabric.rdma.events", EVENTS, ["reason"],
        "Transport events without a metric of their own, by the vendor's name.";
    RDMA_ERRORS, Counter, Port, "fabric.rdma.errors", ERRORS, ["direction", "reason"],
        "RDMA packets with errors, by reason.";
    ICRC_ERRORS, Counter, Port, "fabric.rdma.icrc_errors", PACKETS, [],
        "RDMA packets whose invariant CRC is wrong: corruption between the end points.";
    RDMA_DISCARDS, Counter, Port, "fabric.rdma.discards", PACKETS, ["direction", "reason"],
        "RDMA packets dropped by this function, by reason.";
    QP_ERRORS, Counter, Port, "fabric.rdma.qp.errors", ERRORS, ["reason"],
        "Errors of queue pairs, completions and their set-up, by the vendor's name; mostly caused by the program, or by a peer that failed.";
    QP_EVENTS, Counter, Port, "fabric.rdma.qp.events", EVENTS, ["reason"],
        "Events of queue pairs and their commands that are not errors, by the vendor's name.";
    OBJECTS, Gauge, Port, "fabric.rdma.objects", Count("{object}"), ["object"],
        "RDMA objects allocated now: queue pairs, completion queues, memory regions and the like.";
    OBJECTS_MAX, Gauge, Port, "fabric.rdma.objects.max", Count("{object}"), ["object"],
        "Most RDMA objects ever allocated at once.";
    FIRMWARE_ERRORS, Counter, Port, "fabric.device.errors", ERRORS, ["reason"],
        "Errors inside the adapter (memories, parity, state machines), by the vendor's name.";
    HEALTH_ERRORS, Counter, Device, "fabric.device.health.errors", ERRORS, ["reason"],
        "Errors counted by the driver's health reporters.";
    HEALTH_RECOVERIES, Counter, Device, "fabric.device.health.recoveries", EVENTS, [],
        "Recoveries done by the driver's health reporters, all reporters together.";
}
