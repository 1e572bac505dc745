//! Messages of AMD GPUs.

use super::LogSeverity::{Error, Fatal};
use super::LogSubject::Gpu;
use super::Printer::{Driver, Kernel};
use super::{LogClass, row};

pub(super) const CLASSES: &[LogClass] = &[
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
];
