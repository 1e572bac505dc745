//! Performance management attributes read by MAD from host ports and switches; all but the extended ones saturate.
//! The classic PortCounters are used if PortCountersExtended is missing.

use super::build::mad;
use crate::metrics::congestion::{
    CNP_PACKETS, CNP_SL_PACKETS, CONGESTED_TICKS, CONGESTION_EVENTS, ECN_PACKETS, ECN_SL_PACKETS, VL_CONGESTED_TICKS,
    VL_XMIT_WAIT_TICKS, XMIT_WAIT,
};
use crate::metrics::discard::{PORT_DISCARD_DETAILS, PORT_DISCARDS, VL_DISCARDS};
use crate::metrics::fec::{
    FEC_CORRECTED_BLOCKS, FEC_CORRECTED_SYMBOLS, FEC_LANE_CORRECTED_BLOCKS, FEC_LANE_CORRECTED_SYMBOLS,
    FEC_LANE_UNCORRECTABLE_BLOCKS, FEC_UNCORRECTABLE_BLOCKS,
};
use crate::metrics::link::{
    LANE_ERRORS, LINK_DOWNS, LINK_ERRORS, LINK_RECOVERIES, RCV_ERRORS, SYMBOL_ERRORS, VL_FLOW_CONTROL_ERRORS,
};
use crate::metrics::state::WAIT_TICK;
use crate::metrics::traffic::{
    OPCODE_IO, OPCODE_PACKETS, OPCODE_VL_IO, OPCODE_VL_PACKETS, PORT_IO, PORT_PACKETS, PORT_PACKETS_CAST, SL_IO,
};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    mad("PortCounters/SymbolErrorCounter", &SYMBOL_ERRORS).second().saturates(16),
    mad("PortCounters/LinkErrorRecoveryCounter", &LINK_RECOVERIES).second().saturates(8),
    mad("PortCounters/LinkDownedCounter", &LINK_DOWNS).second().saturates(8),
    mad("PortCounters/PortRcvErrors", &RCV_ERRORS).second().saturates(16),
    mad("PortCounters/PortRcvRemotePhysicalErrors", &LINK_ERRORS).rx().reason("remote_physical").second().saturates(16),
    mad("PortCounters/PortRcvSwitchRelayErrors", &PORT_DISCARDS).rx().reason("switch_relay").second().saturates(16),
    mad("PortCounters/PortXmitDiscards", &PORT_DISCARDS).tx().reason("discarded").second().saturates(16),
    mad("PortCounters/PortXmitConstraintErrors", &LINK_ERRORS).tx().reason("constraint").second().saturates(8),
    mad("PortCounters/PortRcvConstraintErrors", &LINK_ERRORS).rx().reason("constraint").second().saturates(8),
    mad("PortCounters/LocalLinkIntegrityErrors", &LINK_ERRORS)
        .rx()
        .reason("local_link_integrity")
        .second()
        .saturates(4),
    mad("PortCounters/ExcessiveBufferOverrunErrors", &LINK_ERRORS).rx().reason("buffer_overrun").second().saturates(4),
    mad("PortCounters/VL15Dropped", &PORT_DISCARDS).rx().reason("vl15").second().saturates(16),
    mad("PortCounters/PortXmitData", &PORT_IO).tx().second().times(4.0).saturates(32),
    mad("PortCounters/PortRcvData", &PORT_IO).rx().second().times(4.0).saturates(32),
    mad("PortCounters/PortXmitPkts", &PORT_PACKETS).tx().second().saturates(32),
    mad("PortCounters/PortRcvPkts", &PORT_PACKETS).rx().second().saturates(32),
    mad("PortCounters/PortXmitWait", &XMIT_WAIT).second().saturates(32),
    mad("PortCounters/QP1Dropped", &PORT_DISCARDS).rx().reason("qp1").second().saturates(16),
    mad("PortCountersExtended/SymbolErrorCounter", &SYMBOL_ERRORS),
    mad("PortCountersExtended/LinkErrorRecoveryCounter", &LINK_RECOVERIES),
    mad("PortCountersExtended/LinkDownedCounter", &LINK_DOWNS),
    mad("PortCountersExtended/PortRcvErrors", &RCV_ERRORS),
    mad("PortCountersExtended/PortRcvRemotePhysicalErrors", &LINK_ERRORS).rx().reason("remote_physical"),
    mad("PortCountersExtended/PortRcvSwitchRelayErrors", &PORT_DISCARDS).rx().reason("switch_relay"),
    mad("PortCountersExtended/PortXmitDiscards", &PORT_DISCARDS).tx().reason("discarded"),
    mad("PortCountersExtended/PortXmitConstraintErrors", &LINK_ERRORS).tx().reason("constraint"),
    mad("PortCountersExtended/PortRcvConstraintErrors", &LINK_ERRORS).rx().reason("constraint"),
    mad("PortCountersExtended/LocalLinkIntegrityErrors", &LINK_ERRORS).rx().reason("local_link_integrity"),
    mad("PortCountersExtended/ExcessiveBufferOverrunErrors", &LINK_ERRORS).rx().reason("buffer_overrun"),
    mad("PortCountersExtended/VL15Dropped", &PORT_DISCARDS).rx().reason("vl15"),
    mad("PortCountersExtended/PortXmitData", &PORT_IO).tx().times(4.0),
    mad("PortCountersExtended/PortRcvData", &PORT_IO).rx().times(4.0),
    mad("PortCountersExtended/PortXmitPkts", &PORT_PACKETS).tx(),
    mad("PortCountersExtended/PortRcvPkts", &PORT_PACKETS).rx(),
    mad("PortCountersExtended/PortXmitWait", &XMIT_WAIT),
    mad("PortCountersExtended/QP1Dropped", &PORT_DISCARDS).rx().reason("qp1"),
    mad("PortCountersExtended/PortUnicastXmitPkts", &PORT_PACKETS_CAST).tx().cast("unicast"),
    mad("PortCountersExtended/PortUnicastRcvPkts", &PORT_PACKETS_CAST).rx().cast("unicast"),
    mad("PortCountersExtended/PortMulticastXmitPkts", &PORT_PACKETS_CAST).tx().cast("multicast"),
    mad("PortCountersExtended/PortMulticastRcvPkts", &PORT_PACKETS_CAST).rx().cast("multicast"),
    mad("PortRcvErrorDetails/PortLocalPhysicalErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortRcvErrorDetails/PortMalformedPktErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortRcvErrorDetails/PortBufferOverrunErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortRcvErrorDetails/PortDLIDMappingErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortRcvErrorDetails/PortVLMappingErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortRcvErrorDetails/PortLoopingErrors", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortXmitDiscardDetails/PortInactiveDiscards", &PORT_DISCARD_DETAILS).tx().named().saturates(16),
    mad("PortXmitDiscardDetails/PortNeighborMTUDiscards", &PORT_DISCARD_DETAILS).tx().named().saturates(16),
    mad("PortXmitDiscardDetails/PortSwLifetimeLimitDiscards", &PORT_DISCARD_DETAILS).tx().named().saturates(16),
    mad("PortXmitDiscardDetails/PortSwHOQLifetimeLimitDiscards", &PORT_DISCARD_DETAILS).tx().named().saturates(16),
    mad("PortOpRcvCounters/PortOpRcvPkts", &OPCODE_PACKETS).rx().saturates(32),
    mad("PortOpRcvCounters/PortOpRcvData", &OPCODE_IO).rx().times(4.0).saturates(32),
    mad("PortVLOpPackets/PortVLOpPackets{vl}", &OPCODE_VL_PACKETS).saturates(16),
    mad("PortVLOpData/PortVLOpData{vl}", &OPCODE_VL_IO).times(4.0).saturates(32),
    mad("PortVLXmitFlowCtlUpdateErrors/PortVLXmitFlowCtlUpdateErrors{vl}", &VL_FLOW_CONTROL_ERRORS).saturates(2),
    mad("PortVLXmitWaitCounters/PortVLXmitWait{vl}", &VL_XMIT_WAIT_TICKS).saturates(16),
    mad("SwPortVLCongestion/SWPortVLCongestion{vl}", &VL_DISCARDS).tx().saturates(16),
    mad("PortRcvConCtrl/PortPktRcvFECN", &ECN_PACKETS).saturates(32),
    mad("PortRcvConCtrl/PortPktRcvBECN", &CNP_PACKETS).rx().saturates(32),
    mad("PortSLRcvFECN/PortSLRcvFECN{sl}", &ECN_SL_PACKETS).saturates(32),
    mad("PortSLRcvBECN/PortSLRcvBECN{sl}", &CNP_SL_PACKETS).saturates(32),
    mad("PortXmitConCtrl/PortXmitTimeCong", &CONGESTED_TICKS).saturates(32),
    mad("PortVLXmitTimeCong/PortVLXmitTimeCong{vl}", &VL_CONGESTED_TICKS).saturates(32),
    mad("PortXmitDataSL/XmtDataSL{sl}", &SL_IO).tx().times(4.0).saturates(32),
    mad("PortRcvDataSL/RcvDataSL{sl}", &SL_IO).rx().times(4.0).saturates(32),
    mad("PortExtendedSpeedsCounters/SyncHeaderErrorCounter", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortExtendedSpeedsCounters/UnknownBlockCounter", &LINK_ERRORS).rx().named().saturates(16),
    mad("PortExtendedSpeedsCounters/ErrorDetectionCounterLane{lane}", &LANE_ERRORS).saturates(16),
    mad("PortExtendedSpeedsCounters/FECCorrectableBlockCtrLane{lane}", &FEC_LANE_CORRECTED_BLOCKS).saturates(32),
    mad("PortExtendedSpeedsCounters/FECUncorrectableBlockCtrLane{lane}", &FEC_LANE_UNCORRECTABLE_BLOCKS).saturates(32),
    mad("PortExtendedSpeedsRSFECCounters/FECCorrectableSymbolCtrLane{lane}", &FEC_LANE_CORRECTED_SYMBOLS).saturates(32),
    mad("PortExtendedSpeedsRSFECCounters/PortFECCorrectableBlockCtr", &FEC_CORRECTED_BLOCKS).saturates(32),
    mad("PortExtendedSpeedsRSFECCounters/PortFECUncorrectableBlockCtr", &FEC_UNCORRECTABLE_BLOCKS).saturates(32),
    mad("PortExtendedSpeedsRSFECCounters/PortFECCorrectedSymbolCtr", &FEC_CORRECTED_SYMBOLS).saturates(32),
    mad("PortSamplesControl/Tick", &WAIT_TICK),
    mad("CongestionLog/ThresholdEventCounter", &CONGESTION_EVENTS).named().saturates(16),
    mad("CongestionLog/LogEventsCounter", &CONGESTION_EVENTS).named().saturates(16),
];
