//! Smoothed round trips of TCP, taken at some of the segments received: a program at the root of the cgroup tree, which
//! the kernel passes with each IP packet for a socket, and which lets everything pass. The kernel smooths over about
//! eight segments, so more than one in eight tells little. Cost of most segments: one look-up.
#![no_std]
#![no_main]

use aya_ebpf::bindings::{bpf_sock, bpf_tcp_sock};
use aya_ebpf::helpers::{bpf_get_prandom_u32, bpf_sk_fullsock, bpf_tcp_sock};
use aya_ebpf::macros::{cgroup_skb, map};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::SkBuffContext;
use fabriclens_ebpf_abi::histogram::{SUM, bucket};
use fabriclens_ebpf_abi::tcp_rtt::{GAP, Record};
use fabriclens_probes::counter::{add_at, record};
use fabriclens_probes::peers::{ends_of, place_of};

/// One histogram for each interface and class; the agent gives it as many as the host has interfaces.
#[map]
static RTT: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Segments of this CPU to leave out before the next that is looked at.
#[map]
static LEAVE_OUT: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// Let the packet pass.
const PASS: i32 = 1;
/// The kernel keeps a round trip in eighths of a microsecond.
const EIGHTHS: u32 = 3;

#[cgroup_skb(ingress)]
fn received(ctx: SkBuffContext) -> i32 {
    if chosen() {
        count(&ctx);
    }
    PASS
}

/// Whether to look at this segment. The gaps are random, so that connections that take turns are all seen.
#[inline(always)]
fn chosen() -> bool {
    let Some(left) = LEAVE_OUT.get_ptr_mut(0) else { return false };
    // SAFETY: the word is this CPU's own; what an interrupt does to it in between makes one gap longer.
    unsafe {
        if *left > 0 {
            *left -= 1;
            return false;
        }
        *left = bpf_get_prandom_u32() % GAP;
    }
    true
}

#[inline(always)]
fn count(ctx: &SkBuffContext) -> Option<()> {
    // SAFETY: the kernel gave the pointer, rewrites this read, and the helpers take what it gives.
    let (socket, tcp): (*mut bpf_sock, *mut bpf_tcp_sock) = unsafe {
        let socket = (*ctx.skb.skb).__bindgen_anon_2.sk;
        if socket.is_null() {
            return None;
        }
        let socket = bpf_sk_fullsock(socket);
        if socket.is_null() {
            return None;
        }
        (socket, bpf_tcp_sock(socket))
    };
    if tcp.is_null() {
        return None;
    }
    // 0 until the first round trip is known.
    // SAFETY: it is a TCP socket.
    let srtt = unsafe { (*tcp).srtt_us } >> EIGHTHS;
    if srtt == 0 {
        return None;
    }
    let (local, remote) = ends_of(socket);
    let record = record(&RTT, place_of(&local, &remote))?;
    add_at(record, bucket(srtt), 1);
    add_at(record, SUM, u64::from(srtt));
    Some(())
}
