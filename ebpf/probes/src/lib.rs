//! What several probes share. One probe is one program of `src/bin`, loaded alone: what one of them cannot have on an
//! old kernel, the others do not miss.
#![no_std]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "an addition to a word of a map must be one instruction")]

pub mod counter;
pub mod memory;
pub mod packet;
pub mod peers;
pub mod trace;

/// The kernel demands a licence that lets probes read its memory.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
