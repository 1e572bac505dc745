//! Messages of NVIDIA GPUs and NVSwitches: <https://docs.nvidia.com/deploy/xid-errors> lists the codes.

use super::LogSeverity::{Error, Fatal, Note, Warning};
use super::LogSubject::{Gpu, Nvlink};
use super::Printer::Kernel;
use super::{LogClass, row};

/// An Xid, with the code that says what it is.
const XID: &[&str] = &["NVRM: Xid (PCI:<pci>): <code>,", "NVRM: Xid (<pci>): <code>,"];

pub(super) const CLASSES: &[LogClass] = &[
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
];
