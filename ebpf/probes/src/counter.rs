//! Counting. A soft interrupt may run a probe in the middle of the same probe on the same CPU, so even per-CPU words are
//! added to in one instruction.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

/// Adds to a word of a map.
#[inline(always)]
pub fn add(word: &mut u64, n: u64) {
    // The library's atomics have no addition on this target, although its instruction set has.
    // SAFETY: the reference shows that the word is valid and aligned.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(word, n) };
}
