//! Messages of `mlx5_core`: NVIDIA ConnectX and BlueField.

use super::LogSeverity::{Error, Fatal, Note, Warning};
use super::LogSubject::{Adapter, Link, Pcie};
use super::Printer::Driver;
use super::{LogClass, Printer, row};

const MLX5: Printer = Driver(&["mlx5_core"]);

pub(super) const CLASSES: &[LogClass] = &[
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
];
