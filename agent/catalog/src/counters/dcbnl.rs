//! DCB netlink: the configuration, and PFC counts if the driver keeps them current.

use super::build::dcb;
use crate::metrics::dcb::{
    DCB_BUFFER_SIZE, DCB_DSCP_PRIORITY, DCB_MODE, DCB_PFC_CAPABILITY, DCB_PFC_DELAY, DCB_PFC_MBC, DCB_PRIORITY_BUFFER,
    DCB_PRIORITY_TC, DCB_TC_ALGORITHM, DCB_TC_BANDWIDTH,
};
use crate::metrics::pfc::PFC_FRAMES;
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    dcb("ieee_pfc/requests[{prio}]", &PFC_FRAMES).tx(),
    dcb("ieee_pfc/indications[{prio}]", &PFC_FRAMES).rx(),
    dcb("ieee_pfc/pfc_cap", &DCB_PFC_CAPABILITY),
    dcb("ieee_pfc/delay", &DCB_PFC_DELAY),
    dcb("ieee_pfc/mbc", &DCB_PFC_MBC),
    dcb("ieee_ets/tc_tsa[{tc}]", &DCB_TC_ALGORITHM),
    dcb("ieee_ets/tc_tx_bw[{tc}]", &DCB_TC_BANDWIDTH).times(0.01),
    dcb("ieee_ets/prio_tc[{prio}]", &DCB_PRIORITY_TC),
    dcb("ieee_app/dscp2prio[{dscp}]", &DCB_DSCP_PRIORITY),
    dcb("buffer/prio2buffer[{prio}]", &DCB_PRIORITY_BUFFER),
    dcb("buffer/buffer_size[{buffer}]", &DCB_BUFFER_SIZE),
    dcb("dcbx", &DCB_MODE),
];
