//! The kernel log of a host, as far as it names faults. Texts are neither kept nor sent.

use super::units::*;

metrics! {
    KERNEL_LOG_EVENTS, Counter, Device, "fabric.kernel_log.events", EVENTS,
        ["class", "cluster", "code", "job", "netdev", "pci_address", "scheduler", "severity"],
        "Records of the kernel log that name a fault, by class and severity (docs/kernel-log.md lists them). `code` is a number that the message holds, such as an Xid; `device` is absent if the message names no device of the fabric, `pci_address` is the PCI function that it names; `job` is that of the process that it names. A series begins with 0. At most 256 per host: more are counted without `code`, `device` and `job`.";
    KERNEL_LOG_RECORDS, Counter, Host, "fabric.kernel_log.records", Count("{record}"), ["result"],
        "Records of the kernel log: `read`; `foreign`, which programs wrote and which are not believed; `skipped`, which the kernel overwrote, or which the agent passed over because the log grew faster than it reads; `malformed`. Absent if the agent may not read the log.";
}
