//! Counts TCP retransmissions by reason. Programs:
//! - `tcp:tcp_retransmit_skb`: a buffer of one or more segments is retransmitted;
//! - `tcp:tcp_retransmit_synack`: a SYN-ACK is retransmitted.
#![no_std]
#![no_main]

use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::TracePointContext;
use fabriclens_ebpf_abi::tcp_loss::{
    BYTES, FAST, HANDSHAKE, OTHER, PROBE, Record, SEGMENTS, TIMEOUT, UNKNOWN,
};
use fabriclens_probes::counter::{add_at, record};
use fabriclens_probes::memory::{bit_field, member};
use fabriclens_probes::offsets;
use fabriclens_probes::peers::place_of;
use fabriclens_probes::trace::{Event, has, on_event};

offsets!(SKB, SK, STATE, LOCAL_ADDRESS, REMOTE_ADDRESS, ERROR);
offsets!(SYNACK_LOCAL, SYNACK_REMOTE);
offsets!(LENGTH, COUNT, CONGESTION_STATE, TIMER);

/// One record per interface and destination class. The agent sets the number of records before loading.
#[map]
static LOSS: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

// `enum tcp_ca_state`, part of the kernel's stable user-space API.
const RECOVERY: u8 = 3;
const LOSS_STATE: u8 = 4;
/// Value of `icsk_pending` while the timer of a tail loss probe runs.
const LOSS_PROBE: u8 = 5;
const SYN_SENT: i32 = 2;
const SYN_RECV: i32 = 3;

#[tracepoint]
fn tcp_retransmit_skb(ctx: TracePointContext) -> u32 {
    on_event(&ctx, resent)
}

#[tracepoint]
fn tcp_retransmit_synack(ctx: TracePointContext) -> u32 {
    on_event(&ctx, answered_again)
}

#[inline(always)]
fn resent(event: &Event) -> Option<()> {
    // Kernels whose record has an error also trace a segment that was not sent (below 0). Above 0 the host's own queue
    // dropped it: the kernel counts it as sent, and so does this probe.
    if has(&ERROR) && event.field::<i32>(&ERROR)? < 0 {
        return Some(());
    }
    let buffer: u64 = event.field(&SKB)?;
    let kind = kind(event.field(&STATE)?, event.field(&SK)?);
    let local = event.address(&LOCAL_ADDRESS)?;
    let remote = event.address(&REMOTE_ADDRESS)?;
    let record = record(&LOSS, place_of(&local, &remote))?;
    let segments: u16 = member(buffer, &COUNT).unwrap_or(1);
    add_at(record, SEGMENTS + kind, u64::from(segments));
    if let Some(bytes) = member::<u32>(buffer, &LENGTH) {
        add_at(record, BYTES + kind, u64::from(bytes));
    }
    Some(())
}

#[inline(always)]
fn kind(state: i32, socket: u64) -> usize {
    if state == SYN_SENT || state == SYN_RECV {
        return HANDSHAKE;
    }
    match bit_field(socket, &CONGESTION_STATE) {
        None => UNKNOWN,
        Some(LOSS_STATE) => TIMEOUT,
        Some(RECOVERY) => FAST,
        Some(_) if member(socket, &TIMER) == Some(LOSS_PROBE) => PROBE,
        Some(_) => OTHER,
    }
}

#[inline(always)]
fn answered_again(event: &Event) -> Option<()> {
    let local = event.address(&SYNACK_LOCAL)?;
    let remote = event.address(&SYNACK_REMOTE)?;
    let record = record(&LOSS, place_of(&local, &remote))?;
    add_at(record, SEGMENTS + HANDSHAKE, 1);
    Some(())
}
