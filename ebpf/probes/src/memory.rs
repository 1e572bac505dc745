//! Members of kernel structures. Where they are is told by the loader, from the running kernel's own types; a member
//! that the kernel does not describe is never read.

use crate::trace::global;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use fabriclens_ebpf_abi::member::{bits, byte};

/// A member of the structure at `address`; `None` when this kernel does not tell where it is, or cannot read it.
#[inline(always)]
pub fn member<T>(address: u64, at: &'static u32) -> Option<T> {
    let word = global(at);
    if word == 0 || address == 0 {
        return None;
    }
    // SAFETY: the helper copies, and fails where it cannot.
    unsafe { bpf_probe_read_kernel((address as usize + byte(word)) as *const T) }.ok()
}

/// A member that is a bit field.
#[inline(always)]
pub fn bit_field(address: u64, at: &'static u32) -> Option<u8> {
    Some(bits(global(at), member(address, at)?))
}
