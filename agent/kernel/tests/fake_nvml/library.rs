//! A stand-in for `libnvidia-ml.so.1`, compiled by the tests: `--cfg generation="NAME"` selects what it reports. Layouts are
//! written down by byte offset here, independently of the binding that is tested.
#![allow(unexpected_cfgs, non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const DRIVER_NOT_LOADED: c_int = 9;
const GPU_IS_LOST: c_int = 15;
const VERSION_MISMATCH: c_int = 25;

/// Initializations that were not shut down.
static OPEN: AtomicI32 = AtomicI32::new(0);

/// For the tests: initializations that were not shut down.
#[unsafe(no_mangle)]
pub extern "C" fn fakeOpen() -> c_int {
    OPEN.load(Ordering::SeqCst)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    if cfg!(generation = "no_driver") {
        return DRIVER_NOT_LOADED;
    }
    if cfg!(generation = "hangs") {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
    OPEN.fetch_add(1, Ordering::SeqCst);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    OPEN.fetch_sub(1, Ordering::SeqCst);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    unsafe { *count = 2 };
    SUCCESS
}

/// A handle is the index of the GPU plus one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut *mut c_void) -> c_int {
    unsafe { *device = (index as usize + 1) as *mut c_void };
    SUCCESS
}

fn index(device: *mut c_void) -> usize {
    device as usize - 1
}

#[cfg(not(generation = "ancient"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: *mut c_void, info: *mut u8) -> c_int {
    let bus: u32 = [0x19, 0x9b][index(device)];
    unsafe {
        info.add(16).cast::<u32>().write_unaligned(0);
        info.add(20).cast::<u32>().write_unaligned(bus);
        info.add(24).cast::<u32>().write_unaligned(0);
        // The last byte of the structure.
        info.add(67).write(0);
    }
    SUCCESS
}

unsafe fn put(text: &str, buffer: *mut c_char, size: c_uint) -> c_int {
    if text.len() >= size as usize {
        return 7;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
        buffer.add(text.len()).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(buffer: *mut c_char, size: c_uint) -> c_int {
    unsafe { put("570.86.15", buffer, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(_: *mut c_void, buffer: *mut c_char, size: c_uint) -> c_int {
    let name = if cfg!(generation = "blackwell") { "NVIDIA B200" } else { "NVIDIA H100 80GB HBM3" };
    unsafe { put(name, buffer, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: *mut c_void, buffer: *mut c_char, size: c_uint) -> c_int {
    if lost(device) {
        return GPU_IS_LOST;
    }
    unsafe { put(&format!("GPU-{}", index(device)), buffer, size) }
}

fn lost(device: *mut c_void) -> bool {
    cfg!(generation = "lost") && index(device) == 1
}

/// Type and value of a field: 1 is an unsigned int, 3 an unsigned long long.
fn field(id: u32, link: u32) -> Option<(c_int, u64)> {
    if cfg!(generation = "pcie_board") {
        return None;
    }
    let links = 18;
    // Link 2 of the older generations is not wired.
    let is_active = link < links && (link != 2 || cfg!(generation = "blackwell"));
    let of_link = |value: (c_int, u64)| is_active.then_some(value);
    match id {
        142..=145 => Some((1, u64::from(id == 142))),
        165 => (link < links).then_some((1, u64::from(is_active))),
        164 => of_link((1, if cfg!(generation = "blackwell") { 53_125 } else { 26_562 })),
        138 | 139 if !cfg!(generation = "blackwell") => of_link((3, u64::from(id - 137) * 10)),
        161..=163 if !cfg!(generation = "blackwell") => of_link((3, u64::from(link))),
        202 | 204 if cfg!(generation = "blackwell") => of_link((3, 1 << 40)),
        206..=222 | 293 if cfg!(generation = "blackwell") => of_link((3, if matches!(id, 220 | 222 | 293) { 0x50f } else { 7 })),
        _ => None,
    }
}

#[cfg(not(generation = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(device: *mut c_void, count: c_int, values: *mut u8) -> c_int {
    if lost(device) {
        return GPU_IS_LOST;
    }
    for at in 0..count as usize {
        unsafe {
            let value = values.add(at * 40);
            let (id, link) = (value.cast::<u32>().read(), value.add(4).cast::<u32>().read());
            match field(id, link) {
                Some((kind, number)) => {
                    value.add(24).cast::<c_int>().write(kind);
                    value.add(28).cast::<c_int>().write(SUCCESS);
                    // A value of 32 bits leaves what was there in the rest.
                    if kind == 1 {
                        value.add(32).cast::<u64>().write(u64::MAX);
                        value.add(32).cast::<u32>().write(number as u32);
                    } else {
                        value.add(32).cast::<u64>().write(number);
                    }
                }
                None => value.add(28).cast::<c_int>().write(NOT_SUPPORTED),
            }
        }
    }
    SUCCESS
}

/// Knows version 3 as Blackwell, version 2 only as Hopper.
#[cfg(not(generation = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(_: *mut c_void, info: *mut u8) -> c_int {
    let version = unsafe { info.cast::<u32>().read() };
    let known = if cfg!(generation = "blackwell") { 0x0300_0028 } else { 0x0200_0024 };
    if version != known {
        return if cfg!(generation = "blackwell") { INVALID_ARGUMENT } else { VERSION_MISMATCH };
    }
    unsafe {
        for byte in 0..16 {
            info.add(4 + byte).write(0xab);
        }
        info.add(20).cast::<c_int>().write(0);
        info.add(24).cast::<u32>().write(5);
        info.add(28).write(if cfg!(generation = "pcie_board") { 0 } else { 3 });
        // Bandwidth degraded, routes healthy, no partition.
        info.add(32).cast::<u32>().write(0b0100_10_10_10_01);
        if cfg!(generation = "blackwell") {
            info.add(36).write(2);
        }
    }
    SUCCESS
}
