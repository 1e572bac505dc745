//! Configuration of DCB and congestion control, needed to interpret the counters.

use super::units::*;

metrics! {
    DCB_PFC_CAPABILITY, Gauge, Port, "fabric.dcb.pfc.capability", None, [],
        "Number of priorities that can have PFC at the same time.";
    DCB_PFC_DELAY, Gauge, Port, "fabric.dcb.pfc.delay", Count("{bit-time}"), [],
        "Allowance for the round trip of a pause, in bit times.";
    DCB_PFC_MBC, Gauge, Port, "fabric.dcb.pfc.macsec_bypass", None, [],
        "1 when the port can bypass MACsec for PFC frames.";
    DCB_TC_BANDWIDTH, Gauge, Port, "fabric.dcb.ets.bandwidth", Ratio, ["tc"],
        "ETS share of the bandwidth per traffic class.";
    DCB_TC_ALGORITHM, Gauge, Port, "fabric.dcb.ets.algorithm", None, ["tc"],
        "Transmission selection per traffic class: 0 strict, 1 credit shaper, 2 ETS, 255 vendor.";
    DCB_PRIORITY_TC, Gauge, Port, "fabric.dcb.ets.traffic_class", None, ["priority"],
        "Traffic class of each priority.";
    DCB_DSCP_PRIORITY, Gauge, Port, "fabric.dcb.app.priority", None, ["dscp"],
        "Priority that a DSCP value maps to (APP table).";
    DCB_PRIORITY_BUFFER, Gauge, Port, "fabric.dcb.buffer.index", None, ["priority"],
        "Receive buffer of each priority.";
    DCB_BUFFER_SIZE, Gauge, Port, "fabric.dcb.buffer.size", Bytes, ["buffer"],
        "Size of each receive buffer.";
    DCB_MODE, Gauge, Port, "fabric.dcb.mode", None, [],
        "DCBX mode flags: 1 host, 2 managed by LLDP firmware, 4 CEE, 8 IEEE, 16 static.";
    DCB_TRUST, Gauge, Port, "fabric.dcb.trust", None, ["mode"],
        "1 for the field the port trusts for priority: `pcp` or `dscp`.";
    ECN_ENABLED, Gauge, Port, "fabric.ecn.enabled", None, ["priority", "role"],
        "1 when congestion control is on for the priority: `np` (sends CNPs), `rp` (slows down on CNPs).";
    ECN_SETTING, Gauge, Port, "fabric.ecn.setting", None, ["parameter"],
        "Settings of congestion notification (CNP priority, DSCP, spacing), by the vendor's name and unit.";
    CC_PARAMETER, Gauge, Port, "fabric.congestion.parameter", None, ["parameter"],
        "DCQCN parameters of the adapter, by the vendor's name and unit.";
    STALL_PREVENTION, Gauge, Port, "fabric.pfc.stall_prevention", None, ["mode"],
        "1 for the mode of the adapter's own pause-storm protection: `default` or `auto`.";
    ROCE_TOS, Gauge, Port, "fabric.roce.tos", None, ["reason"],
        "Type of service forced on RoCE: by RDMA-CM's default, or on all reliable queue pairs.";
}
