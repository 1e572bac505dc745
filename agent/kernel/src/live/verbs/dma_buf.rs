//! Whether a driver registers memory of other devices by dma-buf, as NCCL finds it out: a registration of no descriptor
//! fails in one of two ways. Nothing is registered.

use super::ffi::{self, RawContext};
use super::install_hint;
use super::ud::{Functions, Pd, functions};
use crate::CallError;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::OnceLock;

type RegDmaBuf = unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut c_void;

/// Answer of the driver of `device`.
pub fn supported(device: &str) -> Result<bool, CallError> {
    let what = format!("memory registration by dma-buf of {device}");
    let unsupported = |why: String| CallError::Unsupported { what: what.clone(), why };
    let functions = functions().map_err(|why| unsupported(install_hint(&why)))?;
    // Libraries before rdma-core 34 lack it; programs that use it cannot run here then.
    let Some(register) = *register() else { return Ok(false) };
    let contexts = ffi::open(|name, _| name == device).map_err(|why| unsupported(install_hint(&why)))?;
    let context = contexts.first().ok_or_else(|| unsupported("cannot open its /dev/infiniband/uverbs*".into()))?;
    let error = attempt(functions, register, context.raw());
    match error.raw_os_error() {
        Some(libc::EBADF) => Ok(true),
        Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => Ok(false),
        _ => Err(CallError::Failed { what, source: error }),
    }
}

/// Error of a registration without a descriptor.
fn attempt(functions: &Functions, register: RegDmaBuf, context: *mut RawContext) -> io::Error {
    // SAFETY: an open context, which the caller keeps.
    let Some(pd) = NonNull::new(unsafe { (functions.alloc_pd)(context) }) else { return io::Error::last_os_error() };
    // SAFETY: the domain exists; the descriptor is invalid, so that nothing is registered.
    let region = unsafe { register(pd.as_ptr(), 0, 0, 0, -1, 0) };
    let error =
        if region.is_null() { io::Error::last_os_error() } else { io::Error::other("registered no descriptor") };
    // SAFETY: the domain exists, and nothing uses it. An error cannot be handled.
    unsafe { (functions.dealloc_pd)(pd.as_ptr()) };
    error
}

fn register() -> &'static Option<RegDmaBuf> {
    static REGISTER: OnceLock<Option<RegDmaBuf>> = OnceLock::new();
    REGISTER.get_or_init(|| {
        // SAFETY: libibverbs' initializers only set up the library's own state.
        let library = unsafe { libloading::os::unix::Library::new("libibverbs.so.1") }.ok()?;
        // SAFETY: name and type are those of the header, since IBVERBS_1.12.
        let function = unsafe { library.get(b"ibv_reg_dmabuf_mr\0") }.ok().map(|function| *function);
        // Never unloaded: the function pointer lives as long as the process.
        std::mem::forget(library);
        function
    })
}
