//! Messages of Broadcom's adapters.

use super::LogSeverity::{Error, Fatal, Warning};
use super::LogSubject::Adapter;
use super::Printer::Driver;
use super::{LogClass, Printer, row};

const BNXT: Printer = Driver(&["bnxt_en", "bnxt_re", "infiniband"]);

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "bnxt_firmware_lost",
        (Fatal, Adapter),
        BNXT,
        &[
            "Error (timeout: <n>) msg",
            "Firmware not responding, status: <code>",
            "Firmware fatal reset event",
            "QPLIB: cmdq[*]=* timedout",
        ],
        "firmware of the adapter that does not answer",
    ),
    row("bnxt_firmware_reset", (Error, Adapter), BNXT, &["Firmware * reset event"], "reset of the adapter's firmware"),
    row(
        "bnxt_rdma_failed",
        (Error, Adapter),
        BNXT,
        &[
            "Couldn't change QP1 state to",
            "Couldn't start port",
            "Failed to register with IB",
            "Failed to initialize RCFW",
            "Failed to enable RCFW channel",
        ],
        "RDMA of the adapter that did not start",
    ),
    row(
        "bnxt_rdma_command",
        (Warning, Adapter),
        BNXT,
        &["Failed to destroy HW", "Failed to create HW", "Failed to modify HW"],
        "RDMA command that the adapter's firmware failed",
    ),
    row("bnxt_pause_storm", (Error, Adapter), BNXT, &["Pause Storm detected"], "pause storm that the adapter reports"),
    row(
        "bnxt_doorbells_dropped",
        (Warning, Adapter),
        BNXT,
        &["One or more MMIO doorbells dropped"],
        "doorbells that the adapter dropped",
    ),
];
