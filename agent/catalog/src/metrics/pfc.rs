//! Priority flow control (802.1Qbb). Received: this port must stop; transmitted: the peer must stop.

use super::units::*;

metrics! {
    PFC_FRAMES, Counter, Port, "fabric.pfc.frames", PACKETS, ["direction", "priority"],
        "PFC pause frames per priority: received (this port must stop) or transmitted (the peer must stop). Drivers that distinguish XON from XOFF count XOFF here.";
    PFC_RESUME_FRAMES, Counter, Port, "fabric.pfc.resume.frames", PACKETS, ["direction", "priority"],
        "PFC frames that end a pause (XON) if the driver counts them separately.";
    PFC_FRAMES_PORT, Counter, Port, "fabric.pfc.port.frames", PACKETS, ["direction"],
        "PFC frames of all priorities together, if the adapter counts only the total.";
    PFC_PAUSE, Counter, Port, "fabric.pfc.pause", Seconds, ["direction", "priority"],
        "Time paused per priority: received = this port could not send, transmitted = it kept the peer from sending.";
    PFC_TRANSITIONS, Counter, Port, "fabric.pfc.transitions", EVENTS, ["direction", "priority"],
        "Transitions between paused and running per priority.";
    PFC_PAUSE_SHARE, Gauge, Port, "fabric.pfc.pause.share", Ratio, ["direction", "priority"],
        "Share of the last second that the priority was paused, by measured time.";
    PFC_PAUSE_SHARE_MAX, Gauge, Port, "fabric.pfc.pause.share.max", Ratio, ["direction", "priority"],
        "Share paused in the worst congestion sample (100 ms) of the last second.";
    PFC_FRAMES_PEAK, Gauge, Port, "fabric.pfc.frames.peak", Count("{packet}/s"), ["direction", "priority"],
        "Highest rate of PFC frames in any congestion sample (100 ms) of the last second.";
    PFC_ENABLED, Gauge, Port, "fabric.pfc.enabled", None, ["priority"],
        "1 when PFC is on for the priority, 0 when off.";
}
