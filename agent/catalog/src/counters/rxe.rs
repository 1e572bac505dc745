//! Soft-RoCE.

use super::build::hw;
use crate::metrics::link::LINK_DOWNS;
use crate::metrics::traffic::{RDMA_OPERATIONS, RDMA_PACKETS};
use crate::metrics::transport::{
    ADAPTIVE_RETRANSMITS, DUPLICATE_REQUESTS, OUT_OF_SEQUENCE, QP_ERRORS, QP_EVENTS, RETRIES_EXCEEDED, RNR_NAKS,
    SEQUENCE_NAKS,
};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    hw("sent_pkts", &RDMA_PACKETS).tx(),
    hw("rcvd_pkts", &RDMA_PACKETS).rx(),
    hw("duplicate_request", &DUPLICATE_REQUESTS),
    hw("out_of_seq_request", &OUT_OF_SEQUENCE),
    hw("rcvd_rnr_err", &RNR_NAKS).rx(),
    hw("send_rnr_err", &RNR_NAKS).tx(),
    hw("rcvd_seq_err", &SEQUENCE_NAKS).rx(),
    hw("ack_deferred", &QP_EVENTS).named(),
    hw("retry_exceeded_err", &RETRIES_EXCEEDED).reason("transport"),
    hw("retry_rnr_exceeded_err", &RETRIES_EXCEEDED).reason("rnr"),
    hw("completer_retry_err", &ADAPTIVE_RETRANSMITS).reason("completer"),
    hw("send_err", &QP_ERRORS).named(),
    hw("link_downed", &LINK_DOWNS),
    hw("rdma_sends", &RDMA_OPERATIONS).tx().op("send_request"),
    hw("rdma_recvs", &RDMA_OPERATIONS).rx().op("send_request"),
];
