//! Counting. A soft interrupt may run a probe in the middle of the same probe on the same CPU, so even per-CPU words are
//! added to in one instruction.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Events that a probe could not count.
#[map]
static DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Adds to a word of a map.
#[inline(always)]
pub fn add(word: &mut u64, n: u64) {
    // The library's atomics have no addition on this target, although its instruction set has.
    // SAFETY: the reference shows that the word is valid and aligned.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(word, n) };
}

/// An event is missing from what is told.
#[inline(always)]
pub fn dropped() {
    if let Some(drops) = DROPS.get_ptr_mut(0) {
        // SAFETY: the word is this CPU's own and is only ever added to.
        add(unsafe { &mut *drops }, 1);
    }
}

/// The record of this CPU at `place`.
#[inline(always)]
pub fn record<T>(of: &'static PerCpuArray<T>, place: u32) -> Option<&'static mut T> {
    // SAFETY: the record is this CPU's own, and its words are only ever added to, by `add`.
    of.get_ptr_mut(place).map(|record| unsafe { &mut *record })
}

/// Adds to a word of a record.
#[inline(always)]
pub fn add_at<const N: usize>(record: &mut [u64; N], at: usize, n: u64) {
    if let Some(word) = record.get_mut(at) {
        add(word, n);
    }
}

/// What a program returns: one that had to break off has dropped its event.
#[inline(always)]
pub fn done(counted: Option<()>) -> u32 {
    if counted.is_none() {
        dropped();
    }
    0
}
