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
    BIN_NS, BINS, BYTES, Block, CE, PACKETS, RECEIVED, ROCE, ROCE_PORT, SENT, STAMP, word,
};
use fabriclens_probes::counter::add;
use fabriclens_probes::packet::{Ip, TCP, UDP, ip, on_wire, tcp_header};
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
    if ring[STAMP] != block + 1 {
        ring[..STAMP].fill(0);
        ring[STAMP] = block + 1;
    }
    let at = (bin % BINS as u64) as usize;
    // What is not IP, or is so behind a tag, counts as it is.
    let link = global(&LINK);
    let ip = ip(skb, link as usize, skb.protocol());
    let repeated = || ip.as_ref().map_or(0, |ip| link + ip.header + transport(skb, link, ip));
    let (bytes, packets) = on_wire(skb, ip.as_ref().map_or(0, |ip| ip.hop_by_hop), repeated);
    add(ring.get_mut(word(at, direction, BYTES))?, bytes);
    add(ring.get_mut(word(at, direction, PACKETS))?, packets);
    let ip = ip?;
    if ip.ce {
        add(ring.get_mut(word(at, direction, CE))?, packets);
    }
    if ip.carries == UDP {
        let port: u16 = skb.load((link + ip.header + ip.hop_by_hop + 2) as usize).ok()?;
        if port == ROCE_PORT.to_be() {
            add(ring.get_mut(word(at, direction, ROCE))?, packets);
        }
    }
    Some(())
}

/// Bytes of the transport's header, for what the kernel hands over several packets at a time.
#[inline(always)]
fn transport(skb: &SkBuff, link: u32, ip: &Ip) -> u32 {
    match ip.carries {
        TCP => tcp_header(skb, link + ip.header + ip.hop_by_hop),
        UDP => 8,
        _ => 0,
    }
}
