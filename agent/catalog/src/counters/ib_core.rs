//! State files of `ib_core`, asynchronous events, RDMA-CM defaults.

use super::build::{hw, other};
use crate::metrics::dcb::ROCE_TOS;
use crate::metrics::state::{
    COUNTER_LIFESPAN, PORT_ASYNC_EVENTS, PORT_CAPABILITIES, PORT_LID, PORT_LMC, PORT_PHYSICAL_STATE, PORT_RATE,
    PORT_SM_LID, PORT_SM_SL, PORT_SMI, PORT_STATE,
};
use crate::metrics::transport::OBJECTS;
use crate::vendor_counter::VendorCounter;

/// All counters, in the order in which the driver lists them.
pub static COUNTERS: &[VendorCounter] = &[
    other("ports/{port}/state", &PORT_STATE),
    other("ports/{port}/phys_state", &PORT_PHYSICAL_STATE),
    other("ports/{port}/rate", &PORT_RATE).times(1.25e8),
    other("ports/{port}/lid", &PORT_LID),
    other("ports/{port}/sm_lid", &PORT_SM_LID),
    other("ports/{port}/sm_sl", &PORT_SM_SL),
    other("ports/{port}/lid_mask_count", &PORT_LMC),
    other("ports/{port}/cap_mask", &PORT_CAPABILITIES),
    other("ports/{port}/has_smi", &PORT_SMI),
    other("async_event/IBV_EVENT_PORT_ACTIVE", &PORT_ASYNC_EVENTS).label("event", "port_active"),
    other("async_event/IBV_EVENT_PORT_ERR", &PORT_ASYNC_EVENTS).label("event", "port_err"),
    other("async_event/IBV_EVENT_LID_CHANGE", &PORT_ASYNC_EVENTS).label("event", "lid_change"),
    other("async_event/IBV_EVENT_PKEY_CHANGE", &PORT_ASYNC_EVENTS).label("event", "pkey_change"),
    other("async_event/IBV_EVENT_GID_CHANGE", &PORT_ASYNC_EVENTS).label("event", "gid_change"),
    other("async_event/IBV_EVENT_SM_CHANGE", &PORT_ASYNC_EVENTS).label("event", "sm_change"),
    other("async_event/IBV_EVENT_CLIENT_REREGISTER", &PORT_ASYNC_EVENTS).label("event", "client_reregister"),
    other("async_event/IBV_EVENT_DEVICE_FATAL", &PORT_ASYNC_EVENTS).label("event", "device_fatal"),
    other("async_event/IBV_EVENT_QP_FATAL", &PORT_ASYNC_EVENTS).label("event", "qp_fatal"),
    other("async_event/IBV_EVENT_QP_ACCESS_ERR", &PORT_ASYNC_EVENTS).label("event", "qp_access_err"),
    other("async_event/IBV_EVENT_CQ_ERR", &PORT_ASYNC_EVENTS).label("event", "cq_err"),
    other("configfs/rdma_cm/{dev}/ports/{port}/default_roce_tos", &ROCE_TOS).reason("rdma_cm"),
    hw("lifespan", &COUNTER_LIFESPAN).times(1e-3),
    other("res/summary/pd", &OBJECTS).label("object", "pds"),
    other("res/summary/cq", &OBJECTS).label("object", "cqs"),
    other("res/summary/qp", &OBJECTS).label("object", "qps"),
    other("res/summary/cm_id", &OBJECTS).label("object", "cm_ids"),
    other("res/summary/mr", &OBJECTS).label("object", "mrs"),
    other("res/summary/ctx", &OBJECTS).label("object", "ctxs"),
    other("res/summary/srq", &OBJECTS).label("object", "srqs"),
];
