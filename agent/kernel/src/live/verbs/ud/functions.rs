//! Functions of libibverbs that UD queue pairs need, found at run time.

use super::super::ffi::RawContext;
use super::abi::{Ah, AhAttr, Channel, Cq, Mr, Pd, Qp, QpAttr, QpInitAttr};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The functions. Loaded once and never unloaded: providers keep state in the library.
pub struct Functions {
    pub alloc_pd: unsafe extern "C" fn(*mut RawContext) -> *mut Pd,
    pub dealloc_pd: unsafe extern "C" fn(*mut Pd) -> c_int,
    pub reg_mr: unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr,
    pub dereg_mr: unsafe extern "C" fn(*mut Mr) -> c_int,
    pub create_comp_channel: unsafe extern "C" fn(*mut RawContext) -> *mut Channel,
    pub destroy_comp_channel: unsafe extern "C" fn(*mut Channel) -> c_int,
    pub create_cq: unsafe extern "C" fn(*mut RawContext, c_int, *mut c_void, *mut Channel, c_int) -> *mut Cq,
    pub destroy_cq: unsafe extern "C" fn(*mut Cq) -> c_int,
    pub get_cq_event: unsafe extern "C" fn(*mut Channel, *mut *mut Cq, *mut *mut c_void) -> c_int,
    pub ack_cq_events: unsafe extern "C" fn(*mut Cq, c_uint),
    pub create_qp: unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp,
    pub modify_qp: unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int,
    pub destroy_qp: unsafe extern "C" fn(*mut Qp) -> c_int,
    pub create_ah: unsafe extern "C" fn(*mut Pd, *mut AhAttr) -> *mut Ah,
    pub destroy_ah: unsafe extern "C" fn(*mut Ah) -> c_int,
}

/// The functions, or why the library cannot be used.
pub fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| load().map_err(|error| error.to_string())).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Functions, libloading::Error> {
    // SAFETY: libibverbs' initializers only set up the library's own state.
    let library = unsafe { libloading::os::unix::Library::new("libibverbs.so.1") }?;
    // SAFETY: name and type of each function are those of the header; `.so.1` promises that ABI.
    let functions = unsafe {
        Functions {
            alloc_pd: *library.get(b"ibv_alloc_pd\0")?,
            dealloc_pd: *library.get(b"ibv_dealloc_pd\0")?,
            reg_mr: *library.get(b"ibv_reg_mr\0")?,
            dereg_mr: *library.get(b"ibv_dereg_mr\0")?,
            create_comp_channel: *library.get(b"ibv_create_comp_channel\0")?,
            destroy_comp_channel: *library.get(b"ibv_destroy_comp_channel\0")?,
            create_cq: *library.get(b"ibv_create_cq\0")?,
            destroy_cq: *library.get(b"ibv_destroy_cq\0")?,
            get_cq_event: *library.get(b"ibv_get_cq_event\0")?,
            ack_cq_events: *library.get(b"ibv_ack_cq_events\0")?,
            create_qp: *library.get(b"ibv_create_qp\0")?,
            modify_qp: *library.get(b"ibv_modify_qp\0")?,
            destroy_qp: *library.get(b"ibv_destroy_qp\0")?,
            create_ah: *library.get(b"ibv_create_ah\0")?,
            destroy_ah: *library.get(b"ibv_destroy_ah\0")?,
        }
    };
    // Never unloaded: the function pointers above live as long as the process.
    std::mem::forget(library);
    Ok(functions)
}
