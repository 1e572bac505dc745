//! Code shared by the probes. Each probe is one file of `src/bin` and is loaded on its own: a feature that an old
//! kernel lacks disables only the probes that need it.
#![no_std]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "an addition to a word of a map must be one instruction")]

pub mod counter;
pub mod memory;
pub mod packet;
pub mod peers;
pub mod trace;

/// License string. The kernel lets only programs under a GPL-compatible license read its memory.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
