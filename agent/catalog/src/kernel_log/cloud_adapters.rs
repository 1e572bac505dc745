//! Messages of the adapters of AWS (EFA) and Alibaba (eRDMA).

use super::LogSeverity::{Fatal, Warning};
use super::LogSubject::Adapter;
use super::Printer::Driver;
use super::{LogClass, Printer, row};

const EFA: Printer = Driver(&["efa", "erdma", "infiniband"]);

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "admin_queue_stuck",
        (Fatal, Adapter),
        EFA,
        &[
            "Wait for completion (polling) timeout",
            "The device didn't send any completion for admin cmd",
            "The device sent a completion but the driver didn't receive",
            "Admin queue is closed",
            "Reset indication didn't turn",
            "Device isn't ready, can't reset device",
        ],
        "adapter that does not answer administrative commands",
    ),
    row(
        "admin_command",
        (Warning, Adapter),
        EFA,
        &["Failed to process command", "Failed to submit command"],
        "administrative command that the adapter failed",
    ),
];
