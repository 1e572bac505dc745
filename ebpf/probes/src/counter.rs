//! Counters in maps. A soft interrupt can run a probe while the same probe runs on the same CPU, so every addition is
//! one atomic instruction, even to a per-CPU word.

use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Number of events that the probe failed to count.
#[map]
static DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Adds `n` to a word of a map, atomically.
#[inline(always)]
pub fn add(word: &mut u64, n: u64) {
    // `core::sync::atomic` has no addition on this target, although its instruction set has one.
    // SAFETY: a reference is valid and aligned.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(word, n) };
}

/// Counts an event as dropped.
#[inline(always)]
pub fn dropped() {
    if let Some(drops) = DROPS.get_ptr_mut(0) {
        // SAFETY: only this CPU uses the word, and only `add` changes it.
        add(unsafe { &mut *drops }, 1);
    }
}

/// This CPU's record at index `place`; `None` beyond the end of the map.
#[inline(always)]
pub fn record<T>(of: &'static PerCpuArray<T>, place: u32) -> Option<&'static mut T> {
    // SAFETY: only this CPU uses the record, and only `add` changes its words.
    of.get_ptr_mut(place).map(|record| unsafe { &mut *record })
}

/// Adds `n` to the word at index `at` of a record. Does nothing beyond the end of the record.
#[inline(always)]
pub fn add_at<const N: usize>(record: &mut [u64; N], at: usize, n: u64) {
    if let Some(word) = record.get_mut(at) {
        add(word, n);
    }
}

/// Return value of a program. Counts the event as dropped if `counted` is `None`.
#[inline(always)]
pub fn done(counted: Option<()>) -> u32 {
    if counted.is_none() {
        dropped();
    }
    0
}
