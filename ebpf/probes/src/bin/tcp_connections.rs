//! What became of attempts to connect, and connections that ended by a reset. Programs:
//! - `sock:inet_sock_set_state`: a socket changes its state. Only the states of a handshake are looked at further;
//! - `tcp:tcp_receive_reset`, `tcp:tcp_send_reset`: a reset came or went.
#![no_std]
#![no_main]

use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{map, tracepoint};
use aya_ebpf::maps::{LruHashMap, PerCpuArray};
use aya_ebpf::programs::TracePointContext;
use fabriclens_ebpf_abi::histogram::{SUM, bucket};
use fabriclens_ebpf_abi::tcp_connections::{
    ABANDONED, ACTIVE, ATTEMPTS, FAILURES, NO_PORT, OTHER, PASSIVE, REFUSED, RESET, RESETS_RECEIVED, RESETS_SENT,
    Record, TIMEOUT, UNKNOWN, UNREACHABLE,
};
use fabriclens_probes::counter::{add_at, done, dropped, record};
use fabriclens_probes::memory::member;
use fabriclens_probes::offsets;
use fabriclens_probes::peers::{SocketAddress, Words, place_of};
use fabriclens_probes::trace::{field, has};

offsets!(SK, OLD, NEW, PROTOCOL, PORT, LOCAL_ADDRESS, REMOTE_ADDRESS);
offsets!(RECEIVED_SK, RECEIVED_LOCAL, RECEIVED_REMOTE);
offsets!(SENT_SK, SENT_STATE, SENT_LOCAL_V6, SENT_REMOTE_V6, SENT_LOCAL, SENT_REMOTE);
offsets!(SK_ERROR);

/// One record for each interface and class; the agent gives it as many as the host has interfaces.
#[map]
static CONNECTIONS: PerCpuArray<Record> = PerCpuArray::with_max_entries(1, 0);

/// When a socket that is still connecting began to, by its address in the kernel. An entry that had to make way for
/// others is missed when its connection is established, and counted as dropped then.
#[map]
static STARTS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(8192, 0);

const TCP: u16 = 6;
// States as `/proc/net/tcp` and `ss` show them.
const ESTABLISHED: i32 = 1;
const SYN_SENT: i32 = 2;
const SYN_RECV: i32 = 3;
const CLOSE: i32 = 7;
const LISTEN: i32 = 10;
const NEW_SYN_RECV: i32 = 12;
const TIME_WAIT: i32 = 6;

#[tracepoint]
fn inet_sock_set_state(ctx: TracePointContext) -> u32 {
    done(changed(&ctx))
}

#[tracepoint]
fn tcp_receive_reset(ctx: TracePointContext) -> u32 {
    done(received(&ctx))
}

#[tracepoint]
fn tcp_send_reset(ctx: TracePointContext) -> u32 {
    done(sent(&ctx))
}

#[inline(always)]
fn changed(ctx: &TracePointContext) -> Option<()> {
    let old: i32 = field(ctx, &OLD)?;
    let new: i32 = field(ctx, &NEW)?;
    let began = new == SYN_SENT;
    if !began && old != SYN_SENT && old != SYN_RECV || field::<u16>(ctx, &PROTOCOL)? != TCP {
        return Some(());
    }
    // Both ends began at once; it is not decided yet.
    if old == SYN_SENT && new == SYN_RECV {
        return Some(());
    }
    let local: Words = field(ctx, &LOCAL_ADDRESS)?;
    let remote: Words = field(ctx, &REMOTE_ADDRESS)?;
    let socket: u64 = field(ctx, &SK)?;
    let record = record(&CONNECTIONS, place_of(&local, &remote))?;
    // SAFETY: the helper has no side effect.
    let now = unsafe { bpf_ktime_get_ns() };
    if began {
        add_at(record, ATTEMPTS, 1);
        return STARTS.insert(&socket, &now, 0).ok();
    }
    // SAFETY: entries are words, and of this socket alone.
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
        (CLOSE, true) => add_at(record, FAILURES + reason(socket, field(ctx, &PORT)?), 1),
        _ => {}
    }
    Some(())
}

/// Why a socket ends that was connecting: its error, which the kernel sets before the state.
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
fn received(ctx: &TracePointContext) -> Option<()> {
    let socket: u64 = field(ctx, &RECEIVED_SK)?;
    // SAFETY: only whether there is an entry counts.
    if unsafe { STARTS.get(&socket) }.is_some() {
        // It is connecting: a failed attempt, no connection that ends.
        return Some(());
    }
    let local: Words = field(ctx, &RECEIVED_LOCAL)?;
    let remote: Words = field(ctx, &RECEIVED_REMOTE)?;
    add_at(record(&CONNECTIONS, place_of(&local, &remote))?, RESETS_RECEIVED, 1);
    Some(())
}

#[inline(always)]
fn sent(ctx: &TracePointContext) -> Option<()> {
    // Resets answer segments that belong to nothing, too: those end no connection.
    let state: i32 = field(ctx, &SENT_STATE)?;
    let nothing = matches!(state, 0 | SYN_SENT | SYN_RECV | NEW_SYN_RECV | LISTEN | TIME_WAIT);
    if nothing || field::<u64>(ctx, &SENT_SK)? == 0 {
        return Some(());
    }
    let (local, remote): (Words, Words) = if has(&SENT_LOCAL_V6) {
        (field(ctx, &SENT_LOCAL_V6)?, field(ctx, &SENT_REMOTE_V6)?)
    } else {
        let (local, remote): (SocketAddress, SocketAddress) = (field(ctx, &SENT_LOCAL)?, field(ctx, &SENT_REMOTE)?);
        (local.address(), remote.address())
    };
    add_at(record(&CONNECTIONS, place_of(&local, &remote))?, RESETS_SENT, 1);
    Some(())
}
