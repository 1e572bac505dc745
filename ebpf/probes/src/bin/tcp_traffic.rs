//! Counts TCP traffic of this host's sockets by cgroup, interface and destination class. Two programs are attached to
//! the root cgroup, run for each IP packet of a socket and let every packet pass. Packets of other protocols are ignored
//! after their IP header. Cost per segment: four map lookups, two or three additions.
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

/// Counts by cgroup, interface and destination class.
#[map]
static TRAFFIC: PerCpuHashMap<Key, Record> = PerCpuHashMap::with_max_entries(ENTRIES, 0);

/// Counts by interface and destination class of segments whose key does not fit into [`TRAFFIC`]. The agent sets the
/// number of records before loading.
#[map]
static OTHER: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Number of an interface, by its kernel index; 0 if it has none.
#[map]
static INTERFACE: Array<u32> = Array::with_max_entries(INDEXES, 0);

/// Lets the packet pass.
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
    // Interfaces of other network namespaces have the same indexes; their addresses are not the host's.
    let own = interface_of(known) != 0;
    // SAFETY: the pointer is the program's context; the verifier rewrites this read.
    let index = unsafe { (*skb).ifindex };
    let number = if own { INTERFACE.get(index).copied().unwrap_or(0) } else { 0 };
    let place = place(number, class_of(known));
    // SAFETY: the pointer is the program's context.
    let cgroup = unsafe { bpf_skb_cgroup_id(skb) };
    // SAFETY: only this CPU uses the record, and only `add` changes its words.
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

/// This CPU's record of a key, or the record in [`OTHER`] at index `place` if the map is full.
#[inline(always)]
fn record(key: &Key, place: u32) -> Option<*mut Record> {
    if let Some(record) = TRAFFIC.get_ptr_mut(key) {
        return Some(record);
    }
    // Fails if another CPU inserts the key first; the lookup then finds its record.
    _ = TRAFFIC.insert(key, &[0; WORDS], u64::from(BPF_NOEXIST));
    TRAFFIC.get_ptr_mut(key).or_else(|| OTHER.get_ptr_mut(place))
}
