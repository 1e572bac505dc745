//! Fields of tracepoints. Their offsets are the running kernel's, put into the program when it is loaded.

use aya_ebpf::programs::TracePointContext;

/// Declares offsets of tracepoint fields or members of kernel structures, each a global that the loader sets.
#[macro_export]
macro_rules! offsets {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        static $name: u32 = 0;)*
    };
}

/// What the loader put into a global.
#[inline(always)]
pub fn global(of: &'static u32) -> u32 {
    // SAFETY: a reference to a static is valid; volatile because the loader changes it after compilation.
    unsafe { core::ptr::read_volatile(of) }
}

/// Whether this kernel has what the loader would tell in `at`; no field and no member that a probe asks for is at 0.
#[inline(always)]
pub fn has(at: &'static u32) -> bool {
    global(at) != 0
}

/// Bytes of a record that are looked at; the fields of all probes are in front of that.
const RECORD: usize = 128;

/// The record of a tracepoint, copied at once: to copy one field costs as much as to copy all.
#[repr(C, align(8))]
pub struct Event([u8; RECORD]);

impl Event {
    /// Copies it.
    #[inline(always)]
    pub fn of(ctx: &TracePointContext) -> Option<Self> {
        // SAFETY: the helper behind it copies, and fails where it cannot.
        unsafe { ctx.read_at(0) }.ok()
    }

    /// The field at the offset that the loader put into `at`.
    #[inline(always)]
    pub fn field<T: Copy>(&self, at: &'static u32) -> Option<T> {
        let at = global(at) as usize;
        if at > RECORD - size_of::<T>() {
            return None;
        }
        // SAFETY: it lies inside.
        let field = unsafe { self.0.as_ptr().add(at) }.cast::<T>();
        // Arrays of bytes lie anywhere, and reading those takes a load a byte.
        // SAFETY: aligned, or read as if it were not.
        Some(unsafe { if at % align_of::<T>() == 0 { field.read() } else { field.read_unaligned() } })
    }
}
