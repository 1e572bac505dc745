//! Microsoft mana: netdev (`hc_`) and RDMA counters; the device level repeats some of them.

use super::build::{dev, eth, hw};
use crate::Feed;
use crate::metrics::congestion::{CNP_PACKETS, CONGESTION_EVENTS, CONGESTION_RATE, ECN_PACKETS};
use crate::metrics::netdev::{
    NETDEV_DISCARD_DETAILS, NETDEV_IO, NETDEV_IO_CAST, NETDEV_OFFLOAD_IO, NETDEV_OFFLOAD_PACKETS, NETDEV_PACKETS_CAST,
    NETDEV_QUEUE_EVENTS, NETDEV_RING_IO, NETDEV_RING_PACKETS,
};
use crate::metrics::traffic::{RDMA_IO, RDMA_OPERATIONS, RDMA_PACKETS};
use crate::metrics::transport::{
    ACK_TIMEOUTS, DUPLICATE_REQUESTS, IMPLIED_NAKS, OUT_OF_SEQUENCE, RETRIES_EXCEEDED, RNR_NAKS, SEQUENCE_NAKS,
    TRANSPORT_EVENTS,
};

/// Rows of this file.
pub static FEEDS: &[Feed] = &[
    eth("stop_queue", &NETDEV_QUEUE_EVENTS).named(),
    eth("wake_queue", &NETDEV_QUEUE_EVENTS).named(),
    eth("hc_rx_discards_no_wqe", &NETDEV_DISCARD_DETAILS).rx().named(),
    eth("hc_rx_err_vport_disabled", &NETDEV_DISCARD_DETAILS).rx().named(),
    eth("hc_rx_bytes", &NETDEV_IO).rx(),
    eth("hc_rx_ucast_pkts", &NETDEV_PACKETS_CAST).rx().cast("unicast"),
    eth("hc_rx_ucast_bytes", &NETDEV_IO_CAST).rx().cast("unicast"),
    eth("hc_rx_bcast_pkts", &NETDEV_PACKETS_CAST).rx().cast("broadcast"),
    eth("hc_rx_bcast_bytes", &NETDEV_IO_CAST).rx().cast("broadcast"),
    eth("hc_rx_mcast_pkts", &NETDEV_PACKETS_CAST).rx().cast("multicast"),
    eth("hc_rx_mcast_bytes", &NETDEV_IO_CAST).rx().cast("multicast"),
    eth("hc_tx_bytes", &NETDEV_IO).tx(),
    eth("hc_tx_ucast_pkts", &NETDEV_PACKETS_CAST).tx().cast("unicast"),
    eth("hc_tx_ucast_bytes", &NETDEV_IO_CAST).tx().cast("unicast"),
    eth("hc_tx_bcast_pkts", &NETDEV_PACKETS_CAST).tx().cast("broadcast"),
    eth("hc_tx_bcast_bytes", &NETDEV_IO_CAST).tx().cast("broadcast"),
    eth("hc_tx_mcast_pkts", &NETDEV_PACKETS_CAST).tx().cast("multicast"),
    eth("hc_tx_mcast_bytes", &NETDEV_IO_CAST).tx().cast("multicast"),
    eth("rx_{queue}_packets", &NETDEV_RING_PACKETS).rx().adds(),
    eth("tx_{queue}_bytes", &NETDEV_RING_IO).tx().adds(),
    eth("tx_{queue}_tso_bytes", &NETDEV_OFFLOAD_IO).reason("queue_tso").adds(),
    eth("tx_{queue}_tso_inner_bytes", &NETDEV_OFFLOAD_IO).reason("queue_tso_inner").adds(),
    eth("tx_{queue}_tso_packets", &NETDEV_OFFLOAD_PACKETS).reason("queue_tso").adds(),
    eth("tx_{queue}_tso_inner_packets", &NETDEV_OFFLOAD_PACKETS).reason("queue_tso_inner").adds(),
    eth("rx_{queue}_bytes", &NETDEV_RING_IO).rx().adds(),
    eth("tx_{queue}_packets", &NETDEV_RING_PACKETS).tx().adds(),
    hw("requester_timeout", &ACK_TIMEOUTS),
    hw("requester_oos_nak", &SEQUENCE_NAKS).rx(),
    hw("requester_rnr_nak", &RNR_NAKS).rx(),
    hw("responder_rnr_nak", &RNR_NAKS).tx(),
    hw("responder_oos", &OUT_OF_SEQUENCE),
    hw("responder_dup_request", &DUPLICATE_REQUESTS),
    hw("requester_implicit_nak", &IMPLIED_NAKS),
    hw("requester_readresp_psn_mismatch", &TRANSPORT_EVENTS).named(),
    hw("requester_rnr_nak_retries_exceeded", &RETRIES_EXCEEDED).reason("rnr"),
    hw("requester_retries_exceeded", &RETRIES_EXCEEDED).reason("transport"),
    hw("received_cnps", &CNP_PACKETS).rx(),
    hw("num_qps_congested", &CONGESTION_EVENTS).named(),
    hw("rate_inc_events", &CONGESTION_EVENTS).named(),
    hw("num_qps_recovered", &CONGESTION_EVENTS).named(),
    hw("current_rate", &CONGESTION_RATE),
    hw("dup_rx_requests", &TRANSPORT_EVENTS).named(),
    hw("tx_bytes", &RDMA_IO).tx(),
    hw("rx_bytes", &RDMA_IO).rx(),
    hw("rx_send_requests", &RDMA_OPERATIONS).rx().op("send_request"),
    hw("rx_write_requests", &RDMA_OPERATIONS).rx().op("write_request"),
    hw("rx_read_requests", &RDMA_OPERATIONS).rx().op("read_request"),
    hw("tx_packets", &RDMA_PACKETS).tx(),
    hw("rx_packets", &RDMA_PACKETS).rx(),
    hw("sent_cnps", &CNP_PACKETS).tx(),
    hw("received_ecns", &ECN_PACKETS),
    hw("received_cnp_count", &CNP_PACKETS).rx(),
    hw("qp_congested_events", &CONGESTION_EVENTS).named(),
    hw("qp_recovered_events", &CONGESTION_EVENTS).named(),
    dev("rate_inc_events", &CONGESTION_EVENTS).reason("device_rate_inc_events"),
];
