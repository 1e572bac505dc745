//! What NVIDIA's management library (NVML) reports of the GPUs of a host.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All GPUs that the driver shows to this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlReport {
    /// Version of the driver, for instance `550.54.15`.
    pub driver: Option<String>,
    /// GPUs in the order of NVML.
    pub gpus: Vec<NvmlGpu>,
}

/// One GPU. What its generation or its driver does not support is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmlGpu {
    /// PCI address as sysfs has it, for instance `0000:19:00.0`.
    pub pci_address: String,
    /// Product name.
    pub name: Option<String>,
    /// Serial identity of the GPU.
    pub uuid: Option<String>,
    /// The driver has lost the GPU: it fell off the bus, or needs a reset.
    pub is_lost: bool,
    /// NVLinks that the GPU has, by number. A healthy GPU may have links that are wired to nothing.
    pub links: Vec<NvLink>,
    /// Registration with the NVLink fabric of a multi-node system.
    pub fabric: Option<NvLinkDomain>,
    /// Rows of memory that were remapped.
    pub remapped: Option<RemappedRows>,
}

/// One NVLink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLink {
    /// Number on the GPU.
    pub link: u32,
    /// The link is trained; it may sleep.
    pub is_active: bool,
    /// Speed of one direction, bytes per second.
    pub speed: Option<u64>,
    /// Bytes sent and received.
    pub transferred: [Option<u64>; 2],
    /// Errors by cause: `replay`, `recovery`, `crc` up to NVLink 4, others from NVLink 5 on.
    pub errors: BTreeMap<String, u64>,
    /// Bit error ratios: `effective`, `symbol`, `raw`; from NVLink 5 on.
    pub bit_error_ratios: BTreeMap<String, f64>,
}

/// Registration of a GPU with an NVLink domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLinkDomain {
    /// UUID of the domain, in hexadecimal; empty before registration.
    pub cluster: String,
    /// Clique: GPUs that reach each other.
    pub clique: u32,
    /// 1 not started, 2 in progress, 3 completed.
    pub state: u8,
    /// Error of a completed registration; 0 is none.
    pub status: u32,
    /// 1 healthy, 2 unhealthy, 3 limited capacity; `None` if the driver does not say.
    pub health: Option<u8>,
    /// Problems by name: `degraded_bandwidth`, `route_recovery` …
    pub problems: Vec<String>,
}

/// Rows of GPU memory that were remapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemappedRows {
    /// Because of correctable errors.
    pub correctable: u64,
    /// Because of uncorrectable errors.
    pub uncorrectable: u64,
    /// A remapping waits for a reset of the GPU.
    pub is_pending: bool,
    /// A remapping failed.
    pub has_failed: bool,
}
