//! What TCP had to send again, and windows that were closed. Programs:
//! - `tcp:tcp_retransmit_skb`: a segment, or several in one buffer, was sent again;
//! - `tcp:tcp_retransmit_synack`: the answer to a SYN was sent again;
//! - `tcp:tcp_probe`: a segment of an established connection arrived. Two words are looked at, and nothing else is done
//!   unless a window is closed.
#![no_std]
#![no_main]

use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::TracePointContext;
use fabriclens_ebpf_abi::tcp_loss::{
    BYTES, FAST, HANDSHAKE, OTHER, PROBE, Record, SEGMENTS, TIMEOUT, UNKNOWN, WINDOW_RECEIVE, WINDOW_TRANSMIT,
};
use fabriclens_probes::counter::{add_at, done, record};
use fabriclens_probes::memory::{bit_field, member};
use fabriclens_probes::offsets;
use fabriclens_probes::peers::{SocketAddress, Words, place_of};
use fabriclens_probes::trace::{field, has};

offsets!(SKB, SK, STATE, LOCAL_ADDRESS, REMOTE_ADDRESS, ERROR);
offsets!(SYNACK_LOCAL, SYNACK_REMOTE);
offsets!(PROBE_LOCAL, PROBE_REMOTE, SEND_WINDOW, RECEIVE_WINDOW);
offsets!(LENGTH, COUNT, CONGESTION_STATE, TIMER);

/// One record for each interface and class; the agent gives it as many as the host has interfaces.
#[map]
static LOSS: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

// `enum tcp_ca_state`, which programs are told too and which therefore stays.
const RECOVERY: u8 = 3;
const LOSS_STATE: u8 = 4;
/// `icsk_pending` while the timer of a tail loss probe runs its course.
const LOSS_PROBE: u8 = 5;
const SYN_SENT: i32 = 2;
const SYN_RECV: i32 = 3;

#[tracepoint]
fn tcp_retransmit_skb(ctx: TracePointContext) -> u32 {
    done(resent(&ctx))
}

#[tracepoint]
fn tcp_retransmit_synack(ctx: TracePointContext) -> u32 {
    done(answered_again(&ctx))
}

#[tracepoint]
fn tcp_probe(ctx: TracePointContext) -> u32 {
    done(windows(&ctx))
}

#[inline(always)]
fn resent(ctx: &TracePointContext) -> Option<()> {
    // Kernels that tell an error pass here even if nothing was sent (below 0). Above 0 the host's own queue dropped it:
    // the kernel counts that as sent, and so does this.
    if has(&ERROR) && field::<i32>(ctx, &ERROR)? < 0 {
        return Some(());
    }
    let buffer: u64 = field(ctx, &SKB)?;
    let kind = kind(field(ctx, &STATE)?, field(ctx, &SK)?);
    let local: Words = field(ctx, &LOCAL_ADDRESS)?;
    let remote: Words = field(ctx, &REMOTE_ADDRESS)?;
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
fn answered_again(ctx: &TracePointContext) -> Option<()> {
    let local: Words = field(ctx, &SYNACK_LOCAL)?;
    let remote: Words = field(ctx, &SYNACK_REMOTE)?;
    let record = record(&LOSS, place_of(&local, &remote))?;
    add_at(record, SEGMENTS + HANDSHAKE, 1);
    Some(())
}

#[inline(always)]
fn windows(ctx: &TracePointContext) -> Option<()> {
    let send: u32 = field(ctx, &SEND_WINDOW)?;
    let receive: u32 = field(ctx, &RECEIVE_WINDOW)?;
    if send != 0 && receive != 0 {
        return Some(());
    }
    let local: SocketAddress = field(ctx, &PROBE_LOCAL)?;
    let remote: SocketAddress = field(ctx, &PROBE_REMOTE)?;
    let record = record(&LOSS, place_of(&local.address(), &remote.address()))?;
    add_at(record, WINDOW_TRANSMIT, u64::from(send == 0));
    add_at(record, WINDOW_RECEIVE, u64::from(receive == 0));
    Some(())
}
