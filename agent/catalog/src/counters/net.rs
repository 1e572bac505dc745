//! Files of `/sys/class/net/<if>`: statistics, carrier, speed.

use super::build::{net, other};
use crate::metrics::link::{CARRIER_CHANGES, CARRIER_TRANSITIONS};
use crate::metrics::netdev::{
    NETDEV_DISCARD_DETAILS, NETDEV_DISCARDS, NETDEV_ERROR_DETAILS, NETDEV_ERRORS, NETDEV_IO, NETDEV_MTU,
    NETDEV_OFFLOAD_PACKETS, NETDEV_PACKETS, NETDEV_PACKETS_CAST, NETDEV_RATE, NETDEV_VFS,
};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    net("rx_packets", &NETDEV_PACKETS).rx(),
    net("tx_packets", &NETDEV_PACKETS).tx(),
    net("rx_bytes", &NETDEV_IO).rx(),
    net("tx_bytes", &NETDEV_IO).tx(),
    net("rx_errors", &NETDEV_ERRORS).rx(),
    net("tx_errors", &NETDEV_ERRORS).tx(),
    net("rx_dropped", &NETDEV_DISCARDS).rx(),
    net("tx_dropped", &NETDEV_DISCARDS).tx(),
    net("multicast", &NETDEV_PACKETS_CAST).rx().cast("multicast"),
    net("collisions", &NETDEV_ERROR_DETAILS).tx().reason("collisions"),
    net("rx_length_errors", &NETDEV_ERROR_DETAILS).rx().reason("length"),
    net("rx_over_errors", &NETDEV_ERROR_DETAILS).rx().reason("over"),
    net("rx_crc_errors", &NETDEV_ERROR_DETAILS).rx().reason("crc"),
    net("rx_frame_errors", &NETDEV_ERROR_DETAILS).rx().reason("frame"),
    net("rx_fifo_errors", &NETDEV_ERROR_DETAILS).rx().reason("fifo"),
    net("rx_missed_errors", &NETDEV_ERROR_DETAILS).rx().reason("missed"),
    net("tx_aborted_errors", &NETDEV_ERROR_DETAILS).tx().reason("aborted"),
    net("tx_carrier_errors", &NETDEV_ERROR_DETAILS).tx().reason("carrier"),
    net("tx_fifo_errors", &NETDEV_ERROR_DETAILS).tx().reason("fifo"),
    net("tx_heartbeat_errors", &NETDEV_ERROR_DETAILS).tx().reason("heartbeat"),
    net("tx_window_errors", &NETDEV_ERROR_DETAILS).tx().reason("window"),
    net("rx_compressed", &NETDEV_OFFLOAD_PACKETS).named(),
    net("tx_compressed", &NETDEV_OFFLOAD_PACKETS).named(),
    net("rx_nohandler", &NETDEV_DISCARD_DETAILS).rx().reason("no_handler"),
    other("net/carrier_changes", &CARRIER_CHANGES).bits(32),
    other("net/carrier_up_count", &CARRIER_TRANSITIONS).label("state", "up").bits(32),
    other("net/carrier_down_count", &CARRIER_TRANSITIONS).label("state", "down").bits(32),
    other("net/speed", &NETDEV_RATE).times(125_000.0),
    other("net/mtu", &NETDEV_MTU),
    other("net/device/sriov_numvfs", &NETDEV_VFS),
];
