//! Names of releases before 5.15, which switches with them still send.

use super::{GROUP, PRIORITY, detail, error, port};
use crate::row::{RX, Row, TX, fixed, left_out};
use fabriclens_catalog::metrics::{pfc, switch, traffic};

const HALF_DUPLEX: &str = "happens on half-duplex links only";
const PART: &str = "a part of a count that is stored";
const TWICE: &str = "a duplicate of another name of the same switch, which is stored";

pub(super) static ROWS: &[Row] = &[
    detail("nvswitch_interface_discards_egress_link_down", &[TX, fixed("reason", "link_down")]),
    left_out("nvswitch_interface_discards_ingress_discard_all", TWICE),
    detail("nvswitch_interface_discards_port_isolation", &[TX, fixed("reason", "isolation")]),
    error("nvswitch_interface_dot3_stats_alignment_errors", &[RX, fixed("reason", "alignment")]),
    left_out("nvswitch_interface_dot3_stats_excessive_collisions", HALF_DUPLEX),
    error("nvswitch_interface_dot3_stats_internal_mac_receive_errors", &[RX, fixed("reason", "mac")]),
    error("nvswitch_interface_dot3_stats_internal_mac_transmit_errors", &[TX, fixed("reason", "mac")]),
    left_out("nvswitch_interface_dot3_stats_late_collisions", HALF_DUPLEX),
    left_out("nvswitch_interface_dot3_stats_multiple_collision_frames", HALF_DUPLEX),
    left_out("nvswitch_interface_dot3_stats_single_collision_frames", HALF_DUPLEX),
    left_out("nvswitch_interface_dot3_stats_sqe_test_errors", HALF_DUPLEX),
    left_out("nvswitch_interface_ether_stats_collisions", HALF_DUPLEX),
    detail("nvswitch_interface_if_in_unknown_protos", &[RX, fixed("reason", "unknown_protocol")]),
    port("nvswitch_interface_pg_rx_buffer_discard", &switch::PRIORITY_GROUP_DISCARDS, &[GROUP]),
    left_out("nvswitch_interface_pg_rx_shared_buffer_discard", PART),
    left_out("nvswitch_interface_sp_rx_bc_frames", PART),
    port("nvswitch_interface_sp_rx_frames", &traffic::PORT_PRIORITY_PACKETS, &[RX, PRIORITY]),
    left_out("nvswitch_interface_sp_rx_mc_frames", PART),
    port("nvswitch_interface_sp_rx_octets", &traffic::PORT_PRIORITY_IO, &[RX, PRIORITY]),
    port("nvswitch_interface_sp_rx_pause_transition", &pfc::PFC_TRANSITIONS, &[RX, PRIORITY]),
    left_out("nvswitch_interface_sp_rx_uc_frames", PART),
    left_out("nvswitch_interface_sp_tx_bc_frames", PART),
    port("nvswitch_interface_sp_tx_frames", &traffic::PORT_PRIORITY_PACKETS, &[TX, PRIORITY]),
    left_out("nvswitch_interface_sp_tx_mc_frames", PART),
    port("nvswitch_interface_sp_tx_octets", &traffic::PORT_PRIORITY_IO, &[TX, PRIORITY]),
    left_out("nvswitch_interface_sp_tx_uc_frames", PART),
    left_out("nvswitch_interface_tc_tx_bc_frames", PART),
    left_out("nvswitch_interface_tc_tx_mc_frames", PART),
    left_out("nvswitch_interface_discards_egress_general", TWICE),
    left_out("nvswitch_interface_discards_ingress_general", TWICE),
    left_out("nvswitch_interface_if_in_broadcast_pkts", TWICE),
    left_out("nvswitch_interface_if_in_multicast_pkts", TWICE),
    left_out("nvswitch_interface_if_in_octets", TWICE),
];
