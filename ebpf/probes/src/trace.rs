//! Fields of tracepoints. Their offsets are the running kernel's, put into the program when it is loaded.

use crate::counter::done;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::r#gen::bpf_probe_read_kernel;
use aya_ebpf::programs::TracePointContext;
use core::mem::MaybeUninit;
use fabriclens_ebpf_abi::Address;

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

/// Runs the body of a probe on the record. What it returns is what a program returns.
#[inline(always)]
pub fn on_event(ctx: &TracePointContext, count: impl FnOnce(&Event) -> Option<()>) -> u32 {
    let mut record = MaybeUninit::<Event>::uninit();
    // SAFETY: the helper writes as many bytes as there are, or fails.
    let failed = unsafe { bpf_probe_read_kernel(record.as_mut_ptr().cast(), RECORD as u32, ctx.as_ptr()) };
    // SAFETY: then it is written.
    done(if failed == 0 { count(unsafe { record.assume_init_ref() }) } else { None })
}

impl Event {
    /// The field at the offset that the loader put into `at`: a number, or words that are aligned as one.
    #[inline(always)]
    pub fn field<T: Copy>(&self, at: &'static u32) -> Option<T> {
        self.at(global(at) as usize)
    }

    /// An array of bytes, which lies at any even offset, and holds an address.
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
        // SAFETY: it lies inside; the kernel's verifier refuses what is not aligned.
        Some(unsafe { self.0.as_ptr().add(at).cast::<T>().read() })
    }
}
