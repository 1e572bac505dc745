//! Messages of Intel's adapters.

use super::LogSeverity::{Error, Warning};
use super::LogSubject::Adapter;
use super::Printer::Driver;
use super::{LogClass, Printer, row};

const INTEL: Printer = Driver(&["ice", "i40e", "idpf", "irdma", "infiniband"]);

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "intel_adapter_fault",
        (Error, Adapter),
        INTEL,
        &[
            "TX driver issue detected",
            "RX driver issue detected",
            "Malicious Driver Detection event",
            "Rebuild failed",
            "HMC Error",
        ],
        "fault of the adapter that its driver resets it for",
    ),
    row(
        "irdma_queue_pair_error",
        (Warning, Adapter),
        INTEL,
        &["abnormal ae_id = <code> bool qp=", "*abnormal ae_id = <code>"],
        "queue pair that the adapter put into an error state",
    ),
    row(
        "irdma_command",
        (Warning, Adapter),
        INTEL,
        &["cqp opcode = <code> maj_err_code", "*CQP timeout", "*CQP error"],
        "RDMA command that the adapter failed",
    ),
];
