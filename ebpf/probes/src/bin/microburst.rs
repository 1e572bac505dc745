//! Bytes, packets, congestion marks and RoCEv2 packets that cross one interface, in bins of a millisecond. Two programs
//! for the two ends of the kernel's packet path, and one that sees both directions through a packet socket, for kernels
//! without links at those ends. None of them changes or holds up a packet. Cost: two copies, two look-ups, two to four
//! additions.
#![no_std]
#![no_main]

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{classifier, map, socket_filter};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::sk_buff::SkBuff;
use aya_ebpf::programs::{SkBuffContext, TcContext};
use fabriclens_ebpf_abi::microburst::{
    BIN, BIN_NS, BINS, BYTES, Block, CE, PACKETS, RECEIVED, ROCE, ROCE_PORT, SENT, STAMPS, word,
};
use fabriclens_probes::counter::add;
use fabriclens_probes::packet::{TCP, UDP, ip, on_wire, tcp};
use fabriclens_probes::trace::global;

/// The ring; the agent gives it its length and tells [`BLOCKS`].
#[map]
static RING: PerCpuArray<Block> = PerCpuArray::with_max_entries(1, 0);

/// Length of the ring, a power of two.
#[unsafe(no_mangle)]
static BLOCKS: u32 = 1;

/// Bytes of the link's header in front of IP; the agent knows the interface.
#[unsafe(no_mangle)]
static LINK: u32 = 14;

/// Ask the next program, and then the interface's own rules, as if this one were not there.
const NEXT: i32 = -1;
/// Nothing is put into the socket.
const NOTHING: i64 = 0;
const OUTGOING: u32 = 4;

#[classifier]
fn received(ctx: TcContext) -> i32 {
    count(&ctx.skb, RECEIVED);
    NEXT
}

#[classifier]
fn sent(ctx: TcContext) -> i32 {
    count(&ctx.skb, SENT);
    NEXT
}

#[socket_filter]
fn both(ctx: SkBuffContext) -> i64 {
    // SAFETY: the kernel gave the pointer, and rewrites this read.
    let kind = unsafe { (*ctx.skb.skb).pkt_type };
    if kind == OUTGOING {
        count(&ctx.skb, SENT);
    } else {
        count(&ctx.skb, RECEIVED);
    }
    NOTHING
}

#[inline(always)]
fn count(skb: &SkBuff, direction: usize) -> Option<()> {
    // SAFETY: the helper only reads a clock.
    let bin = unsafe { bpf_ktime_get_ns() } / BIN_NS;
    let block = bin / BINS as u64;
    let ring = RING.get_ptr_mut((block as u32) & global(&BLOCKS).wrapping_sub(1))?;
    // SAFETY: the block is this CPU's own, and packets are handled one after the other on a CPU.
    let ring = unsafe { &mut *ring };
    let at = (bin % BINS as u64) as usize;
    // SAFETY: `at` is a bin of the block. A reference to it, because offsets within it are then constants, which the
    // kernel takes from an agent with few privileges.
    let counts = unsafe { &mut *ring.as_mut_ptr().add(at * BIN).cast::<[u64; BIN]>() };
    let stamp = ring.get_mut(STAMPS + at)?;
    if *stamp != bin + 1 {
        *stamp = bin + 1;
        for count in &mut *counts {
            // SAFETY: a reference is valid. Volatile, or it becomes a call that goes byte by byte.
            unsafe { core::ptr::write_volatile(count, 0) };
        }
    }
    // What is not IP, or is so behind a tag, counts as it is. In single values, because old kernels refuse to copy what
    // is only sometimes set.
    let link = global(&LINK);
    let (carries, ce, header, once) = match ip(skb, link, skb.protocol()) {
        Some(ip) => (ip.carries, ip.ce, ip.header, ip.hop_by_hop),
        None => (0, false, 0, 0),
    };
    let after = link + header + once;
    let repeated = || if header == 0 { 0 } else { link + header + transport(skb, carries, after) };
    let (bytes, packets) = on_wire(skb.skb, once, repeated);
    add(&mut counts[word(0, direction, BYTES)], bytes);
    add(&mut counts[word(0, direction, PACKETS)], packets);
    if ce {
        add(&mut counts[word(0, direction, CE)], packets);
    }
    if carries == UDP {
        let port: u16 = skb.load(after as usize + 2).ok()?;
        if port == ROCE_PORT.to_be() {
            add(&mut counts[word(0, direction, ROCE)], packets);
        }
    }
    Some(())
}

/// Bytes of the transport's header at `at`, for what the kernel hands over several packets at a time.
#[inline(always)]
fn transport(skb: &SkBuff, carries: u8, at: u32) -> u32 {
    match carries {
        TCP => tcp(skb, at).map_or(20, |tcp| tcp.header),
        UDP => 8,
        _ => 0,
    }
}
