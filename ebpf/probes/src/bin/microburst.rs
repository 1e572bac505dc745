//! Counts bytes, packets, CE marks and RoCEv2 packets of one interface in bins of 1 ms. Programs:
//! - `received`, `sent`: tcx ingress and egress (Linux 6.6 or later);
//! - `both`: filter of a packet socket that sees both directions, for older kernels.
//!
//! No program changes or delays a packet. Cost per packet: two copies, two map lookups, two to four additions.
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

/// Ring of blocks. The agent sets its length before loading, here and in [`BLOCKS`].
#[map]
static RING: PerCpuArray<Block> = PerCpuArray::with_max_entries(1, 0);

/// Length of the ring in blocks, a power of two.
#[unsafe(no_mangle)]
static BLOCKS: u32 = 1;

/// Length in bytes of the link header in front of the IP header; set by the agent for the type of interface.
#[unsafe(no_mangle)]
static LINK: u32 = 14;

/// `TCX_NEXT`: the next program, or else the traffic control rules of the interface, decides about the packet.
const NEXT: i32 = -1;
/// The socket receives no byte of the packet.
const NOTHING: i64 = 0;
/// `PACKET_OUTGOING`.
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
    // SAFETY: the pointer is the program's context; the verifier rewrites this read.
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
    // SAFETY: the helper only reads the monotonic clock.
    let bin = unsafe { bpf_ktime_get_ns() } / BIN_NS;
    let block = bin / BINS as u64;
    let ring = RING.get_ptr_mut((block as u32) & global(&BLOCKS).wrapping_sub(1))?;
    // SAFETY: only this CPU uses the block, and a CPU handles one packet at a time.
    let ring = unsafe { &mut *ring };
    let at = (bin % BINS as u64) as usize;
    // SAFETY: `at` is a bin of the block. By reference, offsets within the bin are constants, which the verifier
    // accepts without further privileges.
    let counts = unsafe { &mut *ring.as_mut_ptr().add(at * BIN).cast::<[u64; BIN]>() };
    let stamp = ring.get_mut(STAMPS + at)?;
    if *stamp != bin + 1 {
        *stamp = bin + 1;
        for count in &mut *counts {
            // SAFETY: a reference is valid. Volatile, because otherwise the compiler calls a function that clears
            // single bytes.
            unsafe { core::ptr::write_volatile(count, 0) };
        }
    }
    // Other protocols, and IP behind a VLAN tag, count with the buffer's length. As single values, because verifiers of
    // old kernels reject a copy of a structure that is initialized on some paths only.
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

/// Length in bytes of the transport header at offset `at`, which each segment of a large buffer repeats.
#[inline(always)]
fn transport(skb: &SkBuff, carries: u8, at: u32) -> u32 {
    match carries {
        TCP => tcp(skb, at).map_or(20, |tcp| tcp.header),
        UDP => 8,
        _ => 0,
    }
}
