//! Binding of libibverbs, loaded at run time: devices, ports, events. Queue pairs are in `ud`.
//!
//! Uses seven functions of the library's ABI (`infiniband/verbs.h`, symbol versions `IBVERBS_1.1`) and five structures,
//! whose layout is checked below against the sizes and offsets that a C compiler gives for the header.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// `struct ibv_device`.
#[repr(C)]
pub struct Device {
    ops: [*mut c_void; 2],
    node_type: c_int,
    transport_type: c_int,
    name: [c_char; 64],
    dev_name: [c_char; 64],
    dev_path: [c_char; 256],
    ibdev_path: [c_char; 256],
}

/// `struct ibv_context`.
#[repr(C)]
pub struct RawContext {
    device: *mut Device,
    /// `struct ibv_context_ops`: inline functions of the header call through it.
    pub ops: [*mut c_void; 32],
    cmd_fd: c_int,
    async_fd: c_int,
    num_comp_vectors: c_int,
    mutex: libc::pthread_mutex_t,
    /// All ones if the context is the last member of a `struct verbs_context`.
    abi_compat: usize,
}

/// `struct ibv_port_attr` of newer libraries; older ones leave its last member zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortAttr {
    pub state: u32,
    pub max_mtu: u32,
    /// Codes 1 to 5 for 256 to 4096 bytes.
    pub active_mtu: u32,
    pub gid_tbl_len: i32,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    /// 1 InfiniBand, 2 Ethernet.
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    pub reserved: u16,
    /// Speed from XDR on, which does not fit `active_speed`.
    pub active_speed_ex: u32,
}

#[repr(C)]
struct AsyncEvent {
    /// A pointer to the CQ, QP …, or the port number in its first four bytes.
    element: u64,
    event_type: c_int,
}

type QueryPortEx = unsafe extern "C" fn(*mut RawContext, u8, *mut PortAttr, usize) -> c_int;

/// Before the context in a `struct verbs_context`: the structure's size, and further up its operations. The structure
/// grows at its start, so distances of its members from the context never change.
const SIZE_BEFORE: usize = 8;
const QUERY_PORT_BEFORE: usize = 320;

#[cfg(all(target_pointer_width = "64", target_env = "gnu", target_arch = "x86_64"))]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Device>() == 664 && offset_of!(Device, dev_name) == 88);
    assert!(size_of::<RawContext>() == 328 && offset_of!(RawContext, async_fd) == 268);
    assert!(offset_of!(RawContext, abi_compat) == 320);
    assert!(size_of::<PortAttr>() == 56 && offset_of!(PortAttr, sm_lid) == 36);
    assert!(offset_of!(PortAttr, active_width) == 43 && offset_of!(PortAttr, link_layer) == 46);
    assert!(offset_of!(PortAttr, port_cap_flags2) == 48 && offset_of!(PortAttr, active_speed_ex) == 52);
    assert!(size_of::<AsyncEvent>() == 16 && offset_of!(AsyncEvent, event_type) == 8);
};

/// The library's functions. Loaded once and never unloaded: providers keep state in it.
struct Library {
    get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut Device,
    free_device_list: unsafe extern "C" fn(*mut *mut Device),
    open_device: unsafe extern "C" fn(*mut Device) -> *mut RawContext,
    close_device: unsafe extern "C" fn(*mut RawContext) -> c_int,
    query_port: unsafe extern "C" fn(*mut RawContext, u8, *mut PortAttr) -> c_int,
    get_async_event: unsafe extern "C" fn(*mut RawContext, *mut AsyncEvent) -> c_int,
    ack_async_event: unsafe extern "C" fn(*mut AsyncEvent),
}

fn library() -> Result<&'static Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| load().map_err(|e| e.to_string())).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Library, libloading::Error> {
    // SAFETY: libibverbs' initializers only set up the library's own state.
    let library = unsafe { libloading::os::unix::Library::new("libibverbs.so.1") }?;
    // SAFETY: name and type of each function are those of the header; `.so.1` promises that ABI.
    let functions = unsafe {
        Library {
            get_device_list: *library.get(b"ibv_get_device_list\0")?,
            free_device_list: *library.get(b"ibv_free_device_list\0")?,
            open_device: *library.get(b"ibv_open_device\0")?,
            close_device: *library.get(b"ibv_close_device\0")?,
            query_port: *library.get(b"ibv_query_port\0")?,
            get_async_event: *library.get(b"ibv_get_async_event\0")?,
            ack_async_event: *library.get(b"ibv_ack_async_event\0")?,
        }
    };
    // Never unloaded: the function pointers above live as long as the process.
    std::mem::forget(library);
    Ok(functions)
}

/// Reason why libibverbs cannot be used; `None` if it can.
pub fn unavailable() -> Option<String> {
    library().err()
}

/// Asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// `enum ibv_event_type`.
    pub kind: u32,
    /// Port number, for events about a port.
    pub port: u32,
}

/// Open device.
#[derive(Debug)]
pub struct Context {
    raw: NonNull<RawContext>,
    library: LibraryRef,
    /// RDMA device, such as `mlx5_0`.
    pub device: String,
    /// Character device, such as `uverbs0`.
    pub uverbs: String,
}

#[derive(Clone, Copy)]
struct LibraryRef(&'static Library);

impl std::fmt::Debug for LibraryRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("libibverbs")
    }
}

// SAFETY: libibverbs is thread safe, a context is not bound to the thread that opened it, and only its owner uses it.
unsafe impl Send for Context {}

/// Opens every device for which `wanted(device, uverbs)` is true.
///
/// # Errors
/// A text when libibverbs cannot be loaded. Devices that cannot be opened are left out of the result.
pub fn open(mut wanted: impl FnMut(&str, &str) -> bool) -> Result<Vec<Context>, String> {
    let library = library()?;
    // SAFETY: a null count is allowed; the result is null or a null-terminated array of devices.
    let list = unsafe { (library.get_device_list)(std::ptr::null_mut()) };
    if list.is_null() {
        // ENOSYS: no RDMA in this kernel, so no device.
        return Ok(Vec::new());
    }
    let mut contexts = Vec::new();
    for index in 0.. {
        // SAFETY: `list` is null-terminated and the loop ends there.
        let device = unsafe { *list.add(index) };
        let Some(device) = NonNull::new(device) else { break };
        // SAFETY: devices of the list are valid until it is freed, and their names are NUL-terminated within 64 bytes.
        let (name, uverbs) =
            unsafe { (name(&raw const (*device.as_ptr()).name), name(&raw const (*device.as_ptr()).dev_name)) };
        if !wanted(&name, &uverbs) {
            continue;
        }
        // SAFETY: a valid device of the list; an open context keeps its device beyond the list.
        if let Some(raw) = NonNull::new(unsafe { (library.open_device)(device.as_ptr()) }) {
            contexts.push(Context { raw, library: LibraryRef(library), device: name, uverbs });
        }
    }
    // SAFETY: the list came from get_device_list and is not used after this.
    unsafe { (library.free_device_list)(list) };
    Ok(contexts)
}

/// # Safety
/// `text` points to 64 readable bytes.
unsafe fn name(text: *const [c_char; 64]) -> String {
    // SAFETY: 64 readable bytes, by contract; c_char and u8 have one layout.
    let bytes = unsafe { &*text.cast::<[u8; 64]>() };
    CStr::from_bytes_until_nul(bytes).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Context {
    /// Attributes of a port.
    pub fn query_port(&self, port: u8) -> io::Result<PortAttr> {
        let mut attr = PortAttr::default();
        let raw = self.raw.as_ptr();
        let status = match self.query_port_ex() {
            // SAFETY: an open context; the library writes at most the size it is told.
            Some(query) => unsafe { query(raw, port, &raw mut attr, size_of::<PortAttr>()) },
            // SAFETY: an open context; the library's own (older, shorter) structure is the start of `PortAttr`.
            None => unsafe { (self.library.0.query_port)(raw, port, &raw mut attr) },
        };
        if status == 0 { Ok(attr) } else { Err(io::Error::from_raw_os_error(status.saturating_abs())) }
    }

    /// Operation that takes the size of the caller's structure, unlike the exported function.
    fn query_port_ex(&self) -> Option<QueryPortEx> {
        // SAFETY: the distance and the type are those of the header.
        unsafe { self.extension(QUERY_PORT_BEFORE) }
    }

    /// Operation of the extended context that lies `before` bytes before the context; `None` if the library or the provider
    /// does not have it.
    ///
    /// # Safety
    /// `F` is the type of the function pointer at that distance.
    pub unsafe fn extension<F: Copy>(&self, before: usize) -> Option<F> {
        let raw = self.raw.as_ptr();
        // SAFETY: an open context.
        if unsafe { (*raw).abi_compat } != usize::MAX {
            return None;
        }
        // SAFETY: all ones mean that the context is the last member of a verbs_context, whose `sz` is right before it.
        let size = unsafe { raw.cast::<u8>().sub(SIZE_BEFORE).cast::<usize>().read() };
        if size < before + size_of::<RawContext>() {
            return None;
        }
        // SAFETY: the structure is large enough to have the member; null means not implemented, which `Option` shows.
        unsafe { raw.cast::<u8>().sub(before).cast::<Option<F>>().read() }
    }

    /// The library's structure, valid as long as `self`.
    pub fn raw(&self) -> *mut RawContext {
        self.raw.as_ptr()
    }

    /// Descriptor to poll for events.
    pub fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: an open context, whose descriptor stays open as long as the context, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).async_fd) }
    }

    /// Next event; `WouldBlock` if there is none and the descriptor does not block.
    pub fn next_event(&self) -> io::Result<RawEvent> {
        let mut event = AsyncEvent { element: 0, event_type: 0 };
        // SAFETY: an open context; the library fills `event`.
        if unsafe { (self.library.0.get_async_event)(self.raw.as_ptr(), &raw mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [a, b, c, d, ..] = event.element.to_ne_bytes();
        let raw = RawEvent { kind: event.event_type.cast_unsigned(), port: u32::from_ne_bytes([a, b, c, d]) };
        // SAFETY: `event` is what get_async_event filled; each event is acknowledged once.
        unsafe { (self.library.0.ack_async_event)(&raw mut event) };
        Ok(raw)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is open and not used after this. An error cannot be handled.
        unsafe { (self.library.0.close_device)(self.raw.as_ptr()) };
    }
}
