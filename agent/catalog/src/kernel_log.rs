//! Messages of the kernel log that name a fault, one row per class: who prints them, how they read, how severe they are.
//!
//! The agent counts records that match (`fabric_kernel_log_events_total`), the collector explains incidents with them, and the
//! table of `docs/kernel-log.md` is made of the same rows. The first row that matches a record counts it, so finer rows stand
//! before coarser ones.
//!
//! A text is matched from the first character of the message, without what the kernel puts before it (`driver address name:`,
//! and `function:line:(pid n):` of mlx5). What follows its end is not looked at. Placeholders:
//!
//! | placeholder | matches |
//! |---|---|
//! | `*` | any characters, as few as possible |
//! | `<n>` | a decimal number |
//! | `<code>` | a decimal number, or a hexadecimal one after `0x`; becomes the label `code` |
//! | `<pci>` | a PCI address; without domain it is of domain 0, without function of function 0 |
//! | `<netdev>` | the name of a network interface |
//! | `<pid>` | a process number, by which the job is found |

/// How severe the messages of a class are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogSeverity {
    /// Normal on some hosts, or a consequence of something else.
    Note,
    /// Something is wrong, and may pass.
    Warning,
    /// A device lost work, or will.
    Error,
    /// Jobs on the device die: it is of no use until it is reset, by its driver or by people, or replaced.
    Fatal,
}

impl LogSeverity {
    /// Value of the label `severity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }
}

/// Part of a host that the messages of a class are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSubject {
    /// An adapter: its firmware, hardware or driver.
    Adapter,
    /// A link of the fabric, its cable and modules.
    Link,
    /// The PCIe path of a device.
    Pcie,
    /// A GPU.
    Gpu,
    /// NVLink and its switches.
    Nvlink,
    /// Processors and memory of the host.
    Host,
    /// A process.
    Process,
}

/// Source of a message, which the kernel writes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printer {
    /// One of these drivers or buses, about a device.
    Driver(&'static [&'static str]),
    /// Any driver, about a PCI device.
    AnyDriver,
    /// The message has no such prefix.
    Kernel,
}

/// A class of messages.
#[derive(Debug)]
pub struct LogClass {
    /// Value of the label `class`.
    pub name: &'static str,
    /// Severity of all messages of the class.
    pub severity: LogSeverity,
    /// What they are about.
    pub subject: LogSubject,
    /// Who prints them.
    pub printer: Printer,
    /// Texts, any of which matches.
    pub texts: &'static [&'static str],
    /// Codes that belong to the class; any if empty. In ranges, both ends included.
    pub codes: &'static [(u32, u32)],
    /// The message is normal while a host boots, and counts only later.
    pub normal_at_boot: bool,
    /// What happened, as a noun phrase.
    pub meaning: &'static str,
}

use LogSeverity::{Error, Fatal, Note, Warning};
use LogSubject::{Adapter, Gpu, Host, Link, Nvlink, Pcie, Process};
use Printer::{AnyDriver, Driver, Kernel};

const fn row(
    name: &'static str,
    (severity, subject): (LogSeverity, LogSubject),
    printer: Printer,
    texts: &'static [&'static str],
    meaning: &'static str,
) -> LogClass {
    LogClass { name, severity, subject, printer, texts, codes: &[], normal_at_boot: false, meaning }
}

impl LogClass {
    const fn of_codes(self, codes: &'static [(u32, u32)]) -> Self {
        Self { codes, ..self }
    }

    const fn after_boot(self) -> Self {
        Self { normal_at_boot: true, ..self }
    }

    /// The class with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LOG_CLASSES.iter().find(|class| class.name == name)
    }
}

const MLX5: Printer = Driver(&["mlx5_core"]);
const BNXT: Printer = Driver(&["bnxt_en", "bnxt_re", "infiniband"]);
const IONIC: Printer = Driver(&["ionic", "ionic_rdma", "infiniband"]);
const INTEL: Printer = Driver(&["ice", "i40e", "idpf", "irdma", "infiniband"]);
const EFA: Printer = Driver(&["efa", "erdma", "infiniband"]);
/// Drivers of adapters whose loss of a link matters to the fabric.
const FABRIC: Printer = Driver(&["mlx5_core", "mlx4_en", "bnxt_en", "ionic", "ice", "mana", "cxgb4", "qede", "hns3"]);
/// An Xid, with the code that says what it is.
const XID: &[&str] = &["NVRM: Xid (PCI:<pci>): <code>,", "NVRM: Xid (<pci>): <code>,"];

/// All classes.
pub static LOG_CLASSES: &[LogClass] = &[
    // NVIDIA ConnectX and BlueField.
    row(
        "mlx5_health_lost",
        (Fatal, Adapter),
        MLX5,
        &[
            "device's health compromised - reached miss count",
            "FW is unable to respond to initialization segment reads",
        ],
        "lost heartbeat of the adapter's firmware",
    ),
    row(
        "mlx5_fatal_error",
        (Fatal, Adapter),
        MLX5,
        &[
            "Fatal error <code> detected",
            "PCI slot is unavailable",
            "health recovery flow aborted",
            "health recovery failed",
        ],
        "fatal error of the adapter, or a recovery from one that failed",
    ),
    row(
        "mlx5_hardware_error",
        (Fatal, Adapter),
        MLX5,
        &["synd <code>:"],
        "unrecoverable hardware error that the adapter reports",
    )
    .of_codes(&[(7, 8), (11, 11)]),
    row(
        "nic_overheated",
        (Warning, Adapter),
        Driver(&["mlx5_core", "bnxt_en"]),
        &["synd 0x10:", "High temperature on", "Chip temperature * above", "Chip temperature (*) is above"],
        "adapter that is too hot",
    ),
    row("mlx5_health_report", (Error, Adapter), MLX5, &["synd <code>:"], "health report of the adapter's firmware")
        .of_codes(&[(1, 255)]),
    row(
        "mlx5_command_timeout",
        (Fatal, Adapter),
        MLX5,
        &["*(<code>) timeout. Will cause a leak of a command resource", "cmd[<n>]: *(<code>) No done completion"],
        "command that the adapter's firmware did not answer",
    ),
    row(
        "mlx5_access_refused",
        (Note, Adapter),
        MLX5,
        &["ACCESS_REG(<code>) op_mod(*) failed"],
        "register that a restricted function may not read; repeats each time somebody reads its counters",
    ),
    row(
        "slot_power",
        (Error, Pcie),
        MLX5,
        &["Detected insufficient power on the PCIe slot (<n>W)"],
        "PCIe slot that gives the adapter too little power",
    ),
    row(
        "module_error",
        (Error, Link),
        MLX5,
        &["Port module event[error]: module", "Port module event: module <n>, Cable error"],
        "transceiver or cable that the adapter refuses",
    ),
    row(
        "module_unplugged",
        (Warning, Link),
        MLX5,
        &["Port module event: module <n>, Cable unplugged"],
        "transceiver or cable that was pulled",
    )
    .after_boot(),
    row(
        "mlx5_not_started",
        (Error, Adapter),
        MLX5,
        &["* failed with error code -<n>", "enable hca failed", "Firmware over <n> MS in"],
        "adapter whose driver did not start",
    ),
    row(
        "mlx5_error_completion",
        (Warning, Adapter),
        Driver(&["mlx5_core", "infiniband"]),
        &["Error cqe on cqn", "dump error cqe"],
        "completion with an error",
    ),
    row(
        "mlx4_fault",
        (Fatal, Adapter),
        Driver(&["mlx4_core"]),
        &["Internal error detected", "command <code> timed out"],
        "internal error of the adapter, or a command that it did not answer",
    ),
    // Broadcom.
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
    // AMD Pensando.
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
    // Intel.
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
    // AWS and Alibaba.
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
    // All adapters.
    row(
        "transmit_timeout",
        (Error, Adapter),
        AnyDriver,
        &[
            "TX timeout detected",
            "TX timeout on queue",
            "tx_timeout: VSI_num",
            "NETDEV WATCHDOG: * transmit queue <n> timed out",
        ],
        "send queue of an interface that is stuck",
    ),
    row(
        "transmit_timeout",
        (Error, Adapter),
        Kernel,
        &["NETDEV WATCHDOG: <netdev> (*): transmit queue <n> timed out", "<netdev>: transmit timeout: latency"],
        "send queue of an interface that is stuck",
    ),
    row(
        "link_lost",
        (Note, Link),
        FABRIC,
        &[
            "Link down",
            "Link Down",
            "NIC Link is Down",
            "* NIC Link is Down",
            "Port: <n> Link DOWN",
            "* Port: <n> Link DOWN",
        ],
        "link that went down",
    )
    .after_boot(),
    // PCIe.
    row(
        "pcie_fatal",
        (Fatal, Pcie),
        AnyDriver,
        &[
            "PCIe Bus Error: severity=Uncorrected (Fatal)",
            "PCIe Bus Error: severity=Uncorrectable (Fatal)",
            "PCIe Bus Error: severity=Fatal",
            "AER: PCIe Bus Error: severity=Uncorrected (Fatal)",
            "AER: PCIe Bus Error: severity=Uncorrectable (Fatal)",
            "AER: PCIe Bus Error: severity=Fatal",
        ],
        "fatal PCIe error (AER)",
    ),
    row(
        "pcie_uncorrected",
        (Error, Pcie),
        AnyDriver,
        &["PCIe Bus Error: severity=Uncorrect", "AER: PCIe Bus Error: severity=Uncorrect"],
        "PCIe error (AER) that was not corrected",
    ),
    row(
        "pcie_not_recovered",
        (Error, Pcie),
        AnyDriver,
        &[
            "AER: device recovery failed",
            "device recovery failed",
            "AER: can't recover",
            "can't recover (no error_detected",
        ],
        "PCIe error (AER) that a driver could not recover from",
    ),
    row(
        "pcie_corrected",
        (Note, Pcie),
        AnyDriver,
        &["PCIe Bus Error: severity=Correct", "AER: PCIe Bus Error: severity=Correct"],
        "PCIe error (AER) that was corrected",
    ),
    row(
        "pcie_device_lost",
        (Fatal, Pcie),
        AnyDriver,
        &["Unable to change power state from * device inaccessible", "not ready * giving up"],
        "PCI device that cannot be reached any more",
    ),
    row(
        "pcie_link_lost",
        (Error, Pcie),
        Driver(&["pcieport"]),
        &["pciehp: Slot(*): Link Down", "DPC: containment event"],
        "PCIe link that went down below this port",
    ),
    row(
        "pcie_bandwidth",
        (Note, Pcie),
        AnyDriver,
        &["* available PCIe bandwidth, limited by * link at"],
        "device whose PCIe path is slower than the device",
    ),
    row(
        "iommu_fault",
        (Error, Pcie),
        AnyDriver,
        &["AMD-Vi: Event logged [IO_PAGE_FAULT"],
        "memory access that the IOMMU refused",
    ),
    row(
        "iommu_fault",
        (Error, Pcie),
        Kernel,
        &[
            "DMAR: [*] Request device [<pci>]",
            "DMAR: [*] Request device <pci>",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=<pci>",
        ],
        "memory access that the IOMMU refused",
    ),
    // NVIDIA GPUs: https://docs.nvidia.com/deploy/xid-errors lists the codes.
    row("gpu_lost", (Fatal, Gpu), Kernel, XID, "GPU that fell off the bus").of_codes(&[(79, 79)]),
    row(
        "gpu_lost",
        (Fatal, Gpu),
        Kernel,
        &[
            "NVRM: *GPU <pci>*fallen off the bus",
            "NVRM: *GPU at PCI:<pci>*fallen off the bus",
            "NVRM: *fallen off the bus",
        ],
        "GPU that fell off the bus",
    ),
    row("gpu_firmware", (Error, Gpu), Kernel, XID, "GPU whose firmware does not answer").of_codes(&[
        (61, 62),
        (110, 110),
        (119, 120),
        (143, 143),
    ]),
    row(
        "gpu_firmware",
        (Error, Gpu),
        Kernel,
        &["NVRM: Rate limiting GSP RPC error prints for GPU at PCI:<pci>"],
        "GPU whose firmware does not answer",
    ),
    row("gpu_memory", (Error, Gpu), Kernel, XID, "memory error of a GPU that was not corrected").of_codes(&[
        (48, 48),
        (64, 64),
        (94, 95),
        (140, 140),
        (160, 161),
        (171, 172),
    ]),
    row(
        "gpu_memory_remapped",
        (Warning, Gpu),
        Kernel,
        XID,
        "GPU memory that wears: a row was remapped, or many errors were corrected",
    )
    .of_codes(&[(63, 63), (92, 92)]),
    row(
        "nvlink_nonfatal",
        (Warning, Nvlink),
        Kernel,
        &["NVRM: Xid (PCI:<pci>): <code>, * Nonfatal "],
        "errors of an NVLink",
    )
    .of_codes(&[(144, 150)]),
    row("nvlink_error", (Error, Nvlink), Kernel, XID, "NVLink that failed").of_codes(&[
        (74, 74),
        (137, 137),
        (144, 150),
    ]),
    row("gpu_program", (Note, Gpu), Kernel, XID, "GPU error that a program causes as a rule").of_codes(&[
        (13, 13),
        (31, 31),
        (43, 43),
        (45, 45),
        (69, 69),
    ]),
    row("gpu_xid", (Warning, Gpu), Kernel, XID, "error of a GPU (Xid)"),
    row(
        "gpu_not_started",
        (Error, Gpu),
        Kernel,
        &["NVRM: GPU <pci>: RmInitAdapter failed", "NVRM: RmInitAdapter failed", "NVRM: *[NV_ERR_RESET_REQUIRED]"],
        "GPU that does not start, or needs a reset",
    ),
    row(
        "gpu_object_missing",
        (Note, Gpu),
        Kernel,
        &["NVRM: *[NV_ERR_OBJECT_NOT_FOUND]"],
        "failed assertion of the GPU's driver",
    ),
    row(
        "nvswitch_fatal",
        (Fatal, Nvlink),
        Kernel,
        &["nvidia-nvswitch*SXid (PCI:<pci>): <code>, Fatal"],
        "fatal error of an NVSwitch (SXid)",
    ),
    row(
        "nvswitch_error",
        (Warning, Nvlink),
        Kernel,
        &["nvidia-nvswitch*SXid (PCI:<pci>): <code>,"],
        "error of an NVSwitch (SXid)",
    ),
    row(
        "gpudirect_lost",
        (Warning, Gpu),
        Kernel,
        &["nvidia-peermem *ERROR detected invalid context", "nvidia_peermem *ERROR detected invalid context"],
        "registration of GPU memory for RDMA that lost its GPU",
    ),
    // AMD GPUs.
    row(
        "gpu_lost",
        (Fatal, Gpu),
        Driver(&["amdgpu"]),
        &["amdgpu: device lost from bus", "device lost from bus"],
        "GPU that fell off the bus",
    ),
    row(
        "gpu_reset",
        (Error, Gpu),
        Driver(&["amdgpu"]),
        &["amdgpu: GPU reset begin", "GPU reset begin", "amdgpu: ring * timeout", "ring * timeout"],
        "GPU that hangs and is reset",
    ),
    row("gpu_reset", (Error, Gpu), Kernel, &["[drm:amdgpu_job_timedout*ring * timeout"], "GPU that hangs and is reset"),
    row(
        "gpu_memory",
        (Error, Gpu),
        Driver(&["amdgpu"]),
        &["*uncorrectable hardware errors detected"],
        "memory error of a GPU that was not corrected",
    ),
    // The host.
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

/// Longest interval after the start of the kernel in which classes that are normal at boot do not count, seconds.
pub const BOOT_SECONDS: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_class_agree() {
        for class in LOG_CLASSES {
            let first = LogClass::by_name(class.name).unwrap();
            let of = |class: &LogClass| (class.severity, class.subject, class.meaning);
            assert_eq!(of(class), of(first), "{}: rows of one class differ", class.name);
            assert!(!class.texts.is_empty() && class.texts.iter().all(|text| !text.is_empty()), "{}", class.name);
            let has_code = class.texts.iter().all(|text| text.contains("<code>"));
            assert!(class.codes.is_empty() || has_code, "{}: codes without <code>", class.name);
        }
    }
}
