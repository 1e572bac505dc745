//! Members of kernel structures. The loader sets their offsets from the type information (BTF) of the running kernel. A
//! member without BTF is never read.

use crate::trace::global;
use aya_ebpf::helpers::bpf_probe_read_kernel;
use fabriclens_ebpf_abi::member::{bits, byte};

/// Reads a member of the structure at `address`. `None` if the offset is unknown, the address is 0 or the read fails.
#[inline(always)]
pub fn member<T>(address: u64, at: &'static u32) -> Option<T> {
    let word = global(at);
    if word == 0 || address == 0 {
        return None;
    }
    // SAFETY: the helper copies, and fails on an invalid address.
    unsafe { bpf_probe_read_kernel((address as usize + byte(word)) as *const T) }.ok()
}

/// Reads a bit field of at most 8 bits. `None` as for [`member`].
#[inline(always)]
pub fn bit_field(address: u64, at: &'static u32) -> Option<u8> {
    Some(bits(global(at), member(address, at)?))
}
