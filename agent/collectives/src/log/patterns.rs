//! Table of the lines that are read. A new kind of line is a row.

use super::EventKind::{self, *};

/// A kind of line.
#[derive(Debug)]
pub struct Pattern {
    /// Kind.
    pub kind: EventKind,
    /// Texts that the line has, in this order.
    pub has: &'static [&'static str],
    /// Fields: name, the texts after which it stands (each after the one before), and the characters that end it.
    pub fields: &'static [Field],
}

/// Name of a field, the texts after which it stands, and the characters that end it.
pub type Field = (&'static str, &'static [&'static str], &'static str);

const fn row(kind: EventKind, has: &'static [&'static str], fields: &'static [Field]) -> Pattern {
    Pattern { kind, has, fields }
}

/// All lines that are read. The first row that fits is taken.
pub static PATTERNS: &[Pattern] = &[
    // `NET/IB-CAST` is the same of another transport; percentiles are absent in older versions.
    row(
        SlowWorkRequest,
        &["NET/IB", ": WQE slow: "],
        &[
            ("peer", &["peer="], "< |"),
            ("local_qp", &["local: ", "qpn="], " "),
            ("device", &["local: ", "dev="], " "),
            ("port", &["local: ", "port="], " "),
            ("remote_qp", &["remote: ", "qpn="], " "),
            ("threshold_ns", &["thr="], "n "),
            ("delta_ns", &["delta="], "n "),
            ("p99_ns", &["p99="], "n "),
            ("count", &["count="], " "),
        ],
    ),
    row(FailedWorkRequest, &["NET/IB", "Got CQE with error"], &[("local_qp", &["qp_num="], "), ")]),
    row(
        FailedWorkRequest,
        &["NET/IB", "Got completion from peer "],
        &[
            ("peer", &["Got completion from peer "], "< "),
            ("status", &["status="], "( "),
            // Up to NCCL 2.19: `with error 12, opcode 1`.
            ("status", &[" with error "], ", "),
            ("opcode", &["opcode="], "( "),
            ("device", &[" hca "], " "),
        ],
    ),
    row(NoDevice, &["NET/IB : No device found"], &[]),
    row(Devices, &["NET/IB : Using [0]"], &[("devices", &["NET/IB : Using "], ";")]),
    // `Using [RO]` without a device: there is none.
    row(NoDevice, &["NET/IB : Using [RO]"], &[]),
    row(SocketInterfaces, &["NET/Socket : Using "], &[("interfaces", &["NET/Socket : Using "], ";")]),
    row(Network, &["NCCL INFO Using network "], &[("network", &["Using network "], "")]),
    row(
        Channel,
        &["NCCL INFO Channel ", " -> ", " via "],
        &[
            ("channel", &["Channel "], "/ "),
            ("from", &[" : "], "[ "),
            ("to", &[" -> "], "[ "),
            ("transport", &[" via "], " "),
        ],
    ),
    row(Abort, &["NCCL INFO comm ", "Abort COMPLETE"], &[("rank", &[" rank "], " ")]),
    row(
        Timeout,
        &["Watchdog caught collective operation timeout"],
        &[
            // `[Rank 3]`, and `[PG ID 0 PG GUID 0(default_pg) Rank 3]` of later versions.
            ("rank", &["Rank "], "]"),
            ("operation", &["OpType="], ",)"),
            ("sequence", &["SeqNum="], ",)"),
            ("milliseconds", &["ran for "], " "),
        ],
    ),
    row(RasPortTaken, &["RAS failed to establish a client listening socket"], &[("address", &["socket at "], " ")]),
];
