//! Messages about processors, memory and processes of the host.

use super::LogSeverity::{Error, Note, Warning};
use super::LogSubject::{Host, Process};
use super::Printer::Kernel;
use super::{LogClass, row};

pub(super) const CLASSES: &[LogClass] = &[
    row(
        "memory_uncorrected",
        (Error, Host),
        Kernel,
        &[
            "{<n>}[Hardware Error]: event severity: fatal",
            "{<n>}[Hardware Error]: event severity: recoverable",
            "mce: [Hardware Error]: CPU <n>: Machine Check",
            "mce: Uncorrected hardware memory error",
            "EDAC MC<n>: <n> UE ",
            "Memory failure: ",
        ],
        "error of memory or a processor that was not corrected",
    ),
    row(
        "memory_corrected",
        (Note, Host),
        Kernel,
        &["{<n>}[Hardware Error]: event severity: corrected", "EDAC MC<n>: <n> CE "],
        "error of memory or a processor that was corrected",
    ),
    row(
        "cpu_throttled",
        (Warning, Host),
        Kernel,
        &[
            "CPU<n>: Core temperature above threshold",
            "CPU<n>: Package temperature above threshold",
            "mce: CPU<n>: Core temperature above threshold",
            "mce: CPU<n>: Package temperature above threshold",
        ],
        "CPU that is too hot and runs slower",
    ),
    row(
        "cpu_stuck",
        (Error, Host),
        Kernel,
        &[
            "watchdog: BUG: soft lockup - CPU#",
            "NMI watchdog: BUG: soft lockup - CPU#",
            "BUG: soft lockup - CPU#",
            "watchdog: CPU<n>: Watchdog detected hard LOCKUP",
            "NMI watchdog: Watchdog detected hard LOCKUP",
            "Watchdog detected hard LOCKUP",
            "rcu: INFO: * self-detected stall on CPU",
            "rcu: INFO: * detected stalls on CPUs",
            "rcu: INFO: * detected expedited stalls on CPUs",
            "INFO: rcu_* self-detected stall on CPU",
            "INFO: rcu_* detected stalls on CPUs",
        ],
        "CPU that was stuck in the kernel",
    ),
    row(
        "kernel_bug",
        (Error, Host),
        Kernel,
        &[
            "BUG: unable to handle",
            "BUG: kernel NULL pointer dereference",
            "kernel BUG at ",
            "general protection fault",
            "Internal error: Oops",
        ],
        "fault of the kernel itself",
    ),
    row(
        "out_of_memory",
        (Warning, Process),
        Kernel,
        &[
            "Out of memory: Kill process <pid> (",
            "Out of memory: Killed process <pid> (",
            "Memory cgroup out of memory: Kill process <pid> (",
            "Memory cgroup out of memory: Killed process <pid> (",
        ],
        "process that the kernel killed for lack of memory",
    ),
    row(
        "hung_task",
        (Warning, Process),
        Kernel,
        &["INFO: task *:<pid> blocked for more than "],
        "process that was blocked in the kernel for minutes",
    ),
    row("process_crash", (Note, Process), Kernel, &["*[<pid>]: segfault at "], "process that crashed"),
];
