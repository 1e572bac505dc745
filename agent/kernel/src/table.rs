//! Numbers of the RDMA and DCB ABI and their names in iproute2. Shared by live calls and by readers and writers of
//! recordings, so that a recording has the same values as the kernel.

/// Logical port states, by number.
pub const PORT_STATE: &[&str] = &["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];

/// Physical port states, by number; iproute2 prints `ARMED` for training.
pub const PHYSICAL_STATE: &[&str] = &[
    "NOP",
    "SLEEP",
    "POLLING",
    "DISABLED",
    "ARMED",
    "LINK_UP",
    "LINK_ERROR_RECOVER",
    "PHY_TEST",
    "UNKNOWN",
    "OPA_OFFLINE",
    "UNKNOWN",
    "OPA_TEST",
];

/// Queue pair states, by number.
pub const QP_STATE: &[&str] = &["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];

/// Queue pair types, by number; 255 is `DRIVER`.
const QP_TYPE: &[&str] =
    &["SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "UNKNOWN", "RAW_PACKET", "XRC_INI", "XRC_TGT"];

/// States of the connection manager, by number.
pub const CM_STATE: &[&str] = &[
    "IDLE",
    "ADDR_QUERY",
    "ADDR_RESOLVED",
    "ROUTE_QUERY",
    "ROUTE_RESOLVED",
    "CONNECT",
    "DISCONNECT",
    "ADDR_BOUND",
    "LISTEN",
    "DEVICE_REMOVAL",
    "DESTROYING",
];

/// ETS algorithms: number and name.
pub const TSA: &[(u8, &str)] = &[(0, "strict"), (1, "cbs"), (2, "ets"), (255, "vendor")];

/// APP selectors: number and the JSON key of `dcb app show`. Ethertype 0 is the default priority, without protocol.
pub const APP: &[(u8, &str)] = &[
    (1, "ethtype_prio"),
    (2, "stream_port_prio"),
    (3, "dgram_port_prio"),
    (4, "port_prio"),
    (5, "dscp_prio"),
    (24, "pcp_prio"),
];

/// Signaling rates of InfiniBand (`active_speed`): bit, name, rate per lane in bits per second, as in the kernel's
/// sysfs file `rate`.
pub const SPEED: &[(u32, &str, u64)] = &[
    (1, "SDR", 2_500_000_000),
    (2, "DDR", 5_000_000_000),
    (4, "QDR", 10_000_000_000),
    (8, "FDR10", 10_000_000_000),
    (16, "FDR", 14_000_000_000),
    (32, "EDR", 25_000_000_000),
    (64, "HDR", 50_000_000_000),
    (128, "NDR", 100_000_000_000),
    (256, "XDR", 200_000_000_000),
];

/// Name of `number`; `UNKNOWN` if it is not in the table.
pub fn name(table: &'static [&'static str], number: u8) -> &'static str {
    table.get(usize::from(number)).copied().unwrap_or("UNKNOWN")
}

/// Number of `name`; 0 (`NOP`) if it is not in the table.
pub fn number(table: &[&str], name: &str) -> u8 {
    table.iter().position(|n| n.eq_ignore_ascii_case(name)).and_then(|n| u8::try_from(n).ok()).unwrap_or(0)
}

/// Name of a queue pair type.
pub fn qp_type(number: u8) -> &'static str {
    if number == 255 { "DRIVER" } else { name(QP_TYPE, number) }
}

/// Static name of a signaling rate, if it is in the table.
pub fn speed(name: &str) -> Option<&'static str> {
    SPEED.iter().find(|s| s.1 == name).map(|s| s.1)
}
