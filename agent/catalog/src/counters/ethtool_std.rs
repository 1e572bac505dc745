//! Standard ethtool netlink statistics: the same names on every driver that supports them.

use super::build::std;
use crate::metrics::fec::{
    FEC_CORRECTED_BITS, FEC_CORRECTED_BLOCKS, FEC_LANE_CORRECTED_BITS, FEC_LANE_CORRECTED_BLOCKS,
    FEC_LANE_UNCORRECTABLE_BLOCKS, FEC_UNCORRECTABLE_BLOCKS,
};
use crate::metrics::link::{CRC_ERRORS, LINK_DOWNS, LINK_ERRORS};
use crate::metrics::netdev::{NETDEV_CARRIER, NETDEV_SIGNAL_QUALITY};
use crate::metrics::pause::{PAUSE_CONTROL_FRAMES, PAUSE_FRAMES, PAUSE_UNSUPPORTED_FRAMES};
use crate::metrics::traffic::{PORT_FRAMES_SIZE, PORT_IO, PORT_PACKETS, PORT_PACKETS_CAST};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    std("pause/tx_pause_frames", &PAUSE_FRAMES).tx(),
    std("pause/rx_pause_frames", &PAUSE_FRAMES).rx(),
    std("fec/corrected_blocks", &FEC_CORRECTED_BLOCKS),
    std("fec/uncorrectable_blocks", &FEC_UNCORRECTABLE_BLOCKS),
    std("fec/corrected_bits", &FEC_CORRECTED_BITS),
    std("eth-mac/FramesTransmittedOK", &PORT_PACKETS).tx(),
    std("eth-mac/SingleCollisionFrames", &LINK_ERRORS).tx().named(),
    std("eth-mac/MultipleCollisionFrames", &LINK_ERRORS).tx().named(),
    std("eth-mac/FramesReceivedOK", &PORT_PACKETS).rx(),
    std("eth-mac/FrameCheckSequenceErrors", &CRC_ERRORS).rx(),
    std("eth-mac/AlignmentErrors", &LINK_ERRORS).rx().reason("alignment"),
    std("eth-mac/OctetsTransmittedOK", &PORT_IO).tx(),
    std("eth-mac/FramesWithDeferredXmissions", &LINK_ERRORS).tx().named(),
    std("eth-mac/LateCollisions", &LINK_ERRORS).tx().named(),
    std("eth-mac/FramesAbortedDueToXSColls", &LINK_ERRORS).tx().named(),
    std("eth-mac/FramesLostDueToIntMACXmitError", &LINK_ERRORS).tx().reason("internal"),
    std("eth-mac/CarrierSenseErrors", &LINK_ERRORS).tx().named(),
    std("eth-mac/OctetsReceivedOK", &PORT_IO).rx(),
    std("eth-mac/FramesLostDueToIntMACRcvError", &LINK_ERRORS).rx().reason("internal"),
    std("eth-mac/MulticastFramesXmittedOK", &PORT_PACKETS_CAST).tx().cast("multicast"),
    std("eth-mac/BroadcastFramesXmittedOK", &PORT_PACKETS_CAST).tx().cast("broadcast"),
    std("eth-mac/FramesWithExcessiveDeferral", &LINK_ERRORS).tx().named(),
    std("eth-mac/MulticastFramesReceivedOK", &PORT_PACKETS_CAST).rx().cast("multicast"),
    std("eth-mac/BroadcastFramesReceivedOK", &PORT_PACKETS_CAST).rx().cast("broadcast"),
    std("eth-mac/InRangeLengthErrors", &LINK_ERRORS).rx().reason("in_range_length"),
    std("eth-mac/OutOfRangeLengthField", &LINK_ERRORS).rx().reason("out_of_range_length"),
    std("eth-mac/FrameTooLongErrors", &LINK_ERRORS).rx().reason("too_long"),
    std("eth-phy/SymbolErrorDuringCarrier", &LINK_ERRORS).rx().reason("symbol"),
    std("eth-ctrl/MACControlFramesTransmitted", &PAUSE_CONTROL_FRAMES).tx(),
    std("eth-ctrl/MACControlFramesReceived", &PAUSE_CONTROL_FRAMES).rx(),
    std("eth-ctrl/UnsupportedOpcodesReceived", &PAUSE_UNSUPPORTED_FRAMES).rx(),
    std("rmon/undersize_pkts", &LINK_ERRORS).rx().reason("undersize"),
    std("rmon/oversize_pkts", &LINK_ERRORS).rx().reason("oversize"),
    std("rmon/fragments", &LINK_ERRORS).rx().reason("fragment"),
    std("rmon/jabbers", &LINK_ERRORS).rx().reason("jabber"),
    std("rmon/hist_rx[{low}-{high}]", &PORT_FRAMES_SIZE).rx(),
    std("rmon/hist_tx[{low}-{high}]", &PORT_FRAMES_SIZE).tx(),
    std("linkstate/ext_down_cnt", &LINK_DOWNS).bits(32),
    std("linkstate/link", &NETDEV_CARRIER),
    std("linkstate/sqi", &NETDEV_SIGNAL_QUALITY),
    std("fec/corrected_blocks[{lane}]", &FEC_LANE_CORRECTED_BLOCKS),
    std("fec/uncorrectable_blocks[{lane}]", &FEC_LANE_UNCORRECTABLE_BLOCKS),
    std("fec/corrected_bits[{lane}]", &FEC_LANE_CORRECTED_BITS),
];
