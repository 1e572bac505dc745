//! Chelsio cxgb4: port statistics and iWARP segments. Loopback names are prefixed with their section.

use super::build::{eth, hw};
use crate::metrics::congestion::RDMA_WAITS;
use crate::metrics::discard::{LOOPBACK_DISCARDS, PORT_DISCARDS};
use crate::metrics::link::{CRC_ERRORS, LINK_ERRORS, SYMBOL_ERRORS};
use crate::metrics::netdev::NETDEV_DISCARD_DETAILS;
use crate::metrics::pause::PAUSE_FRAMES;
use crate::metrics::pfc::PFC_FRAMES;
use crate::metrics::traffic::{
    LOOPBACK_IO, LOOPBACK_PACKETS, PORT_FRAMES_SIZE, PORT_IO, PORT_PACKETS, PORT_PACKETS_CAST, RDMA_PACKETS,
};
use crate::metrics::transport::{QP_EVENTS, RDMA_DISCARDS, RETRANSMITS};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    eth("tx_octets_ok", &PORT_IO).tx(),
    eth("tx_frames_ok", &PORT_PACKETS).tx(),
    eth("tx_broadcast_frames", &PORT_PACKETS_CAST).tx().cast("broadcast"),
    eth("tx_multicast_frames", &PORT_PACKETS_CAST).tx().cast("multicast"),
    eth("tx_unicast_frames", &PORT_PACKETS_CAST).tx().cast("unicast"),
    eth("tx_error_frames", &LINK_ERRORS).tx().reason("transmit"),
    eth("tx_frames_64", &PORT_FRAMES_SIZE).tx().size("64"),
    eth("tx_frames_65_to_127", &PORT_FRAMES_SIZE).tx().size("127"),
    eth("tx_frames_128_to_255", &PORT_FRAMES_SIZE).tx().size("255"),
    eth("tx_frames_256_to_511", &PORT_FRAMES_SIZE).tx().size("511"),
    eth("tx_frames_512_to_1023", &PORT_FRAMES_SIZE).tx().size("1023"),
    eth("tx_frames_1024_to_1518", &PORT_FRAMES_SIZE).tx().size("1518"),
    eth("tx_frames_1519_to_max", &PORT_FRAMES_SIZE).tx().size("max"),
    eth("tx_frames_dropped", &PORT_DISCARDS).tx().reason("buffer"),
    eth("tx_pause_frames", &PAUSE_FRAMES).tx(),
    eth("tx_ppp{prio}_frames", &PFC_FRAMES).tx(),
    eth("rx_octets_ok", &PORT_IO).rx(),
    eth("rx_frames_ok", &PORT_PACKETS).rx(),
    eth("rx_broadcast_frames", &PORT_PACKETS_CAST).rx().cast("broadcast"),
    eth("rx_multicast_frames", &PORT_PACKETS_CAST).rx().cast("multicast"),
    eth("rx_unicast_frames", &PORT_PACKETS_CAST).rx().cast("unicast"),
    eth("rx_frames_too_long", &LINK_ERRORS).rx().reason("too_long"),
    eth("rx_jabber_errors", &LINK_ERRORS).rx().reason("jabber"),
    eth("rx_fcs_errors", &CRC_ERRORS).rx(),
    eth("rx_length_errors", &LINK_ERRORS).rx().reason("length"),
    eth("rx_symbol_errors", &SYMBOL_ERRORS),
    eth("rx_runt_frames", &LINK_ERRORS).rx().reason("runt"),
    eth("rx_frames_64", &PORT_FRAMES_SIZE).rx().size("64"),
    eth("rx_frames_65_to_127", &PORT_FRAMES_SIZE).rx().size("127"),
    eth("rx_frames_128_to_255", &PORT_FRAMES_SIZE).rx().size("255"),
    eth("rx_frames_256_to_511", &PORT_FRAMES_SIZE).rx().size("511"),
    eth("rx_frames_512_to_1023", &PORT_FRAMES_SIZE).rx().size("1023"),
    eth("rx_frames_1024_to_1518", &PORT_FRAMES_SIZE).rx().size("1518"),
    eth("rx_frames_1519_to_max", &PORT_FRAMES_SIZE).rx().size("max"),
    eth("rx_pause_frames", &PAUSE_FRAMES).rx(),
    eth("rx_ppp{prio}_frames", &PFC_FRAMES).rx(),
    eth("rx_bg{buffer_group}_frames_dropped", &PORT_DISCARDS).rx().reason("buffer").adds(),
    eth("rx_bg{buffer_group}_frames_trunc", &PORT_DISCARDS).rx().reason("truncated").adds(),
    eth("tx_tls_drop_no_sync_data", &NETDEV_DISCARD_DETAILS).tx().named(),
    eth("tx_tls_drop_bypass_req", &NETDEV_DISCARD_DETAILS).tx().named(),
    eth("db_drop", &RDMA_DISCARDS).tx().reason("doorbell"),
    eth("db_full", &RDMA_WAITS).reason("doorbell_full"),
    eth("octets_ok", &LOOPBACK_IO),
    eth("frames_ok", &LOOPBACK_PACKETS).class("all"),
    eth("bcast_frames", &LOOPBACK_PACKETS).class("bcast_frames"),
    eth("mcast_frames", &LOOPBACK_PACKETS).class("mcast_frames"),
    eth("ucast_frames", &LOOPBACK_PACKETS).class("ucast_frames"),
    eth("error_frames", &LOOPBACK_PACKETS).class("error_frames"),
    eth("frames_64", &LOOPBACK_PACKETS).class("frames_64"),
    eth("frames_65_to_127", &LOOPBACK_PACKETS).class("frames_65_to_127"),
    eth("frames_128_to_255", &LOOPBACK_PACKETS).class("frames_128_to_255"),
    eth("frames_256_to_511", &LOOPBACK_PACKETS).class("frames_256_to_511"),
    eth("frames_512_to_1023", &LOOPBACK_PACKETS).class("frames_512_to_1023"),
    eth("frames_1024_to_1518", &LOOPBACK_PACKETS).class("frames_1024_to_1518"),
    eth("frames_1519_to_max", &LOOPBACK_PACKETS).class("frames_1519_to_max"),
    eth("frames_dropped", &LOOPBACK_DISCARDS).named(),
    eth("bg{buffer_group}_frames_dropped", &LOOPBACK_DISCARDS).named().adds(),
    eth("bg{buffer_group}_frames_trunc", &LOOPBACK_DISCARDS).named().adds(),
    hw("ip4InSegs", &RDMA_PACKETS).rx().adds(),
    hw("ip4OutSegs", &RDMA_PACKETS).tx().adds(),
    hw("ip4RetransSegs", &RETRANSMITS).adds(),
    hw("ip4OutRsts", &QP_EVENTS).reason("tcp_reset").adds(),
    hw("ip6InSegs", &RDMA_PACKETS).rx().adds(),
    hw("ip6OutSegs", &RDMA_PACKETS).tx().adds(),
    hw("ip6RetransSegs", &RETRANSMITS).adds(),
    hw("ip6OutRsts", &QP_EVENTS).reason("tcp_reset").adds(),
];
