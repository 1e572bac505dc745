//! Samples TCP's smoothed round-trip time at a random subset of the received segments. The program is attached to the
//! root cgroup, runs for each IP packet that a socket receives, and lets every packet pass. The kernel smooths over
//! about eight segments, so sampling more than one in eight adds little. Cost of a skipped segment: one map lookup.
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

/// One histogram per interface and destination class. The agent sets the number of histograms before loading.
#[map]
static RTT: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Segments that this CPU skips before the next sample.
#[map]
static LEAVE_OUT: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// Lets the packet pass.
const PASS: i32 = 1;
/// Binary digits after the point of `srtt_us`: the kernel counts eighths of a microsecond.
const EIGHTHS: u32 = 3;

#[cgroup_skb(ingress)]
fn received(ctx: SkBuffContext) -> i32 {
    if chosen() {
        count(&ctx);
    }
    PASS
}

/// Whether to sample this segment. The gaps are random, so that connections with alternating segments are all sampled.
#[inline(always)]
fn chosen() -> bool {
    let Some(left) = LEAVE_OUT.get_ptr_mut(0) else { return false };
    // SAFETY: only this CPU uses the word; an interrupt in between at most makes one gap longer.
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
    // SAFETY: the pointer is the program's context; the verifier rewrites this read. The helpers get non-null sockets.
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
    // 0 until the first round trip is measured.
    // SAFETY: the pointer is not null, so it is a TCP socket.
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
