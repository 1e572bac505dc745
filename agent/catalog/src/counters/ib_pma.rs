//! Performance management files in `ports/<n>/counters`; error counters are narrow and saturate. On Ethernet ports the
//! traffic counters count only RDMA, and the others are not bound (see `bind`).

use super::build::sys;
use crate::metrics::congestion::XMIT_WAIT;
use crate::metrics::discard::PORT_DISCARDS;
use crate::metrics::link::{LINK_DOWNS, LINK_ERRORS, LINK_RECOVERIES, RCV_ERRORS, SYMBOL_ERRORS};
use crate::metrics::traffic::{PORT_IO, PORT_PACKETS, PORT_PACKETS_CAST};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    sys("symbol_error", &SYMBOL_ERRORS).saturates(16),
    sys("link_error_recovery", &LINK_RECOVERIES).saturates(8),
    sys("link_downed", &LINK_DOWNS).saturates(8),
    sys("port_rcv_errors", &RCV_ERRORS).saturates(16),
    sys("port_rcv_remote_physical_errors", &LINK_ERRORS).rx().reason("remote_physical").saturates(16),
    sys("port_rcv_switch_relay_errors", &PORT_DISCARDS).rx().reason("switch_relay").saturates(16),
    sys("port_xmit_discards", &PORT_DISCARDS).tx().reason("discarded").saturates(16),
    sys("port_xmit_constraint_errors", &LINK_ERRORS).tx().reason("constraint").saturates(8),
    sys("port_rcv_constraint_errors", &LINK_ERRORS).rx().reason("constraint").saturates(8),
    sys("local_link_integrity_errors", &LINK_ERRORS).rx().reason("local_link_integrity").saturates(4),
    sys("excessive_buffer_overrun_errors", &LINK_ERRORS).rx().reason("buffer_overrun").saturates(4),
    sys("VL15_dropped", &PORT_DISCARDS).rx().reason("vl15").saturates(16),
    sys("port_xmit_wait", &XMIT_WAIT).saturates(32),
    sys("port_xmit_data", &PORT_IO).tx().second().times(4.0),
    sys("port_rcv_data", &PORT_IO).rx().second().times(4.0),
    sys("port_xmit_packets", &PORT_PACKETS).tx().second(),
    sys("port_rcv_packets", &PORT_PACKETS).rx().second(),
    sys("unicast_xmit_packets", &PORT_PACKETS_CAST).tx().cast("unicast").second(),
    sys("unicast_rcv_packets", &PORT_PACKETS_CAST).rx().cast("unicast").second(),
    sys("multicast_xmit_packets", &PORT_PACKETS_CAST).tx().cast("multicast").second(),
    sys("multicast_rcv_packets", &PORT_PACKETS_CAST).rx().cast("multicast").second(),
    sys("counters_ext/port_multicast_rcv_packets", &PORT_PACKETS_CAST).rx().cast("multicast"),
    sys("counters_ext/port_multicast_xmit_packets", &PORT_PACKETS_CAST).tx().cast("multicast"),
    sys("counters_ext/port_rcv_data_64", &PORT_IO).rx().times(4.0),
    sys("counters_ext/port_rcv_packets_64", &PORT_PACKETS).rx(),
    sys("counters_ext/port_unicast_rcv_packets", &PORT_PACKETS_CAST).rx().cast("unicast"),
    sys("counters_ext/port_unicast_xmit_packets", &PORT_PACKETS_CAST).tx().cast("unicast"),
    sys("counters_ext/port_xmit_data_64", &PORT_IO).tx().times(4.0),
    sys("counters_ext/port_xmit_packets_64", &PORT_PACKETS).tx(),
    sys("port_rcv_discards", &PORT_DISCARDS).rx().reason("discarded").saturates(16),
];
