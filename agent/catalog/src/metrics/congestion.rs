//! Congestion marks (ECN, FECN), congestion notifications (CNP, BECN), and time spent waiting to send.

use super::units::*;

metrics! {
    CNP_PACKETS, Counter, Port, "fabric.cnp.packets", PACKETS, ["direction"],
        "Congestion notification packets (CNPs): received and acted on (this port slows down), or transmitted (the sender is asked to slow down). On InfiniBand and Omni-Path: BECN.";
    CNP_IGNORED, Counter, Port, "fabric.cnp.ignored", PACKETS, [],
        "Congestion notifications received and ignored because congestion control is off or not configured on this port.";
    CNP_VL_PACKETS, Counter, Port, "fabric.cnp.vl.packets", PACKETS, ["vl"],
        "Congestion notifications (BECN) received per virtual lane.";
    CNP_SL_PACKETS, Counter, Port, "fabric.cnp.sl.packets", PACKETS, ["sl"],
        "Congestion notifications (BECN) received per service level.";
    ECN_PACKETS, Counter, Port, "fabric.ecn.packets", PACKETS, [],
        "RDMA packets received with a congestion mark (CE; FECN on InfiniBand and Omni-Path): the fabric on the way is congested.";
    ECN_VL_PACKETS, Counter, Port, "fabric.ecn.vl.packets", PACKETS, ["vl"],
        "Packets received with a congestion mark (FECN) per virtual lane.";
    ECN_SL_PACKETS, Counter, Port, "fabric.ecn.sl.packets", PACKETS, ["sl"],
        "Packets received with a congestion mark (FECN) per service level.";
    ECN_MARKS, Counter, Port, "fabric.ecn.marks", PACKETS, [],
        "Packets that this adapter marked itself.";
    ECN_VL_MARKS, Counter, Port, "fabric.ecn.vl.marks", PACKETS, ["vl"],
        "Packets that this adapter marked itself, per virtual lane.";
    ECN_PRIORITY_MARKS, Counter, Port, "fabric.ecn.priority.marks", PACKETS, ["priority"],
        "Packets that this adapter's own receive buffer marked, per priority.";
    CNP_PEAK, Gauge, Port, "fabric.cnp.packets.peak", Count("{packet}/s"), ["direction"],
        "Highest rate of congestion notifications in any congestion sample (100 ms) of the last second.";
    ECN_PEAK, Gauge, Port, "fabric.ecn.packets.peak", Count("{packet}/s"), [],
        "Highest rate of marked packets received in any congestion sample (100 ms) of the last second.";
    XMIT_WAIT, Counter, Port, "fabric.port.xmit_wait", Bytes, [],
        "Bytes the port could have sent during the time that data waited for credits or arbitration; computed from the device's wait ticks.";
    XMIT_WAIT_TICKS, Counter, Port, "fabric.port.xmit_wait.ticks", TICKS, [],
        "Ticks during which data waited and could not be sent, on devices whose tick length is not known.";
    XMIT_WAIT_SHARE, Gauge, Port, "fabric.port.xmit_wait.share", Ratio, [],
        "Share of the line rate lost to waiting in the last second: xmit_wait bytes divided by (rate × measured time).";
    XMIT_WAIT_SHARE_MAX, Gauge, Port, "fabric.port.xmit_wait.share.max", Ratio, [],
        "The same share in the worst congestion sample (100 ms) of the last second.";
    VL_XMIT_WAIT_TICKS, Counter, Port, "fabric.vl.xmit_wait.ticks", TICKS, ["vl"],
        "Ticks during which data waited without credits, per virtual lane.";
    CONGESTED_TICKS, Counter, Port, "fabric.congestion.ticks", TICKS, [],
        "Ticks the port spent in the congested state.";
    VL_CONGESTED_TICKS, Counter, Port, "fabric.vl.congestion.ticks", TICKS, ["vl"],
        "Ticks spent in the congested state per virtual lane.";
    BUBBLES, Counter, Port, "fabric.port.bubbles", TICKS, [],
        "Flits lost to bubbles inside packets because the sender could not keep up (Omni-Path).";
    VL_BUBBLES, Counter, Port, "fabric.vl.bubbles", TICKS, ["vl"],
        "Flits lost to bubbles inside packets per virtual lane (Omni-Path).";
    FLOW_STALLS, Counter, Port, "fabric.port.flow_stall.ticks", TICKS, [],
        "Ticks in which transmit flow control stalled (Omni-Path).";
    CONGESTION_EVENTS, Counter, Port, "fabric.congestion.events", EVENTS, ["reason"],
        "Events of the adapter's congestion control: rate changes, slow restarts, queue pairs congested or recovered.";
    CONGESTION_RATE, Gauge, Port, "fabric.congestion.rate", None, [],
        "Current rate of the adapter's congestion control in the vendor's own unit.";
    RDMA_WAITS, Counter, Port, "fabric.rdma.waits", EVENTS, ["reason"],
        "Times that RDMA sending waited for something other than the wire: credits, DMA, PIO, an impaired peer, a full doorbell queue.";
}
