//! QLogic qib: verbs protocol counters; its other counters come from performance management.

use super::build::other;
use crate::metrics::congestion::RDMA_WAITS;
use crate::metrics::transport::{
    ACK_TIMEOUTS, DUPLICATE_REQUESTS, RDMA_DISCARDS, RETRANSMITS, RNR_NAKS, SEQUENCE_NAKS, TRANSPORT_EVENTS,
};
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    other("ports/{port}/diag_counters/rc_resends", &RETRANSMITS),
    other("ports/{port}/diag_counters/seq_naks", &SEQUENCE_NAKS).rx(),
    other("ports/{port}/diag_counters/rdma_seq", &TRANSPORT_EVENTS).named(),
    other("ports/{port}/diag_counters/rnr_naks", &RNR_NAKS).rx(),
    other("ports/{port}/diag_counters/rc_timeouts", &ACK_TIMEOUTS),
    other("ports/{port}/diag_counters/pkt_drops", &RDMA_DISCARDS).rx().reason("packet"),
    other("ports/{port}/diag_counters/dmawait", &RDMA_WAITS).named(),
    other("ports/{port}/diag_counters/rc_dupreq", &DUPLICATE_REQUESTS),
    other("ports/{port}/diag_counters/rc_seqnak", &SEQUENCE_NAKS).tx(),
    other("ports/{port}/diag_counters/rc_crwaits", &RDMA_WAITS).named(),
];
