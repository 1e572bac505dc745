//! Errors and events of the physical link.

use super::units::*;

metrics! {
    LINK_DOWNS, Counter, Port, "fabric.link.downs", EVENTS, [],
        "Times the link went down, as counted by the device.";
    LINK_UPS, Counter, Port, "fabric.link.ups", EVENTS, [],
        "Times the link came up, as counted by the device.";
    LINK_CHANGES, Counter, Port, "fabric.link.changes", EVENTS, [],
        "Link changes in either direction, if the device does not count up and down separately.";
    LINK_RECOVERIES, Counter, Port, "fabric.link.recoveries", EVENTS, [],
        "Times the link retrained and recovered without going down.";
    CARRIER_CHANGES, Counter, Port, "fabric.link.carrier.changes", EVENTS, [],
        "Carrier changes (up and down together) of the netdev since it was created.";
    CARRIER_TRANSITIONS, Counter, Port, "fabric.link.carrier.transitions", EVENTS, ["state"],
        "Carrier transitions of the netdev to `up` and to `down`.";
    SYMBOL_ERRORS, Counter, Port, "fabric.link.symbol_errors", ERRORS, [],
        "Symbols received in error and not corrected.";
    CRC_ERRORS, Counter, Port, "fabric.link.crc_errors", PACKETS, ["direction"],
        "Frames with a wrong check sequence on the physical port.";
    RCV_ERRORS, Counter, Port, "fabric.link.receive_errors", PACKETS, [],
        "All packets received with an error on an InfiniBand or Omni-Path port.";
    LINK_ERRORS, Counter, Port, "fabric.link.errors", ERRORS, ["direction", "reason"],
        "Errors of the physical port by reason; reasons overlap on some vendors.";
    LINK_ERROR_BYTES, Counter, Port, "fabric.link.error.io", Bytes, ["direction", "reason"],
        "Bytes in frames with errors, by reason.";
    LANE_ERRORS, Counter, Port, "fabric.link.lane.errors", ERRORS, ["lane"],
        "Errors detected per lane before correction. Errors on one lane only suggest a bad cable or connector.";
    VL_FLOW_CONTROL_ERRORS, Counter, Port, "fabric.vl.flow_control_errors", ERRORS, ["vl"],
        "Flow-control update errors per virtual lane.";
    COUNTER_SATURATED, Gauge, Port, "fabric.port.counter.saturated", None, ["metric", "reason"],
        "1 while a hardware counter is saturated and counts nothing until it is reset; `metric` is its canonical name, `reason` its label values.";
}
