//! Global pause (802.3x). Separate from PFC because it stops every priority.

use super::units::*;

metrics! {
    PAUSE_FRAMES, Counter, Port, "fabric.pause.frames", PACKETS, ["direction"],
        "802.3x pause frames: received (this port must stop) or transmitted (the peer must stop). Drivers that distinguish XON from XOFF count XOFF here.";
    PAUSE_RESUME_FRAMES, Counter, Port, "fabric.pause.resume.frames", PACKETS, ["direction"],
        "802.3x frames that end a pause (XON) if the driver counts them separately.";
    PAUSE_DURATION, Counter, Port, "fabric.pause.duration", Seconds, ["direction"],
        "Time paused by 802.3x: received = this port could not send, transmitted = it kept the peer from sending.";
    PAUSE_TRANSITIONS, Counter, Port, "fabric.pause.transitions", EVENTS, ["direction"],
        "Transitions between paused and running by 802.3x.";
    PAUSE_SHARE, Gauge, Port, "fabric.pause.share", Ratio, ["direction"],
        "Share of the last second paused by 802.3x, by measured time.";
    PAUSE_SHARE_MAX, Gauge, Port, "fabric.pause.share.max", Ratio, ["direction"],
        "Share paused by 802.3x in the worst congestion sample (100 ms) of the last second.";
    PAUSE_CONTROL_FRAMES, Counter, Port, "fabric.pause.control.frames", PACKETS, ["direction"],
        "MAC control frames: 802.3x pause, PFC and others together.";
    PAUSE_ANY_FRAMES, Counter, Port, "fabric.pause.any.frames", PACKETS, ["direction"],
        "Link-layer pause frames of both kinds together, 802.3x and PFC.";
    PAUSE_ENABLED, Gauge, Port, "fabric.pause.enabled", None, ["direction"],
        "1 when 802.3x is on: received pauses are obeyed, or pauses are transmitted. PFC takes precedence where it is on.";
    PAUSE_UNSUPPORTED_FRAMES, Counter, Port, "fabric.pause.unsupported.frames", PACKETS, ["direction"],
        "MAC control frames with an unknown op code.";
}
