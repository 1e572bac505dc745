//! Messages of AMD Pensando's adapters.

use super::LogSeverity::{Error, Fatal};
use super::LogSubject::Adapter;
use super::Printer::Driver;
use super::{LogClass, Printer, row};

const IONIC: Printer = Driver(&["ionic", "ionic_rdma", "infiniband"]);

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "ionic_firmware_lost",
        (Fatal, Adapter),
        IONIC,
        &["FW heartbeat stalled at", "DEVCMD * failed - FW halted", "DEVCMD * interrupted - FW is down", "FW stopped"],
        "firmware of the adapter that has stopped",
    ),
    row(
        "ionic_command_timeout",
        (Error, Adapter),
        IONIC,
        &["* timeout after <n> secs", "* timed out after <n> secs"],
        "command that the adapter's firmware did not answer",
    ),
];
