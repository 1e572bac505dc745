//! Asynchronous events of libibverbs by number.

/// Names of event types by number, and whether events of the type have a port.
pub const KINDS: &[(&str, bool)] = &[
    ("cq_err", false),
    ("qp_fatal", false),
    ("qp_req_err", false),
    ("qp_access_err", false),
    ("comm_est", false),
    ("sq_drained", false),
    ("path_mig", false),
    ("path_mig_err", false),
    (DEVICE_FATAL, false),
    ("port_active", true),
    ("port_err", true),
    ("lid_change", true),
    ("pkey_change", true),
    ("sm_change", true),
    ("srq_err", false),
    ("srq_limit_reached", false),
    ("qp_last_wqe_reached", false),
    ("client_reregister", true),
    ("gid_change", true),
    ("wq_fatal", false),
    ("device_speed_change", true),
];
/// The device has failed or is gone.
pub const DEVICE_FATAL: &str = "device_fatal";
