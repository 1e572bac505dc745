//! Binding of NVML, loaded at run time. Layouts and numbers are those of `nvml.h` (PyPI `nvidia-nvml-dev` 13.5.37); the
//! structures are older than all drivers in use, and versioned ones say their size.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// `nvmlDevice_t`.
pub type Device = *mut c_void;

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldValue {
    pub field: c_uint,
    /// Link, for fields of NVLinks.
    pub scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_int,
    /// `nvmlReturn_t` of this field.
    pub status: c_int,
    /// `nvmlValue_t`, a union.
    value: u64,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PciInfo {
    legacy: [c_char; 16],
    pub domain: c_uint,
    pub bus: c_uint,
    pub device: c_uint,
    ids: c_uint,
    subsystem: c_uint,
    text: [c_char; 32],
}

/// `nvmlGpuFabricInfo_v3_t`, which version 2 is the start of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FabricInfo {
    pub version: c_uint,
    pub cluster: [u8; 16],
    pub status: c_int,
    pub clique: c_uint,
    pub state: u8,
    pub health_mask: c_uint,
    pub health_summary: u8,
}

/// `NVML_STRUCT_VERSION(GpuFabricInfo, 3)` and `2`: size and version.
pub const FABRIC_VERSIONS: [c_uint; 2] = [40 | 3 << 24, 36 | 2 << 24];

const _: () = {
    assert!(size_of::<FieldValue>() == 40 && offset_of!(FieldValue, scope) == 4);
    assert!(offset_of!(FieldValue, kind) == 24 && offset_of!(FieldValue, status) == 28);
    assert!(offset_of!(FieldValue, value) == 32);
    assert!(size_of::<PciInfo>() == 68 && offset_of!(PciInfo, domain) == 16 && offset_of!(PciInfo, device) == 24);
    assert!(size_of::<FabricInfo>() == 40 && offset_of!(FabricInfo, cluster) == 4);
    assert!(offset_of!(FabricInfo, status) == 20 && offset_of!(FabricInfo, clique) == 24);
    assert!(offset_of!(FabricInfo, state) == 28 && offset_of!(FabricInfo, health_mask) == 32);
    assert!(offset_of!(FabricInfo, health_summary) == 36);
    assert!(FABRIC_VERSIONS[0] == 0x0300_0028 && FABRIC_VERSIONS[1] == 0x0200_0024);
};

impl FieldValue {
    /// A request for a field of a link.
    pub fn of(field: c_uint, scope: c_uint) -> Self {
        Self { field, scope, ..Self::default() }
    }

    /// The value, if the call gave one; `None` for negative values, which no field in use has.
    pub fn number(&self) -> Option<u64> {
        let [a, b, c, d, ..] = self.value.to_ne_bytes();
        match (self.status, self.kind) {
            (0, 1) => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            (0, 2 | 3) => Some(self.value),
            (0, 4) => u64::try_from(self.value.cast_signed()).ok(),
            (0, 5) => u64::try_from(i32::from_ne_bytes([a, b, c, d])).ok(),
            (0, 6) => Some(u16::from_ne_bytes([a, b]).into()),
            _ => None,
        }
    }
}

type TextCall = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;

/// The library's functions. Loaded once and never unloaded.
pub struct Functions {
    pub init: unsafe extern "C" fn() -> c_int,
    pub shutdown: unsafe extern "C" fn() -> c_int,
    pub count: unsafe extern "C" fn(*mut c_uint) -> c_int,
    pub handle: unsafe extern "C" fn(c_uint, *mut Device) -> c_int,
    pub pci_info: unsafe extern "C" fn(Device, *mut PciInfo) -> c_int,
    pub driver_version: Option<unsafe extern "C" fn(*mut c_char, c_uint) -> c_int>,
    pub name: Option<TextCall>,
    pub uuid: Option<TextCall>,
    pub field_values: Option<unsafe extern "C" fn(Device, c_int, *mut FieldValue) -> c_int>,
    pub fabric_info: Option<unsafe extern "C" fn(Device, *mut FabricInfo) -> c_int>,
}

/// The functions of the library at `path`, which may be a bare file name that the loader searches for.
///
/// # Errors
/// A text if it cannot be loaded, or lacks a function that every driver since 2013 has.
pub fn functions(path: &Path) -> Result<&'static Functions, String> {
    static LOADED: Mutex<BTreeMap<PathBuf, &'static Functions>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(functions) = loaded.get(path) {
        return Ok(functions);
    }
    let functions: &'static Functions = Box::leak(Box::new(load(path).map_err(|error| error.to_string())?));
    loaded.insert(path.to_owned(), functions);
    Ok(functions)
}

fn load(path: &Path) -> Result<Functions, libloading::Error> {
    // SAFETY: NVML's initializers only set up the library's own state.
    let library = unsafe { libloading::os::unix::Library::new(path) }?;
    // SAFETY: name and type of each function are those of the header; `.so.1` promises that ABI.
    let functions = unsafe {
        Functions {
            init: *library.get(b"nvmlInit_v2\0")?,
            shutdown: *library.get(b"nvmlShutdown\0")?,
            count: *library.get(b"nvmlDeviceGetCount_v2\0")?,
            handle: *library.get(b"nvmlDeviceGetHandleByIndex_v2\0")?,
            pci_info: *library.get(b"nvmlDeviceGetPciInfo_v3\0")?,
            driver_version: library.get(b"nvmlSystemGetDriverVersion\0").ok().map(|f| *f),
            name: library.get(b"nvmlDeviceGetName\0").ok().map(|f| *f),
            uuid: library.get(b"nvmlDeviceGetUUID\0").ok().map(|f| *f),
            field_values: library.get(b"nvmlDeviceGetFieldValues\0").ok().map(|f| *f),
            fabric_info: library.get(b"nvmlDeviceGetGpuFabricInfoV\0").ok().map(|f| *f),
        }
    };
    // Never unloaded: the function pointers above live as long as the process.
    std::mem::forget(library);
    Ok(functions)
}
