//! TCP traffic of this host's sockets by control group, interface and class of destinations: two programs at the root
//! of the cgroup tree, which the kernel passes with each IP packet of a socket. Both let everything pass. What is not
//! TCP leaves after one look. Cost of a segment: four look-ups, two or three additions.
#![no_std]
#![no_main]

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::helpers::bpf_skb_cgroup_id;
use aya_ebpf::macros::{cgroup_skb, map};
use aya_ebpf::maps::{Array, PerCpuArray, PerCpuHashMap};
use aya_ebpf::programs::SkBuffContext;
use fabriclens_ebpf_abi::tcp_traffic::{
    ENTRIES, INDEXES, Key, RECEIVED_BYTES, RECEIVED_CE, RECEIVED_CLOSED, RECEIVED_SEGMENTS, Record, SENT_BYTES,
    SENT_CLOSED, SENT_SEGMENTS, WORDS,
};
use fabriclens_ebpf_abi::{class_of, interface_of, place};
use fabriclens_probes::counter::add;
use fabriclens_probes::packet::{Linear, TCP, ip, on_wire, tcp};
use fabriclens_probes::peers::place_of;

/// Counts by control group.
#[map]
static TRAFFIC: PerCpuHashMap<Key, Record> = PerCpuHashMap::with_max_entries(ENTRIES, 0);

/// Counts of what found no room there, by place; the agent gives it as many as there are places.
#[map]
static OTHER: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Number of the interface that has this index.
#[map]
static INTERFACE: Array<u32> = Array::with_max_entries(INDEXES, 0);

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
    let (skb, headers) = (ctx.skb.skb, Linear::of(ctx.skb.skb));
    let ip = ip(&headers, 0, ctx.skb.protocol())?;
    if ip.carries != TCP {
        return None;
    }
    let tcp = tcp(&headers, ip.header + ip.hop_by_hop)?;
    let (bytes, segments) = on_wire(skb, ip.hop_by_hop, || ip.header + tcp.header);
    let (local, remote) = if received { (&ip.destination, &ip.source) } else { (&ip.source, &ip.destination) };
    let known = place_of(local, remote);
    // Interfaces of other network namespaces have numbers too: an address that is not the host's gives them away.
    let own = interface_of(known) != 0;
    // SAFETY: the kernel gave the pointer, and rewrites this read.
    let index = unsafe { (*skb).ifindex };
    let number = if own { INTERFACE.get(index).copied().unwrap_or(0) } else { 0 };
    let place = place(number, class_of(known));
    // SAFETY: the context is the one that the kernel gave.
    let cgroup = unsafe { bpf_skb_cgroup_id(skb) };
    // SAFETY: the record is this CPU's own, and its words are only ever added to.
    let record = unsafe { &mut *record(&[cgroup, u64::from(place)], place)? };
    if received {
        add(&mut record[RECEIVED_BYTES], bytes);
        add(&mut record[RECEIVED_SEGMENTS], segments);
        if ip.ce {
            add(&mut record[RECEIVED_CE], segments);
        }
        if tcp.closed {
            add(&mut record[RECEIVED_CLOSED], segments);
        }
    } else {
        add(&mut record[SENT_BYTES], bytes);
        add(&mut record[SENT_SEGMENTS], segments);
        if tcp.closed {
            add(&mut record[SENT_CLOSED], segments);
        }
    }
    Some(())
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
