//! Smoothed round trip of each TCP segment received: `tcp:tcp_probe`, which the kernel passes when a segment of an
//! established connection arrives. Cost: two copies, two look-ups, two additions.
#![no_std]
#![no_main]

use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::TracePointContext;
use fabriclens_ebpf_abi::histogram::{SUM, bucket};
use fabriclens_ebpf_abi::tcp_rtt::Record;
use fabriclens_probes::counter::{add_at, record};
use fabriclens_probes::offsets;
use fabriclens_probes::peers::{SocketAddress, place_of};
use fabriclens_probes::trace::{Event, on_event};

offsets!(SADDR, DADDR, SRTT);

/// One histogram for each interface and class; the agent gives it as many as the host has interfaces.
#[map]
static RTT: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

#[tracepoint]
fn tcp_probe(ctx: TracePointContext) -> u32 {
    on_event(&ctx, count)
}

#[inline(always)]
fn count(event: &Event) -> Option<()> {
    // Microseconds; 0 until the first round trip is known.
    let srtt: u32 = event.field(&SRTT)?;
    if srtt == 0 {
        return Some(());
    }
    let local: SocketAddress = event.field(&SADDR)?;
    let remote: SocketAddress = event.field(&DADDR)?;
    let record = record(&RTT, place_of(&local.address(), &remote.address()))?;
    add_at(record, bucket(srtt), 1);
    add_at(record, SUM, u64::from(srtt));
    Some(())
}
