//! GPUs by NVIDIA's management library, opened at run time.
//!
//! The library is initialized for each report and shut down after it: an open GPU can be neither reset nor have its driver
//! unloaded. A call may take seconds where the driver has to start the GPUs for it, and may never return if a GPU hangs.

mod ffi;
mod links;

use crate::CallError;
use crate::nvml::{NvLinkDomain, NvmlGpu, NvmlReport, RemappedRows};
use ffi::{Device, FABRIC_VERSIONS, FabricInfo, FieldValue, Functions, PciInfo};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;
use std::path::Path;

/// Name of the library, which each driver installs.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Stack of the thread that calls the library, bytes.
const STACK: usize = 8 << 20;
/// Most GPUs that are read.
const MOST_GPUS: c_uint = 32;
/// Longest text, with its NUL.
const TEXT: usize = 96;

/// Values of `nvmlReturn_t`.
const SUCCESS: c_int = 0;
const DRIVER_NOT_LOADED: c_int = 9;
const GPU_IS_LOST: c_int = 15;
const RESET_REQUIRED: c_int = 16;
const VERSION_MISMATCH: c_int = 18;

/// Fields of remapped rows: correctable, uncorrectable, pending, failed.
const REMAPPED: [c_uint; 4] = [142, 143, 144, 145];

/// Problems in the health mask of a fabric: name, first bit, width, and the value that says so.
const PROBLEMS: &[(&str, u32, u32, u32)] = &[
    ("degraded_bandwidth", 0, 2, 1),
    ("route_recovery", 2, 2, 1),
    ("route_unhealthy", 4, 2, 1),
    ("access_timeout", 6, 2, 1),
    ("no_partition_assigned", 12, 2, 2),
    ("fabric_manager_disconnected", 14, 2, 2),
];
/// Bits of the health mask that say what is configured wrongly, and the names of their values above 1.
const MISCONFIGURATION: (u32, u32) = (8, 0xf);
const MISCONFIGURED: &[(u32, &str)] = &[
    (2, "wrong_system_guid"),
    (3, "wrong_chassis_serial"),
    (4, "no_partition"),
    (5, "too_few_nvlinks"),
    (6, "incompatible_firmware"),
    (7, "invalid_location"),
    (8, "invalid_gpu_state"),
];

/// Report of all GPUs by the installed library. Runs on a thread with the stack that a program has: the caller's may be
/// smaller than the library expects.
pub fn report() -> Result<NvmlReport, CallError> {
    let what = "GPUs by NVML";
    let thread = std::thread::Builder::new().name("nvml-call".into()).stack_size(STACK);
    let started = thread.spawn(|| report_by(Path::new(LIBRARY)));
    let started = started.map_err(|source| CallError::Failed { what: what.into(), source })?;
    let failed = |_| Err(CallError::Failed { what: what.into(), source: io::Error::other("its thread panicked") });
    started.join().unwrap_or_else(failed)
}

/// Report of all GPUs by the library at `path`.
///
/// # Errors
/// [`CallError`]: `Unsupported` without the library or its driver.
pub fn report_by(path: &Path) -> Result<NvmlReport, CallError> {
    let unsupported = |why: String| CallError::Unsupported { what: "GPUs by NVML".into(), why };
    let functions = ffi::functions(path).map_err(unsupported)?;
    // SAFETY: no arguments; each initialization is ended by the session's drop.
    match unsafe { (functions.init)() } {
        SUCCESS => {}
        DRIVER_NOT_LOADED => return Err(unsupported("the driver is not loaded".into())),
        VERSION_MISMATCH => {
            return Err(unsupported(
                "library and driver differ; restart the agent after an update of the driver".into(),
            ));
        }
        other => return Err(failed("initialize NVML", other)),
    }
    let session = Session(functions);
    let driver = functions.driver_version.and_then(|call| {
        // SAFETY: the buffer has the size that is passed.
        text(|buffer, size| unsafe { call(buffer, size) })
    });
    let mut count = 0;
    // SAFETY: the library fills `count`.
    let status = unsafe { (functions.count)(&raw mut count) };
    if status != SUCCESS {
        return Err(failed("count GPUs by NVML", status));
    }
    Ok(NvmlReport { driver, gpus: (0..count.min(MOST_GPUS)).filter_map(|index| session.gpu(index)).collect() })
}

fn failed(what: &str, status: c_int) -> CallError {
    CallError::Failed { what: what.into(), source: io::Error::other(format!("NVML error {status}")) }
}

/// An initialized library.
struct Session(&'static Functions);

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the library was initialized once for this session. An error cannot be handled.
        unsafe { (self.0.shutdown)() };
    }
}

impl Session {
    /// GPU of that index; `None` if the driver gives no address of it, so that nobody could say which one it is.
    fn gpu(&self, index: c_uint) -> Option<NvmlGpu> {
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: the library fills `device`.
        let status = unsafe { (self.0.handle)(index, &raw mut device) };
        if status != SUCCESS {
            return None;
        }
        let mut pci = PciInfo::default();
        // SAFETY: a device of this session; the library fills the structure.
        let status = unsafe { (self.0.pci_info)(device, &raw mut pci) };
        if status != SUCCESS {
            return None;
        }
        let mut gpu = NvmlGpu {
            pci_address: format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device),
            ..NvmlGpu::default()
        };
        // SAFETY: a device of this session; the buffer has the size that is passed.
        gpu.name = self.0.name.and_then(|call| text(|buffer, size| unsafe { call(device, buffer, size) }));
        // SAFETY: as before.
        gpu.uuid = self.0.uuid.and_then(|call| text(|buffer, size| unsafe { call(device, buffer, size) }));
        let mut remapped = REMAPPED.map(|field| FieldValue::of(field, 0));
        let status = self.fields(device, &mut remapped);
        let is_lost = |status| matches!(status, GPU_IS_LOST | RESET_REQUIRED);
        gpu.is_lost = is_lost(status) || remapped.iter().any(|value| is_lost(value.status));
        if gpu.is_lost {
            return Some(gpu);
        }
        gpu.remapped = rows(&remapped);
        gpu.links = links::read(|values| self.fields(device, values));
        gpu.fabric = self.fabric(device);
        Some(gpu)
    }

    /// Fills field values; the status of the call, which says nothing about a single field.
    fn fields(&self, device: Device, values: &mut [FieldValue]) -> c_int {
        const FUNCTION_NOT_FOUND: c_int = 13;
        let Some(call) = self.0.field_values else { return FUNCTION_NOT_FOUND };
        let count = c_int::try_from(values.len()).unwrap_or(0);
        // Of a call that fails as a whole no value may be taken for one.
        values.iter_mut().for_each(|value| value.status = FUNCTION_NOT_FOUND);
        // SAFETY: a device of this session, and as many values as the library is told.
        unsafe { call(device, count, values.as_mut_ptr()) }
    }

    fn fabric(&self, device: Device) -> Option<NvLinkDomain> {
        let call = self.0.fabric_info?;
        let read = |version: c_uint| {
            let mut info = FabricInfo { version, ..FabricInfo::default() };
            // SAFETY: a device of this session; `version` says how much of the structure the library may write.
            (unsafe { call(device, &raw mut info) } == SUCCESS).then_some(info)
        };
        FABRIC_VERSIONS.into_iter().find_map(read).and_then(|info| domain(&info))
    }
}

fn rows(values: &[FieldValue; 4]) -> Option<RemappedRows> {
    let [correctable, uncorrectable, pending, failed] = values.each_ref().map(FieldValue::number);
    let (is_pending, has_failed) = (pending? != 0, failed? != 0);
    Some(RemappedRows { correctable: correctable?, uncorrectable: uncorrectable?, is_pending, has_failed })
}

/// `None` if the GPU is in no NVLink domain.
fn domain(info: &FabricInfo) -> Option<NvLinkDomain> {
    if info.state == 0 {
        return None;
    }
    let bits = |first: u32, mask: u32| info.health_mask >> first & mask;
    let mut problems: Vec<String> = PROBLEMS
        .iter()
        .filter(|(_, first, width, value)| bits(*first, (1 << width) - 1) == *value)
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    let wrong = bits(MISCONFIGURATION.0, MISCONFIGURATION.1);
    problems.extend(MISCONFIGURED.iter().find(|(value, _)| *value == wrong).map(|(_, name)| (*name).to_owned()));
    let is_registered = info.cluster.iter().any(|byte| *byte != 0);
    let hex = || info.cluster.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(NvLinkDomain {
        cluster: if is_registered { hex() } else { String::new() },
        clique: info.clique,
        state: info.state,
        status: info.status.unsigned_abs(),
        health: Some(info.health_summary).filter(|health| (1..=3).contains(health)),
        problems,
    })
}

/// Text that `call` writes; `None` if it fails.
fn text(call: impl FnOnce(*mut c_char, c_uint) -> c_int) -> Option<String> {
    let mut buffer = [0_u8; TEXT];
    if call(buffer.as_mut_ptr().cast(), TEXT as c_uint) != SUCCESS {
        return None;
    }
    let text = CStr::from_bytes_until_nul(&buffer).ok()?.to_str().ok()?.trim();
    (!text.is_empty() && text.chars().all(|c| !c.is_control())).then(|| text.to_owned())
}
