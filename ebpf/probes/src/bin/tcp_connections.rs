//! Counts attempts to connect, their outcome and duration, and connections that end by a reset. Programs:
//! - `sock:inet_sock_set_state`: a socket changes its state; states outside the handshake are ignored;
//! - `tcp:tcp_receive_reset`, `tcp:tcp_send_reset`: a reset is received or sent.
#![no_std]
#![no_main]

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::{LruHashMap, PerCpuArray};
use aya_ebpf::programs::TracePointContext;
use fabriclens_ebpf_abi::Address;
use fabriclens_ebpf_abi::histogram::{SUM, bucket};
use fabriclens_ebpf_abi::tcp_connections::{
    ABANDONED, ACTIVE, ATTEMPTS, FAILURES, NO_PORT, OTHER, PASSIVE, REFUSED, RESET, RESETS_RECEIVED, RESETS_SENT,
    Record, TIMEOUT, UNKNOWN, UNREACHABLE,
};
use fabriclens_probes::counter::{add_at, dropped, record};
use fabriclens_probes::memory::member;
use fabriclens_probes::offsets;
use fabriclens_probes::peers::{SocketAddress, place_of};
use fabriclens_probes::trace::{Event, has, on_event};

offsets!(SK, OLD, NEW, PROTOCOL, PORT, LOCAL_ADDRESS, REMOTE_ADDRESS);
offsets!(RECEIVED_SK, RECEIVED_LOCAL, RECEIVED_REMOTE);
offsets!(SENT_SK, SENT_STATE, SENT_LOCAL_V6, SENT_REMOTE_V6, SENT_LOCAL, SENT_REMOTE);
offsets!(SK_ERROR);

/// One record per interface and destination class. The agent sets the number of records before loading.
#[map]
static CONNECTIONS: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// Start of each attempt to connect, ns of the monotonic clock, by the address of the socket. If an entry was evicted,
/// its connection counts as dropped once it is established.
#[map]
static STARTS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(8192, 0);

const TCP: u16 = 6;
// TCP states, numbered as in `/proc/net/tcp`.
const ESTABLISHED: i32 = 1;
const SYN_SENT: i32 = 2;
const SYN_RECV: i32 = 3;
const CLOSE: i32 = 7;
const LISTEN: i32 = 10;
const NEW_SYN_RECV: i32 = 12;
const TIME_WAIT: i32 = 6;

#[tracepoint]
fn inet_sock_set_state(ctx: TracePointContext) -> u32 {
    on_event(&ctx, changed)
}

#[tracepoint]
fn tcp_receive_reset(ctx: TracePointContext) -> u32 {
    on_event(&ctx, received)
}

#[tracepoint]
fn tcp_send_reset(ctx: TracePointContext) -> u32 {
    on_event(&ctx, sent)
}

#[inline(always)]
fn changed(event: &Event) -> Option<()> {
    let old: i32 = event.field(&OLD)?;
    let new: i32 = event.field(&NEW)?;
    let began = new == SYN_SENT;
    if !began && old != SYN_SENT && old != SYN_RECV || event.field::<u16>(&PROTOCOL)? != TCP {
        return Some(());
    }
    // Simultaneous open: the outcome is still unknown.
    if old == SYN_SENT && new == SYN_RECV {
        return Some(());
    }
    let local = event.address(&LOCAL_ADDRESS)?;
    let remote = event.address(&REMOTE_ADDRESS)?;
    let socket: u64 = event.field(&SK)?;
    let record = record(&CONNECTIONS, place_of(&local, &remote))?;
    // SAFETY: the helper only reads the monotonic clock.
    let now = unsafe { bpf_ktime_get_ns() };
    if began {
        add_at(record, ATTEMPTS, 1);
        return STARTS.insert(&socket, &now, 0).ok();
    }
    // SAFETY: an entry is one word and belongs to one socket.
    let start = unsafe { STARTS.get(&socket) }.copied();
    if start.is_some() {
        _ = STARTS.remove(&socket);
    }
    let own = old == SYN_SENT || start.is_some();
    match (new, own) {
        (ESTABLISHED, false) => add_at(record, PASSIVE, 1),
        (ESTABLISHED, true) => {
            add_at(record, ACTIVE, 1);
            match start {
                Some(start) => {
                    let micros = u32::try_from(now.saturating_sub(start) / 1000).unwrap_or(u32::MAX);
                    add_at(record, bucket(micros), 1);
                    add_at(record, SUM, u64::from(micros));
                }
                None => dropped(),
            }
        }
        (CLOSE, true) => add_at(record, FAILURES + reason(socket, event.field(&PORT)?), 1),
        _ => {}
    }
    Some(())
}

/// Reason of a failed attempt, from the socket's error, which the kernel sets before it changes the state.
#[inline(always)]
fn reason(socket: u64, port: u16) -> usize {
    if port == 0 {
        return NO_PORT;
    }
    match member::<i32>(socket, &SK_ERROR) {
        None => UNKNOWN,
        Some(0) => ABANDONED,
        Some(111) => REFUSED,
        Some(110) => TIMEOUT,
        Some(104) => RESET,
        // ENETUNREACH, EHOSTDOWN, EHOSTUNREACH.
        Some(101 | 112 | 113) => UNREACHABLE,
        Some(_) => OTHER,
    }
}

#[inline(always)]
fn received(event: &Event) -> Option<()> {
    let socket: u64 = event.field(&RECEIVED_SK)?;
    // SAFETY: the value of the entry is not read.
    if unsafe { STARTS.get(&socket) }.is_some() {
        // The socket is connecting: this is a failed attempt, not the end of a connection.
        return Some(());
    }
    let local = event.address(&RECEIVED_LOCAL)?;
    let remote = event.address(&RECEIVED_REMOTE)?;
    add_at(record(&CONNECTIONS, place_of(&local, &remote))?, RESETS_RECEIVED, 1);
    Some(())
}

#[inline(always)]
fn sent(event: &Event) -> Option<()> {
    // Resets also answer segments without a connection; those end none.
    let state: i32 = event.field(&SENT_STATE)?;
    let nothing = matches!(state, 0 | SYN_SENT | SYN_RECV | NEW_SYN_RECV | LISTEN | TIME_WAIT);
    if nothing || event.field::<u64>(&SENT_SK)? == 0 {
        return Some(());
    }
    let (local, remote): (Address, Address) = if has(&SENT_LOCAL_V6) {
        (event.address(&SENT_LOCAL_V6)?, event.address(&SENT_REMOTE_V6)?)
    } else {
        let (local, remote): (SocketAddress, SocketAddress) = (event.field(&SENT_LOCAL)?, event.field(&SENT_REMOTE)?);
        (local.address(), remote.address())
    };
    add_at(record(&CONNECTIONS, place_of(&local, &remote))?, RESETS_SENT, 1);
    Some(())
}
