//! TCP traffic of this host's sockets by control group, interface and class of destinations: two programs at the root
//! of the cgroup tree, which the kernel passes with each IP packet of a socket. Both let everything pass. What is not
//! TCP leaves after one copy. Cost of a segment: one copy, four look-ups, two or three additions; two
//! look-ups more where its addresses were not met before.
#![no_std]
#![no_main]

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_skb_cgroup_id;
use aya_ebpf::macros::{cgroup_skb, map};
use aya_ebpf::maps::{Array, PerCpuArray, PerCpuHashMap};
use aya_ebpf::programs::SkBuffContext;
use fabriclens_ebpf_abi::destination::CLASSES;
use fabriclens_ebpf_abi::tcp_traffic::{
    ENTRIES, INDEXES, Key, RECEIVED_BYTES, RECEIVED_CE, RECEIVED_SEGMENTS, REMEMBERED, Record, SENT_BYTES,
    SENT_SEGMENTS, WORDS,
};
use fabriclens_ebpf_abi::{INTERFACES, place};
use fabriclens_probes::counter::add;
use fabriclens_probes::packet::{TCP, Words, address, ip, on_wire, tcp_header};
use fabriclens_probes::peers::{class, interface};

/// Counts by control group.
#[map]
static TRAFFIC: PerCpuHashMap<Key, Record> = PerCpuHashMap::with_max_entries(ENTRIES, 0);

/// Counts of what found no room there, by place; the agent gives it as many as there are places.
#[map]
static OTHER: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Number of the interface that has this index.
#[map]
static INTERFACE: Array<u32> = Array::with_max_entries(INDEXES, 0);

/// Places by a mix of what they follow from: addresses, interface, generation.
#[map]
static PLACES: Array<u64> = Array::with_max_entries(REMEMBERED, 0);

/// Changes with every change of the tables that places follow from.
#[map]
static GENERATION: Array<u64> = Array::with_max_entries(1, 0);

/// Bits of a remembered word that are the place.
const PLACE_BITS: u32 = 8;
const PLACE: u32 = (1 << PLACE_BITS) - 1;
const _: () = assert!(INTERFACES * CLASSES <= 1 << PLACE_BITS);

/// Let the packet pass.
const PASS: i32 = 1;

#[cgroup_skb(ingress)]
fn received(ctx: SkBuffContext) -> i32 {
    count(&ctx, true);
    PASS
}

#[cgroup_skb(egress)]
fn sent(ctx: SkBuffContext) -> i32 {
    count(&ctx, false);
    PASS
}

#[inline(always)]
fn count(ctx: &SkBuffContext, received: bool) -> Option<()> {
    let skb = &ctx.skb;
    let ip = ip(skb, 0, skb.protocol())?;
    if ip.carries != TCP {
        return None;
    }
    let headers = || ip.header + tcp_header(skb, ip.header + ip.hop_by_hop);
    let (bytes, segments) = on_wire(skb, ip.hop_by_hop, headers);
    let (local, remote) = if received { (&ip.destination, &ip.source) } else { (&ip.source, &ip.destination) };
    // SAFETY: the kernel gave the pointer, and rewrites this read.
    let place = remembered(local, remote, unsafe { (*skb.skb).ifindex })?;
    // SAFETY: the context is the one that the kernel gave.
    let cgroup = unsafe { bpf_skb_cgroup_id(skb.skb) };
    // SAFETY: the record is this CPU's own, and its words are only ever added to.
    let record = unsafe { &mut *record(&[cgroup, u64::from(place)], place)? };
    if received {
        add(&mut record[RECEIVED_BYTES], bytes);
        add(&mut record[RECEIVED_SEGMENTS], segments);
        if ip.ce {
            add(&mut record[RECEIVED_CE], segments);
        }
    } else {
        add(&mut record[SENT_BYTES], bytes);
        add(&mut record[SENT_SEGMENTS], segments);
    }
    Some(())
}

/// The place of a connection, from memory where it was met before: finding it out is half the cost of a segment.
#[inline(always)]
fn remembered(local: &Words, remote: &Words, index: u32) -> Option<u32> {
    let pair = |[a, b]: [u32; 2]| u64::from(a) << 32 | u64::from(b);
    let mut mixed = mix(*GENERATION.get(0)?, u64::from(index));
    for words in [local, remote] {
        mixed = mix(mixed, pair([words[0], words[1]]));
        mixed = mix(mixed, pair([words[2], words[3]]));
    }
    let slot = PLACES.get_ptr_mut((mixed >> 32) as u32 % REMEMBERED)?;
    // One word holds what was asked and what was found, so that CPUs and interrupts cannot mix two of them up.
    // SAFETY: the pointer is the map's; words of a map are read and written as a whole.
    let kept = unsafe { slot.read_volatile() };
    if (kept ^ mixed) >> PLACE_BITS == 0 {
        return Some(kept as u32 & PLACE);
    }
    // Interfaces of other network namespaces have numbers too: an address that is not the host's gives them away.
    let number = if interface(&address(local)) == 0 { 0 } else { INTERFACE.get(index).copied().unwrap_or(0) };
    let place = place(number, class(&address(remote))) & PLACE;
    // SAFETY: as above.
    unsafe { slot.write_volatile(mixed >> PLACE_BITS << PLACE_BITS | u64::from(place)) };
    Some(place)
}

#[inline(always)]
fn mix(so_far: u64, word: u64) -> u64 {
    let product = (so_far ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// Where a key is counted; where there is no room for it, its place.
#[inline(always)]
fn record(key: &Key, place: u32) -> Option<*mut Record> {
    if let Some(record) = TRAFFIC.get_ptr_mut(key) {
        return Some(record);
    }
    // Another CPU may be first; then the record is there all the same.
    _ = TRAFFIC.insert(key, &[0; WORDS], u64::from(BPF_NOEXIST));
    TRAFFIC.get_ptr_mut(key).or_else(|| OTHER.get_ptr_mut(place))
}
