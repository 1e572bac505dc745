//! Memory that the NIC reads and writes: receive slots, then send slots. Which of the send slots are in use.

use super::header::HEADER;
use crate::datagrams::LONGEST;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Datagrams that a port can have in its send queues.
pub const SENDS: usize = 128;
/// Datagrams that each queue pair can receive before they are read.
pub const RECEIVES: usize = 256;
/// Bytes of a receive slot.
pub const RECEIVE_SLOT: usize = 128;
/// Bit of a work request's number that tells a receive.
const RECEIVE: u64 = 1 << 63;
const PAGE: usize = 4096;

const _: () = assert!(HEADER + LONGEST <= RECEIVE_SLOT);

/// Number of a work request.
pub fn encode(is_receive: bool, pair: usize, slot: usize) -> u64 {
    (if is_receive { RECEIVE } else { 0 }) | ((pair & 0xffff) as u64) << 32 | (slot & 0xffff_ffff) as u64
}

/// Whether it is a receive, its queue pair and its slot.
pub fn decode(number: u64) -> (bool, usize, usize) {
    let part = |bits: u64| usize::try_from(bits).unwrap_or(0);
    (number & RECEIVE != 0, part(number >> 32 & 0xffff), part(number & 0xffff_ffff))
}

/// A datagram in a send queue.
#[derive(Clone, Copy, Debug, Default)]
struct SendSlot {
    /// The sender's number.
    id: u64,
    source_port: u16,
    /// When it was posted, nanoseconds of the host's clock.
    posted: u64,
}

/// The memory, page-aligned, and the send slots.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    receives: usize,
    free: Vec<usize>,
    /// By send slot, if it is in use.
    sends: Vec<Option<SendSlot>>,
}

impl Memory {
    /// Zeroed memory for so many queue pairs.
    pub fn new(pairs: usize) -> Self {
        let receives = pairs * RECEIVES;
        let bytes = (receives * RECEIVE_SLOT + SENDS * LONGEST).next_multiple_of(PAGE);
        let layout = Layout::from_size_align(bytes, PAGE).unwrap_or(Layout::new::<[u64; 512]>());
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout, receives, free: (0..SENDS).collect(), sends: vec![None; SENDS] }
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        self.layout.size()
    }

    /// Its address.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Address of a receive slot.
    pub fn receive_slot(&self, slot: usize) -> *mut u8 {
        // SAFETY: within the memory, because the index is bounded.
        unsafe { self.start.as_ptr().add(slot.min(self.receives - 1) * RECEIVE_SLOT) }
    }

    /// Copies the start of a received datagram.
    pub fn read(&self, slot: usize, into: &mut [u8; HEADER + LONGEST]) {
        // SAFETY: a slot has RECEIVE_SLOT bytes, which are at least as many; the NIC has written it before its completion
        // was read and does not write it again before it is posted; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.receive_slot(slot), into.as_mut_ptr(), into.len()) };
    }

    /// Takes a send slot and writes the payload; `None` if all are in use or the payload is too long.
    pub fn write(&mut self, bytes: &[u8], id: u64, source_port: u16) -> Option<(usize, *mut u8)> {
        if bytes.len() > LONGEST {
            return None;
        }
        let slot = self.free.pop()?;
        self.sends[slot] = Some(SendSlot { id, source_port, posted: 0 });
        // SAFETY: within the memory: the slot is below SENDS.
        let to = unsafe { self.start.as_ptr().add(self.receives * RECEIVE_SLOT + slot * LONGEST) };
        // SAFETY: a slot has LONGEST bytes; it is free, so the NIC does not read it; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Some((slot, to))
    }

    /// Source port of the datagram in a send slot.
    pub fn source_port(&self, slot: usize) -> u16 {
        self.sends.get(slot).copied().flatten().map_or(0, |send| send.source_port)
    }

    /// Frees a send slot; the sender's number of its datagram.
    pub fn sent(&mut self, slot: usize) -> Option<u64> {
        let send = self.sends.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(send.id)
    }

    /// Sets when the datagram in a send slot was posted.
    pub fn set_posted(&mut self, slot: usize, at: u64) {
        if let Some(send) = self.sends.get_mut(slot).and_then(Option::as_mut) {
            send.posted = at;
        }
    }

    /// When the datagram in a send slot was posted.
    pub fn posted(&self, slot: usize) -> u64 {
        self.sends.get(slot).copied().flatten().map_or(0, |send| send.posted)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; its registration ended before.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_work_requests_name_their_slot() {
        for (is_receive, pair, slot) in [(true, 7, 2047), (false, 0, 0), (false, 3, 127)] {
            assert_eq!(decode(encode(is_receive, pair, slot)), (is_receive, pair, slot));
        }
    }

    #[test]
    fn send_slots_are_bounded_and_come_back() {
        let mut memory = Memory::new(2);
        assert_eq!(memory.write(&[0; LONGEST + 1], 1, 0), None);
        let slots: Vec<_> = (0..SENDS as u64).map(|id| memory.write(&[9; 40], id, 50_000).unwrap().0).collect();
        assert_eq!(memory.write(&[9; 40], 999, 0), None, "all are in use");
        memory.set_posted(slots[3], 77);
        assert_eq!((memory.source_port(slots[3]), memory.posted(slots[3])), (50_000, 77));
        assert_eq!((memory.sent(slots[3]), memory.sent(slots[3]), memory.sent(SENDS)), (Some(3), None, None));
        assert_eq!(memory.write(&[9; 40], 999, 0).map(|slot| slot.0), Some(slots[3]));
    }
}
