//! Intel ice (E800): the VSI (`rx_bytes`) and the physical port (`….nic`). XOFF frames only, no pause time.
//! Names that it shares with i40e are in that table.

use super::build::eth;
use crate::metrics::discard::PORT_DISCARDS;
use crate::metrics::link::{CRC_ERRORS, LINK_ERRORS};
use crate::metrics::netdev::{NETDEV_RING_IO, NETDEV_RING_PACKETS, NETDEV_TIMEOUTS};
use crate::metrics::pause::{PAUSE_FRAMES, PAUSE_RESUME_FRAMES};
use crate::metrics::pfc::{PFC_FRAMES, PFC_RESUME_FRAMES};
use crate::metrics::traffic::{PORT_FRAMES_SIZE, PORT_IO, PORT_PACKETS_CAST};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    eth("rx_bytes.nic", &PORT_IO).rx(),
    eth("tx_bytes.nic", &PORT_IO).tx(),
    eth("rx_unicast.nic", &PORT_PACKETS_CAST).rx().cast("unicast"),
    eth("tx_unicast.nic", &PORT_PACKETS_CAST).tx().cast("unicast"),
    eth("rx_multicast.nic", &PORT_PACKETS_CAST).rx().cast("multicast"),
    eth("tx_multicast.nic", &PORT_PACKETS_CAST).tx().cast("multicast"),
    eth("rx_broadcast.nic", &PORT_PACKETS_CAST).rx().cast("broadcast"),
    eth("tx_broadcast.nic", &PORT_PACKETS_CAST).tx().cast("broadcast"),
    eth("tx_errors.nic", &LINK_ERRORS).tx().reason("transmit"),
    eth("tx_timeout.nic", &NETDEV_TIMEOUTS).reason("tx_timeout"),
    eth("rx_size_64.nic", &PORT_FRAMES_SIZE).rx().size("64"),
    eth("tx_size_64.nic", &PORT_FRAMES_SIZE).tx().size("64"),
    eth("rx_size_127.nic", &PORT_FRAMES_SIZE).rx().size("127"),
    eth("tx_size_127.nic", &PORT_FRAMES_SIZE).tx().size("127"),
    eth("rx_size_255.nic", &PORT_FRAMES_SIZE).rx().size("255"),
    eth("tx_size_255.nic", &PORT_FRAMES_SIZE).tx().size("255"),
    eth("rx_size_511.nic", &PORT_FRAMES_SIZE).rx().size("511"),
    eth("tx_size_511.nic", &PORT_FRAMES_SIZE).tx().size("511"),
    eth("rx_size_1023.nic", &PORT_FRAMES_SIZE).rx().size("1023"),
    eth("tx_size_1023.nic", &PORT_FRAMES_SIZE).tx().size("1023"),
    eth("rx_size_1522.nic", &PORT_FRAMES_SIZE).rx().size("1522"),
    eth("tx_size_1522.nic", &PORT_FRAMES_SIZE).tx().size("1522"),
    eth("rx_size_big.nic", &PORT_FRAMES_SIZE).rx().size("max"),
    eth("tx_size_big.nic", &PORT_FRAMES_SIZE).tx().size("max"),
    eth("link_xon_rx.nic", &PAUSE_RESUME_FRAMES).rx(),
    eth("link_xon_tx.nic", &PAUSE_RESUME_FRAMES).tx(),
    eth("link_xoff_rx.nic", &PAUSE_FRAMES).rx(),
    eth("link_xoff_tx.nic", &PAUSE_FRAMES).tx(),
    eth("tx_dropped_link_down.nic", &PORT_DISCARDS).tx().reason("link_down"),
    eth("rx_undersize.nic", &LINK_ERRORS).rx().reason("undersize"),
    eth("rx_fragments.nic", &LINK_ERRORS).rx().reason("fragment"),
    eth("rx_oversize.nic", &LINK_ERRORS).rx().reason("oversize"),
    eth("rx_jabber.nic", &LINK_ERRORS).rx().reason("jabber"),
    eth("rx_csum_bad.nic", &LINK_ERRORS).rx().reason("checksum"),
    eth("rx_eipe_error.nic", &LINK_ERRORS).rx().reason("ip"),
    eth("rx_dropped.nic", &PORT_DISCARDS).rx().reason("buffer"),
    eth("rx_crc_errors.nic", &CRC_ERRORS).rx(),
    eth("illegal_bytes.nic", &LINK_ERRORS).rx().reason("illegal_byte"),
    eth("mac_local_faults.nic", &LINK_ERRORS).rx().reason("local_fault"),
    eth("mac_remote_faults.nic", &LINK_ERRORS).rx().reason("remote_fault"),
    eth("tx_priority_{prio}_xon.nic", &PFC_RESUME_FRAMES).tx(),
    eth("tx_priority_{prio}_xoff.nic", &PFC_FRAMES).tx(),
    eth("tx_queue_{queue}_packets", &NETDEV_RING_PACKETS).tx().adds(),
    eth("tx_queue_{queue}_bytes", &NETDEV_RING_IO).tx().adds(),
    eth("rx_priority_{prio}_xon.nic", &PFC_RESUME_FRAMES).rx(),
    eth("rx_priority_{prio}_xoff.nic", &PFC_FRAMES).rx(),
    eth("rx_queue_{queue}_packets", &NETDEV_RING_PACKETS).rx().adds(),
    eth("rx_queue_{queue}_bytes", &NETDEV_RING_IO).rx().adds(),
    eth("rx_length_errors.nic", &LINK_ERRORS).rx().reason("length"),
];
