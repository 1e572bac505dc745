//! Statistics of ports.

use super::{BUFFER, BYTES_TOO, COLOR, DROP_REASON, MARKER, OBJECT, WRED};
use crate::conversion::Conversion;
use crate::row::{AS_IS, Ids, Label, RX, Row, TX, fixed, is, left_out, number};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{congestion, discard, fec, link, pause, pfc, switch, traffic};

const PORT_TYPE: u32 = 1;
const BOTH: &str = "receive and transmit together; each direction is stored";
const LAYER_3: &str = "packets as IP counts them; the port's own counters are stored";
const SUM: &str = "a sum of counters that are stored";
const HALF_DUPLEX: &str = "happens on half-duplex links only";
const ENERGY: &str = "energy-efficient Ethernet is off on such links";
const TEST: &str = "counts only during a test of the link";
const CHASSIS: &str = "cells of a chassis' internal fabric";
const RETRY: &str = "link-layer retry of Ultra Ethernet; no canonical metric yet";
const CREDITS: &str = "credit-based flow control of Ultra Ethernet; no canonical metric yet";
const UNIT: &str = "its unit differs by ASIC; the same in microseconds is stored";

const fn port(id: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, OBJECT, metric, labels, AS_IS).id(PORT_TYPE, id)
}

const fn unused(id: u32, name: &'static str, why: &'static str) -> Row {
    left_out(name, why).id(PORT_TYPE, id)
}

const fn family(first: u32, step: u32, count: u32) -> Ids {
    Ids { object: PORT_TYPE, first, step, count }
}

/// Eight priorities.
const fn by_priority(first: u32, name: &'static str, metric: &'static Metric, labels: &'static [Label]) -> Row {
    is(name, OBJECT, metric, labels, AS_IS).ids(family(first, 2, 8))
}

const PRIORITY: Label = number("priority");
const UNICAST: Label = fixed("cast", "unicast");
const MULTICAST: Label = fixed("cast", "multicast");
const BROADCAST: Label = fixed("cast", "broadcast");
const DISCARDED: Label = fixed("reason", "discarded");

/// Ports.
pub static PORT: &[Row] = &[
    port(0, "SAI_PORT_STAT_IF_IN_OCTETS", &traffic::PORT_IO, &[RX]),
    port(1, "SAI_PORT_STAT_IF_IN_UCAST_PKTS", &traffic::PORT_PACKETS_CAST, &[UNICAST, RX]),
    unused(2, "SAI_PORT_STAT_IF_IN_NON_UCAST_PKTS", SUM),
    port(3, "SAI_PORT_STAT_IF_IN_DISCARDS", &discard::PORT_DISCARDS, &[RX, DISCARDED]),
    port(4, "SAI_PORT_STAT_IF_IN_ERRORS", &link::RCV_ERRORS, &[]),
    port(
        5,
        "SAI_PORT_STAT_IF_IN_UNKNOWN_PROTOS",
        &discard::PORT_DISCARD_DETAILS,
        &[RX, fixed("reason", "unknown_protocol")],
    ),
    port(6, "SAI_PORT_STAT_IF_IN_BROADCAST_PKTS", &traffic::PORT_PACKETS_CAST, &[BROADCAST, RX]),
    port(7, "SAI_PORT_STAT_IF_IN_MULTICAST_PKTS", &traffic::PORT_PACKETS_CAST, &[MULTICAST, RX]),
    port(8, "SAI_PORT_STAT_IF_IN_VLAN_DISCARDS", &discard::PORT_DISCARD_DETAILS, &[RX, fixed("reason", "vlan")]),
    port(9, "SAI_PORT_STAT_IF_OUT_OCTETS", &traffic::PORT_IO, &[TX]),
    port(10, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", &traffic::PORT_PACKETS_CAST, &[UNICAST, TX]),
    unused(11, "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", SUM),
    port(12, "SAI_PORT_STAT_IF_OUT_DISCARDS", &discard::PORT_DISCARDS, &[TX, DISCARDED]),
    port(13, "SAI_PORT_STAT_IF_OUT_ERRORS", &link::LINK_ERRORS, &[TX, fixed("reason", "any")]),
    unused(14, "SAI_PORT_STAT_IF_OUT_QLEN", "in packets, of all queues together; queues are stored in bytes"),
    port(15, "SAI_PORT_STAT_IF_OUT_BROADCAST_PKTS", &traffic::PORT_PACKETS_CAST, &[BROADCAST, TX]),
    port(16, "SAI_PORT_STAT_IF_OUT_MULTICAST_PKTS", &traffic::PORT_PACKETS_CAST, &[MULTICAST, TX]),
    port(17, "SAI_PORT_STAT_ETHER_STATS_DROP_EVENTS", &discard::PORT_BUFFER_EVENTS, &[fixed("reason", "drop")]),
    unused(18, "SAI_PORT_STAT_ETHER_STATS_MULTICAST_PKTS", BOTH),
    unused(19, "SAI_PORT_STAT_ETHER_STATS_BROADCAST_PKTS", BOTH),
    port(20, "SAI_PORT_STAT_ETHER_STATS_UNDERSIZE_PKTS", &link::LINK_ERRORS, &[RX, fixed("reason", "undersize")]),
    port(21, "SAI_PORT_STAT_ETHER_STATS_FRAGMENTS", &link::LINK_ERRORS, &[RX, fixed("reason", "fragment")]),
    unused(22, "SAI_PORT_STAT_ETHER_STATS_PKTS_64_OCTETS", BOTH),
    unused(23, "SAI_PORT_STAT_ETHER_STATS_PKTS_65_TO_127_OCTETS", BOTH),
    unused(24, "SAI_PORT_STAT_ETHER_STATS_PKTS_128_TO_255_OCTETS", BOTH),
    unused(25, "SAI_PORT_STAT_ETHER_STATS_PKTS_256_TO_511_OCTETS", BOTH),
    unused(26, "SAI_PORT_STAT_ETHER_STATS_PKTS_512_TO_1023_OCTETS", BOTH),
    unused(27, "SAI_PORT_STAT_ETHER_STATS_PKTS_1024_TO_1518_OCTETS", BOTH),
    unused(28, "SAI_PORT_STAT_ETHER_STATS_PKTS_1519_TO_2047_OCTETS", BOTH),
    unused(29, "SAI_PORT_STAT_ETHER_STATS_PKTS_2048_TO_4095_OCTETS", BOTH),
    unused(30, "SAI_PORT_STAT_ETHER_STATS_PKTS_4096_TO_9216_OCTETS", BOTH),
    unused(31, "SAI_PORT_STAT_ETHER_STATS_PKTS_9217_TO_16383_OCTETS", BOTH),
    unused(32, "SAI_PORT_STAT_ETHER_STATS_OVERSIZE_PKTS", BOTH),
    port(33, "SAI_PORT_STAT_ETHER_RX_OVERSIZE_PKTS", &link::LINK_ERRORS, &[RX, fixed("reason", "oversize")]),
    port(34, "SAI_PORT_STAT_ETHER_TX_OVERSIZE_PKTS", &link::LINK_ERRORS, &[TX, fixed("reason", "oversize")]),
    port(35, "SAI_PORT_STAT_ETHER_STATS_JABBERS", &link::LINK_ERRORS, &[RX, fixed("reason", "jabber")]),
    unused(36, "SAI_PORT_STAT_ETHER_STATS_OCTETS", BOTH),
    unused(37, "SAI_PORT_STAT_ETHER_STATS_PKTS", BOTH),
    unused(38, "SAI_PORT_STAT_ETHER_STATS_COLLISIONS", HALF_DUPLEX),
    port(
        39,
        "SAI_PORT_STAT_ETHER_STATS_CRC_ALIGN_ERRORS",
        &link::LINK_ERRORS,
        &[RX, fixed("reason", "crc_or_alignment")],
    ),
    port(40, "SAI_PORT_STAT_ETHER_STATS_TX_NO_ERRORS", &traffic::PORT_PACKETS, &[TX]),
    port(41, "SAI_PORT_STAT_ETHER_STATS_RX_NO_ERRORS", &traffic::PORT_PACKETS, &[RX]),
    unused(42, "SAI_PORT_STAT_IP_IN_RECEIVES", LAYER_3),
    unused(43, "SAI_PORT_STAT_IP_IN_OCTETS", LAYER_3),
    unused(44, "SAI_PORT_STAT_IP_IN_UCAST_PKTS", LAYER_3),
    unused(45, "SAI_PORT_STAT_IP_IN_NON_UCAST_PKTS", LAYER_3),
    unused(46, "SAI_PORT_STAT_IP_IN_DISCARDS", LAYER_3),
    unused(47, "SAI_PORT_STAT_IP_OUT_OCTETS", LAYER_3),
    unused(48, "SAI_PORT_STAT_IP_OUT_UCAST_PKTS", LAYER_3),
    unused(49, "SAI_PORT_STAT_IP_OUT_NON_UCAST_PKTS", LAYER_3),
    unused(50, "SAI_PORT_STAT_IP_OUT_DISCARDS", LAYER_3),
    unused(51, "SAI_PORT_STAT_IPV6_IN_RECEIVES", LAYER_3),
    unused(52, "SAI_PORT_STAT_IPV6_IN_OCTETS", LAYER_3),
    unused(53, "SAI_PORT_STAT_IPV6_IN_UCAST_PKTS", LAYER_3),
    unused(54, "SAI_PORT_STAT_IPV6_IN_NON_UCAST_PKTS", LAYER_3),
    unused(55, "SAI_PORT_STAT_IPV6_IN_MCAST_PKTS", LAYER_3),
    unused(56, "SAI_PORT_STAT_IPV6_IN_DISCARDS", LAYER_3),
    unused(57, "SAI_PORT_STAT_IPV6_OUT_OCTETS", LAYER_3),
    unused(58, "SAI_PORT_STAT_IPV6_OUT_UCAST_PKTS", LAYER_3),
    unused(59, "SAI_PORT_STAT_IPV6_OUT_NON_UCAST_PKTS", LAYER_3),
    unused(60, "SAI_PORT_STAT_IPV6_OUT_MCAST_PKTS", LAYER_3),
    unused(61, "SAI_PORT_STAT_IPV6_OUT_DISCARDS", LAYER_3),
    unused(62, "SAI_PORT_STAT_GREEN_WRED_DROPPED_PACKETS", COLOR),
    unused(63, "SAI_PORT_STAT_GREEN_WRED_DROPPED_BYTES", COLOR),
    unused(64, "SAI_PORT_STAT_YELLOW_WRED_DROPPED_PACKETS", COLOR),
    unused(65, "SAI_PORT_STAT_YELLOW_WRED_DROPPED_BYTES", COLOR),
    unused(66, "SAI_PORT_STAT_RED_WRED_DROPPED_PACKETS", COLOR),
    unused(67, "SAI_PORT_STAT_RED_WRED_DROPPED_BYTES", COLOR),
    port(68, "SAI_PORT_STAT_WRED_DROPPED_PACKETS", &discard::PORT_DISCARD_DETAILS, &[TX, WRED]),
    unused(69, "SAI_PORT_STAT_WRED_DROPPED_BYTES", BYTES_TOO),
    port(70, "SAI_PORT_STAT_ECN_MARKED_PACKETS", &congestion::ECN_MARKS, &[]),
    port(71, "SAI_PORT_STAT_ETHER_IN_PKTS_64_OCTETS", &traffic::PORT_FRAMES_SIZE, &[RX, fixed("size", "64")]),
    port(72, "SAI_PORT_STAT_ETHER_IN_PKTS_65_TO_127_OCTETS", &traffic::PORT_FRAMES_SIZE, &[RX, fixed("size", "127")]),
    port(73, "SAI_PORT_STAT_ETHER_IN_PKTS_128_TO_255_OCTETS", &traffic::PORT_FRAMES_SIZE, &[RX, fixed("size", "255")]),
    port(74, "SAI_PORT_STAT_ETHER_IN_PKTS_256_TO_511_OCTETS", &traffic::PORT_FRAMES_SIZE, &[RX, fixed("size", "511")]),
    port(
        75,
        "SAI_PORT_STAT_ETHER_IN_PKTS_512_TO_1023_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "1023")],
    ),
    port(
        76,
        "SAI_PORT_STAT_ETHER_IN_PKTS_1024_TO_1518_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "1518")],
    ),
    port(
        77,
        "SAI_PORT_STAT_ETHER_IN_PKTS_1519_TO_2047_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "2047")],
    ),
    port(
        78,
        "SAI_PORT_STAT_ETHER_IN_PKTS_2048_TO_4095_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "4095")],
    ),
    port(
        79,
        "SAI_PORT_STAT_ETHER_IN_PKTS_4096_TO_9216_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "9216")],
    ),
    port(
        80,
        "SAI_PORT_STAT_ETHER_IN_PKTS_9217_TO_16383_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "16383")],
    ),
    port(81, "SAI_PORT_STAT_ETHER_OUT_PKTS_64_OCTETS", &traffic::PORT_FRAMES_SIZE, &[TX, fixed("size", "64")]),
    port(82, "SAI_PORT_STAT_ETHER_OUT_PKTS_65_TO_127_OCTETS", &traffic::PORT_FRAMES_SIZE, &[TX, fixed("size", "127")]),
    port(83, "SAI_PORT_STAT_ETHER_OUT_PKTS_128_TO_255_OCTETS", &traffic::PORT_FRAMES_SIZE, &[TX, fixed("size", "255")]),
    port(84, "SAI_PORT_STAT_ETHER_OUT_PKTS_256_TO_511_OCTETS", &traffic::PORT_FRAMES_SIZE, &[TX, fixed("size", "511")]),
    port(
        85,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_512_TO_1023_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "1023")],
    ),
    port(
        86,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_1024_TO_1518_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "1518")],
    ),
    port(
        87,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_1519_TO_2047_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "2047")],
    ),
    port(
        88,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_2048_TO_4095_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "4095")],
    ),
    port(
        89,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_4096_TO_9216_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "9216")],
    ),
    port(
        90,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_9217_TO_16383_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "16383")],
    ),
    port(91, "SAI_PORT_STAT_IN_CURR_OCCUPANCY_BYTES", &switch::PORT_BUFFER, &[RX, fixed("pool", "all")]),
    port(92, "SAI_PORT_STAT_IN_WATERMARK_BYTES", &switch::PORT_BUFFER_WATERMARK, &[RX, fixed("pool", "all")]),
    port(93, "SAI_PORT_STAT_IN_SHARED_CURR_OCCUPANCY_BYTES", &switch::PORT_BUFFER, &[RX, fixed("pool", "shared")]),
    port(94, "SAI_PORT_STAT_IN_SHARED_WATERMARK_BYTES", &switch::PORT_BUFFER_WATERMARK, &[RX, fixed("pool", "shared")]),
    port(95, "SAI_PORT_STAT_OUT_CURR_OCCUPANCY_BYTES", &switch::PORT_BUFFER, &[TX, fixed("pool", "all")]),
    port(96, "SAI_PORT_STAT_OUT_WATERMARK_BYTES", &switch::PORT_BUFFER_WATERMARK, &[TX, fixed("pool", "all")]),
    port(97, "SAI_PORT_STAT_OUT_SHARED_CURR_OCCUPANCY_BYTES", &switch::PORT_BUFFER, &[TX, fixed("pool", "shared")]),
    port(
        98,
        "SAI_PORT_STAT_OUT_SHARED_WATERMARK_BYTES",
        &switch::PORT_BUFFER_WATERMARK,
        &[TX, fixed("pool", "shared")],
    ),
    port(99, "SAI_PORT_STAT_IN_DROPPED_PKTS", &discard::PORT_DISCARD_DETAILS, &[RX, BUFFER]),
    port(100, "SAI_PORT_STAT_OUT_DROPPED_PKTS", &discard::PORT_DISCARD_DETAILS, &[TX, BUFFER]),
    port(101, "SAI_PORT_STAT_PAUSE_RX_PKTS", &pause::PAUSE_FRAMES, &[RX]),
    port(102, "SAI_PORT_STAT_PAUSE_TX_PKTS", &pause::PAUSE_FRAMES, &[TX]),
    by_priority(103, "SAI_PORT_STAT_PFC_{}_RX_PKTS", &pfc::PFC_FRAMES, &[RX, PRIORITY]),
    by_priority(104, "SAI_PORT_STAT_PFC_{}_TX_PKTS", &pfc::PFC_FRAMES, &[TX, PRIORITY]),
    left_out("SAI_PORT_STAT_PFC_{}_RX_PAUSE_DURATION", UNIT).ids(family(119, 2, 8)),
    left_out("SAI_PORT_STAT_PFC_{}_TX_PAUSE_DURATION", UNIT).ids(family(120, 2, 8)),
    is("SAI_PORT_STAT_PFC_{}_RX_PAUSE_DURATION_US", OBJECT, &pfc::PFC_PAUSE, &[RX, PRIORITY], Conversion::Scale(1e-6))
        .ids(family(135, 2, 8)),
    is("SAI_PORT_STAT_PFC_{}_TX_PAUSE_DURATION_US", OBJECT, &pfc::PFC_PAUSE, &[TX, PRIORITY], Conversion::Scale(1e-6))
        .ids(family(136, 2, 8)),
    is("SAI_PORT_STAT_PFC_{}_ON2OFF_RX_PKTS", OBJECT, &pfc::PFC_TRANSITIONS, &[RX, PRIORITY], AS_IS)
        .ids(family(151, 1, 8)),
    port(159, "SAI_PORT_STAT_DOT3_STATS_ALIGNMENT_ERRORS", &link::LINK_ERRORS, &[RX, fixed("reason", "alignment")]),
    port(160, "SAI_PORT_STAT_DOT3_STATS_FCS_ERRORS", &link::CRC_ERRORS, &[RX]),
    unused(161, "SAI_PORT_STAT_DOT3_STATS_SINGLE_COLLISION_FRAMES", HALF_DUPLEX),
    unused(162, "SAI_PORT_STAT_DOT3_STATS_MULTIPLE_COLLISION_FRAMES", HALF_DUPLEX),
    unused(163, "SAI_PORT_STAT_DOT3_STATS_SQE_TEST_ERRORS", HALF_DUPLEX),
    unused(164, "SAI_PORT_STAT_DOT3_STATS_DEFERRED_TRANSMISSIONS", HALF_DUPLEX),
    unused(165, "SAI_PORT_STAT_DOT3_STATS_LATE_COLLISIONS", HALF_DUPLEX),
    unused(166, "SAI_PORT_STAT_DOT3_STATS_EXCESSIVE_COLLISIONS", HALF_DUPLEX),
    port(
        167,
        "SAI_PORT_STAT_DOT3_STATS_INTERNAL_MAC_TRANSMIT_ERRORS",
        &link::LINK_ERRORS,
        &[TX, fixed("reason", "mac")],
    ),
    port(168, "SAI_PORT_STAT_DOT3_STATS_CARRIER_SENSE_ERRORS", &link::LINK_ERRORS, &[TX, fixed("reason", "carrier")]),
    port(169, "SAI_PORT_STAT_DOT3_STATS_FRAME_TOO_LONGS", &link::LINK_ERRORS, &[RX, fixed("reason", "too_long")]),
    port(
        170,
        "SAI_PORT_STAT_DOT3_STATS_INTERNAL_MAC_RECEIVE_ERRORS",
        &link::LINK_ERRORS,
        &[RX, fixed("reason", "mac")],
    ),
    port(171, "SAI_PORT_STAT_DOT3_STATS_SYMBOL_ERRORS", &link::SYMBOL_ERRORS, &[]),
    port(172, "SAI_PORT_STAT_DOT3_CONTROL_IN_UNKNOWN_OPCODES", &pause::PAUSE_UNSUPPORTED_FRAMES, &[]),
    unused(173, "SAI_PORT_STAT_EEE_TX_EVENT_COUNT", ENERGY),
    unused(174, "SAI_PORT_STAT_EEE_RX_EVENT_COUNT", ENERGY),
    unused(175, "SAI_PORT_STAT_EEE_TX_DURATION", ENERGY),
    unused(176, "SAI_PORT_STAT_EEE_RX_DURATION", ENERGY),
    unused(177, "SAI_PORT_STAT_PRBS_ERROR_COUNT", TEST),
    port(178, "SAI_PORT_STAT_IF_IN_FEC_CORRECTABLE_FRAMES", &fec::FEC_CORRECTED_BLOCKS, &[]),
    port(179, "SAI_PORT_STAT_IF_IN_FEC_NOT_CORRECTABLE_FRAMES", &fec::FEC_UNCORRECTABLE_BLOCKS, &[]),
    port(180, "SAI_PORT_STAT_IF_IN_FEC_SYMBOL_ERRORS", &fec::FEC_CORRECTED_SYMBOLS, &[]),
    unused(181, "SAI_PORT_STAT_IF_IN_FABRIC_DATA_UNITS", CHASSIS),
    unused(182, "SAI_PORT_STAT_IF_OUT_FABRIC_DATA_UNITS", CHASSIS),
    is("SAI_PORT_STAT_IF_IN_FEC_CODEWORD_ERRORS_S{}", OBJECT, &switch::FEC_CODEWORDS, &[number("symbols")], AS_IS)
        .ids(family(183, 1, 17)),
    port(200, "SAI_PORT_STAT_IF_IN_FEC_CORRECTED_BITS", &fec::FEC_CORRECTED_BITS, &[]),
    port(201, "SAI_PORT_STAT_TRIM_PACKETS", &switch::PORT_TRIMS, &[fixed("outcome", "all")]),
    port(202, "SAI_PORT_STAT_DROPPED_TRIM_PACKETS", &switch::PORT_TRIMS, &[fixed("outcome", "dropped")]),
    port(203, "SAI_PORT_STAT_TX_TRIM_PACKETS", &switch::PORT_TRIMS, &[fixed("outcome", "sent")]),
    unused(204, "SAI_PORT_STAT_LLR_TX_INIT_CTL_OS", RETRY),
    unused(205, "SAI_PORT_STAT_LLR_TX_INIT_ECHO_CTL_OS", RETRY),
    unused(206, "SAI_PORT_STAT_LLR_TX_ACK_CTL_OS", RETRY),
    unused(207, "SAI_PORT_STAT_LLR_TX_NACK_CTL_OS", RETRY),
    unused(208, "SAI_PORT_STAT_LLR_TX_DISCARD", RETRY),
    unused(209, "SAI_PORT_STAT_LLR_TX_OK", RETRY),
    unused(210, "SAI_PORT_STAT_LLR_TX_POISONED", RETRY),
    port(211, "SAI_PORT_STAT_LLR_TX_REPLAY", &link::LINK_ERRORS, &[TX, fixed("reason", "replay")]),
    unused(212, "SAI_PORT_STAT_LLR_RX_INIT_CTL_OS", RETRY),
    unused(213, "SAI_PORT_STAT_LLR_RX_INIT_ECHO_CTL_OS", RETRY),
    unused(214, "SAI_PORT_STAT_LLR_RX_ACK_CTL_OS", RETRY),
    unused(215, "SAI_PORT_STAT_LLR_RX_NACK_CTL_OS", RETRY),
    unused(216, "SAI_PORT_STAT_LLR_RX_ACK_NACK_SEQ_ERROR", RETRY),
    unused(217, "SAI_PORT_STAT_LLR_RX_OK", RETRY),
    unused(218, "SAI_PORT_STAT_LLR_RX_POISONED", RETRY),
    unused(219, "SAI_PORT_STAT_LLR_RX_BAD", RETRY),
    unused(220, "SAI_PORT_STAT_LLR_RX_EXPECTED_SEQ_GOOD", RETRY),
    unused(221, "SAI_PORT_STAT_LLR_RX_EXPECTED_SEQ_POISONED", RETRY),
    unused(222, "SAI_PORT_STAT_LLR_RX_EXPECTED_SEQ_BAD", RETRY),
    unused(223, "SAI_PORT_STAT_LLR_RX_MISSING_SEQ", RETRY),
    unused(224, "SAI_PORT_STAT_LLR_RX_DUPLICATE_SEQ", RETRY),
    port(225, "SAI_PORT_STAT_LLR_RX_REPLAY", &link::LINK_ERRORS, &[RX, fixed("reason", "replay")]),
    unused(226, "SAI_PORT_STAT_CBFC_SENDER_CREDITS_USED", CREDITS),
    unused(227, "SAI_PORT_STAT_CBFC_SENDER_CREDITS_USED_WATERMARK", CREDITS),
    unused(228, "SAI_PORT_STAT_CBFC_NUM_CC_UPDATE_MESSAGES_TX", CREDITS),
    unused(229, "SAI_PORT_STAT_CBFC_NUM_CF_UPDATE_MESSAGES_TX", CREDITS),
    unused(230, "SAI_PORT_STAT_CBFC_NUM_CC_UPDATE_MESSAGES_RX", CREDITS),
    unused(231, "SAI_PORT_STAT_CBFC_NUM_CF_UPDATE_MESSAGES_RX", CREDITS),
    unused(232, "SAI_PORT_STAT_ETHER_STATS_PKTS_1519_TO_MAX_OCTETS", BOTH),
    port(
        233,
        "SAI_PORT_STAT_ETHER_IN_PKTS_1519_TO_MAX_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "max")],
    ),
    port(
        234,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_1519_TO_MAX_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "max")],
    ),
    left_out("SAI_PORT_STAT_IN_CONFIGURED_DROP_REASONS_{}_DROPPED_PKTS", DROP_REASON).ids(family(4096, 1, 4095)),
    left_out("SAI_PORT_STAT_OUT_CONFIGURED_DROP_REASONS_{}_DROPPED_PKTS", DROP_REASON).ids(family(8192, 1, 8)),
    unused(8200, "SAI_PORT_STAT_IF_IN_HW_PROTECTION_SWITCHOVER_EVENTS", "protection switching of carrier networks"),
    unused(8201, "SAI_PORT_STAT_IF_IN_HW_PROTECTION_SWITCHOVER_DROP_PKTS", "protection switching of carrier networks"),
    port(
        12288,
        "SAI_PORT_STAT_ETHER_IN_PKTS_1519_TO_2500_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "2500")],
    ),
    port(
        12289,
        "SAI_PORT_STAT_ETHER_IN_PKTS_2501_TO_9000_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "9000")],
    ),
    port(
        12290,
        "SAI_PORT_STAT_ETHER_IN_PKTS_9001_TO_16383_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[RX, fixed("size", "16383")],
    ),
    port(
        12291,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_1519_TO_2500_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "2500")],
    ),
    port(
        12292,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_2501_TO_9000_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "9000")],
    ),
    port(
        12293,
        "SAI_PORT_STAT_ETHER_OUT_PKTS_9001_TO_16383_OCTETS",
        &traffic::PORT_FRAMES_SIZE,
        &[TX, fixed("size", "16383")],
    ),
    left_out("SAI_PORT_STAT_PRBS_ERROR_COUNT_LANE_{}", TEST).ids(family(16384, 1, 4095)),
    left_out("SAI_PORT_STAT_START", MARKER),
    unused(8191, "SAI_PORT_STAT_IN_DROP_REASON_RANGE_END", MARKER),
    left_out("SAI_PORT_STAT_IN_DROP_REASON_RANGE_BASE", MARKER),
    unused(12287, "SAI_PORT_STAT_OUT_DROP_REASON_RANGE_END", MARKER),
    left_out("SAI_PORT_STAT_OUT_DROP_REASON_RANGE_BASE", MARKER),
    unused(20479, "SAI_PORT_STAT_PRBS_ERROR_COUNT_LANE_RANGE_END", MARKER),
    left_out("SAI_PORT_STAT_PRBS_ERROR_COUNT_LANE_RANGE_BASE", MARKER),
    unused(20480, "SAI_PORT_STAT_END", MARKER),
    unused(0x1000_0000, "SAI_PORT_STAT_CUSTOM_RANGE_BASE", MARKER),
    unused(0x2000_0000, "SAI_PORT_STAT_EXTENSIONS_RANGE_BASE", MARKER),
];
