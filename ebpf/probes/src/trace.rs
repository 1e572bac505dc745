//! Fields of tracepoints. Their offsets are the running kernel's, put into the program when it is loaded.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::bpf_probe_read_kernel;
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

/// The field at the offset that the loader put into `at`.
#[inline(always)]
pub fn field<T>(ctx: &TracePointContext, at: &'static u32) -> Option<T> {
    // SAFETY: the event is kernel memory; the helper copies, and fails where it cannot.
    unsafe { bpf_probe_read_kernel(ctx.as_ptr().byte_add(global(at) as usize).cast()) }.ok()
}
