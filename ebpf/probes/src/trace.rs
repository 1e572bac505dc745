//! Fields of tracepoint records. The loader sets their offsets from the running kernel.

use crate::counter::done;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::r#gen::bpf_probe_read_kernel;
use aya_ebpf::programs::TracePointContext;
use core::mem::MaybeUninit;
use fabriclens_ebpf_abi::Address;

/// Declares offsets of tracepoint fields and structure members: globals that the loader sets.
#[macro_export]
macro_rules! offsets {
    ($($name:ident),* $(,)?) => {
        $(#[unsafe(no_mangle)]
        static $name: u32 = 0;)*
    };
}

/// Value of a global that the loader sets.
#[inline(always)]
pub fn global(of: &'static u32) -> u32 {
    // SAFETY: a reference to a static is valid. Volatile, because the loader changes the value after compilation.
    unsafe { core::ptr::read_volatile(of) }
}

/// Whether this kernel has the field or member whose offset is `at`. No probe uses one at offset 0.
#[inline(always)]
pub fn has(at: &'static u32) -> bool {
    global(at) != 0
}

/// Bytes of a record that are copied. The fields of all probes lie below that offset.
const RECORD: usize = 128;

/// Copy of a tracepoint record. Copying the whole record costs as much as copying one field.
#[repr(C, align(8))]
pub struct Event([u8; RECORD]);

/// Copies the record and passes it to `count`. Returns the program's return value. Counts the event as dropped if the
/// copy fails or `count` returns `None`.
#[inline(always)]
pub fn on_event(ctx: &TracePointContext, count: impl FnOnce(&Event) -> Option<()>) -> u32 {
    let mut record = MaybeUninit::<Event>::uninit();
    // SAFETY: `record` has `RECORD` bytes; the helper writes all of them or fails.
    let failed = unsafe { bpf_probe_read_kernel(record.as_mut_ptr().cast(), RECORD as u32, ctx.as_ptr()) };
    // SAFETY: the helper succeeded, so the record is initialized.
    done(if failed == 0 { count(unsafe { record.assume_init_ref() }) } else { None })
}

impl Event {
    /// Field at the offset in the global `at`: an aligned number, or aligned words. `None` beyond the end of the record.
    #[inline(always)]
    pub fn field<T: Copy>(&self, at: &'static u32) -> Option<T> {
        self.at(global(at) as usize)
    }

    /// Address at the offset in the global `at`, which must be even. `None` beyond the end of the record.
    #[inline(always)]
    pub fn address(&self, at: &'static u32) -> Option<Address> {
        let mut address = [0; 4];
        for (word, at) in address.iter_mut().zip((global(at) as usize..).step_by(4)) {
            let halves: [u16; 2] = [self.at(at)?, self.at(at + 2)?];
            *word = u32::from(halves[0]) | u32::from(halves[1]) << 16;
        }
        Some(address)
    }

    #[inline(always)]
    fn at<T: Copy>(&self, at: usize) -> Option<T> {
        if at > RECORD - size_of::<T>() {
            return None;
        }
        // SAFETY: the value lies within the record; the verifier rejects an unaligned read.
        Some(unsafe { self.0.as_ptr().add(at).cast::<T>().read() })
    }
}
