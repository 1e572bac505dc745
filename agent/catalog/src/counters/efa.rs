//! AWS: ena netdev and efa RDMA counters.

use super::build::{eth, hw};
use crate::metrics::congestion::RDMA_WAITS;
use crate::metrics::discard::ALLOWANCE_EXCEEDED;
use crate::metrics::netdev::{
    NETDEV_RING_ERRORS, NETDEV_RING_IO, NETDEV_RING_PACKETS, NETDEV_RING_QUEUE_EVENTS, NETDEV_SRD_PACKETS,
    NETDEV_SRD_UTILIZATION, NETDEV_TIMEOUTS,
};
use crate::metrics::traffic::{RDMA_IO, RDMA_OPERATION_IO, RDMA_OPERATIONS, RDMA_PACKETS};
use crate::metrics::transport::{
    ACK_TIMEOUTS, QP_ERRORS, QP_EVENTS, RDMA_DISCARDS, RETRANSMIT_IO, RETRANSMITS, TRANSPORT_EVENTS,
};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    eth("tx_timeout", &NETDEV_TIMEOUTS).named(),
    eth("wd_expired", &NETDEV_TIMEOUTS).named(),
    eth("bw_in_allowance_exceeded", &ALLOWANCE_EXCEEDED).reason("bw_in"),
    eth("bw_out_allowance_exceeded", &ALLOWANCE_EXCEEDED).reason("bw_out"),
    eth("pps_allowance_exceeded", &ALLOWANCE_EXCEEDED).reason("pps"),
    eth("conntrack_allowance_exceeded", &ALLOWANCE_EXCEEDED).reason("conntrack"),
    eth("linklocal_allowance_exceeded", &ALLOWANCE_EXCEEDED).reason("linklocal"),
    eth("ena_srd_tx_pkts", &NETDEV_SRD_PACKETS).reason("tx"),
    eth("ena_srd_eligible_tx_pkts", &NETDEV_SRD_PACKETS).reason("eligible_tx"),
    eth("ena_srd_rx_pkts", &NETDEV_SRD_PACKETS).reason("rx"),
    eth("ena_srd_resource_utilization", &NETDEV_SRD_UTILIZATION).times(0.01),
    eth("queue_{queue}_tx_cnt", &NETDEV_RING_PACKETS).tx().adds(),
    eth("queue_{queue}_tx_bytes", &NETDEV_RING_IO).tx().adds(),
    eth("queue_{queue}_tx_queue_stop", &NETDEV_RING_QUEUE_EVENTS).named().adds(),
    eth("queue_{queue}_tx_queue_wakeup", &NETDEV_RING_QUEUE_EVENTS).named().adds(),
    eth("queue_{queue}_tx_missed_tx", &NETDEV_RING_QUEUE_EVENTS).named().adds(),
    eth("queue_{queue}_rx_cnt", &NETDEV_RING_PACKETS).rx().adds(),
    eth("queue_{queue}_rx_bytes", &NETDEV_RING_IO).rx().adds(),
    eth("queue_{queue}_rx_page_alloc_fail", &NETDEV_RING_ERRORS).rx().named().adds(),
    eth("queue_{queue}_rx_skb_alloc_fail", &NETDEV_RING_ERRORS).rx().named().adds(),
    eth("queue_{queue}_rx_empty_rx_ring", &NETDEV_RING_ERRORS).rx().named().adds(),
    eth("queue_{queue}_rx_xdp_drop", &NETDEV_RING_ERRORS).rx().named().adds(),
    eth("queue_{queue}_rx_bad_csum", &NETDEV_RING_ERRORS).rx().named().adds(),
    hw("submitted_cmds", &QP_EVENTS).named(),
    hw("completed_cmds", &QP_EVENTS).named(),
    hw("cmds_err", &QP_ERRORS).named(),
    hw("no_completion_cmds", &QP_ERRORS).named(),
    hw("keep_alive_rcvd", &QP_EVENTS).named(),
    hw("alloc_pd_err", &QP_ERRORS).named(),
    hw("create_qp_err", &QP_ERRORS).named(),
    hw("create_cq_err", &QP_ERRORS).named(),
    hw("reg_mr_err", &QP_ERRORS).named(),
    hw("alloc_ucontext_err", &QP_ERRORS).named(),
    hw("create_ah_err", &QP_ERRORS).named(),
    hw("mmap_err", &QP_ERRORS).named(),
    hw("alloc_mr_err", &QP_ERRORS).named(),
    hw("get_dma_mr_err", &QP_ERRORS).named(),
    hw("tx_bytes", &RDMA_IO).tx(),
    hw("tx_pkts", &RDMA_PACKETS).tx(),
    hw("rx_bytes", &RDMA_IO).rx(),
    hw("rx_pkts", &RDMA_PACKETS).rx(),
    hw("rx_drops", &RDMA_DISCARDS).rx().reason("receive"),
    hw("send_bytes", &RDMA_OPERATION_IO).tx().op("send"),
    hw("send_wrs", &RDMA_OPERATIONS).tx().op("send_request"),
    hw("recv_bytes", &RDMA_OPERATION_IO).rx().op("send"),
    hw("recv_wrs", &RDMA_OPERATIONS).rx().op("send_request"),
    hw("rdma_read_wrs", &RDMA_OPERATIONS).tx().op("read_request"),
    hw("rdma_read_bytes", &RDMA_OPERATION_IO).rx().op("read"),
    hw("rdma_read_wr_err", &QP_ERRORS).named(),
    hw("rdma_read_resp_bytes", &RDMA_OPERATION_IO).tx().op("read"),
    hw("rdma_write_wrs", &RDMA_OPERATIONS).tx().op("write_request"),
    hw("rdma_write_bytes", &RDMA_OPERATION_IO).tx().op("write"),
    hw("rdma_write_wr_err", &QP_ERRORS).named(),
    hw("rdma_write_recv_bytes", &RDMA_OPERATION_IO).rx().op("write"),
    hw("retrans_bytes", &RETRANSMIT_IO),
    hw("retrans_pkts", &RETRANSMITS),
    hw("retrans_timeout_events", &ACK_TIMEOUTS),
    hw("unresponsive_remote_events", &TRANSPORT_EVENTS).named(),
    hw("impaired_remote_conn_events", &RDMA_WAITS).reason("impaired_peer"),
];
