//! Alibaba erdma.

use super::build::hw;
use crate::metrics::traffic::{RDMA_IO, RDMA_OPERATIONS, RDMA_PACKETS};
use crate::metrics::transport::RDMA_DISCARDS;
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    hw("tx_reqs_cnt", &RDMA_OPERATIONS).tx().op("request"),
    hw("tx_packets_cnt", &RDMA_PACKETS).tx(),
    hw("tx_bytes_cnt", &RDMA_IO).tx(),
    hw("tx_disable_drop_cnt", &RDMA_DISCARDS).tx().reason("disable"),
    hw("tx_bps_limit_drop_cnt", &RDMA_DISCARDS).tx().reason("bps_limit"),
    hw("tx_pps_limit_drop_cnt", &RDMA_DISCARDS).tx().reason("pps_limit"),
    hw("rx_packets_cnt", &RDMA_PACKETS).rx(),
    hw("rx_bytes_cnt", &RDMA_IO).rx(),
    hw("rx_disable_drop_cnt", &RDMA_DISCARDS).rx().reason("disable"),
    hw("rx_bps_limit_drop_cnt", &RDMA_DISCARDS).rx().reason("bps_limit"),
    hw("rx_pps_limit_drop_cnt", &RDMA_DISCARDS).rx().reason("pps_limit"),
];
