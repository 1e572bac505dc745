//! Address handles by route. Creating one resolves the next hop, which may block for seconds, so a thread of its own does it.

use super::abi::{Ah, AhAttr, GlobalRoute, Pd};
use super::functions::Functions;
use super::header::{self, flow_label};
use crate::datagrams::{Peer, Route};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most handles of a port.
const MOST: usize = 4096;
/// Requests that wait for the thread.
const WAITING: usize = 64;
/// Time after which a handle that is not used is destroyed.
const UNUSED: Duration = Duration::from_secs(120);
/// Time after which a next hop that did not resolve is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// A handle or the lack of one.
pub enum Found {
    Handle(NonNull<Ah>),
    Resolving,
    Unreachable,
}

enum Entry {
    Resolving,
    Ready(NonNull<Ah>, Instant),
    Unreachable(Instant),
}

/// Pointers that go to the thread and back.
struct Made(Route, Option<NonNull<Ah>>);
// SAFETY: libibverbs is thread safe, and a handle is not bound to the thread that created it.
unsafe impl Send for Made {}
struct Domain(NonNull<Pd>);
// SAFETY: as above; the domain outlives the thread, which is joined before it is freed.
unsafe impl Send for Domain {}

/// The handles of a port.
pub struct AddressHandles {
    functions: &'static Functions,
    /// Whether the flow label of a handle chooses the source port.
    labels: bool,
    entries: HashMap<Route, Entry>,
    /// Tells the thread to leave the rest of its queue.
    stop: Arc<AtomicBool>,
    requests: Option<SyncSender<Route>>,
    made: Receiver<Made>,
    thread: Option<JoinHandle<()>>,
    swept: Instant,
}

impl std::fmt::Debug for AddressHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressHandles").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl AddressHandles {
    /// No handles yet. `gid`: index of the port's GID; `None` on InfiniBand. `labels`: the flow label chooses the source port.
    ///
    /// The caller drops the handles before the protection domain `pd`.
    pub fn new(functions: &'static Functions, pd: NonNull<Pd>, port: u8, gid: Option<u8>, labels: bool) -> Self {
        let (requests, incoming) = sync_channel::<Route>(WAITING);
        let (outgoing, made) = sync_channel(WAITING);
        let (domain, stop) = (Domain(pd), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let domain = domain;
            for route in incoming {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let handle = create(functions, &domain, &route, port, gid);
                if let Err(error) = outgoing.send(Made(route, handle)) {
                    destroy(functions, error.0.1);
                }
            }
        };
        // Without the thread every route stays unreachable.
        let thread = std::thread::Builder::new().name("probe-resolve".into()).stack_size(256 << 10).spawn(work).ok();
        let (entries, swept) = (HashMap::new(), Instant::now());
        Self { functions, labels, entries, stop, requests: Some(requests), made, thread, swept }
    }

    /// Handle of a route; asks the thread for it if there is none.
    pub fn get(&mut self, route: &Route) -> Found {
        let now = Instant::now();
        self.take_made(now);
        let key = key(route, self.labels);
        match self.entries.get_mut(&key) {
            Some(Entry::Ready(handle, used)) => {
                *used = now;
                return Found::Handle(*handle);
            }
            Some(Entry::Resolving) => return Found::Resolving,
            Some(Entry::Unreachable(since)) if now.saturating_duration_since(*since) < RETRY => {
                return Found::Unreachable;
            }
            _ => {}
        }
        self.sweep(now);
        if self.entries.len() >= MOST {
            return Found::Unreachable;
        }
        match self.requests.as_ref().map(|requests| requests.try_send(key)) {
            Some(Ok(())) => _ = self.entries.insert(key, Entry::Resolving),
            Some(Err(TrySendError::Full(_))) => {}
            _ => return Found::Unreachable,
        }
        Found::Resolving
    }

    fn take_made(&mut self, now: Instant) {
        while let Ok(Made(route, handle)) = self.made.try_recv() {
            let entry = handle.map_or(Entry::Unreachable(now), |handle| Entry::Ready(handle, now));
            self.entries.insert(route, entry);
        }
    }

    /// Destroys handles that were not used for a while.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < UNUSED / 4 {
            return;
        }
        self.swept = now;
        let functions = self.functions;
        self.entries.retain(|_, entry| match entry {
            Entry::Ready(handle, used) if now.saturating_duration_since(*used) >= UNUSED => {
                destroy(functions, Some(*handle));
                false
            }
            Entry::Unreachable(since) => now.saturating_duration_since(*since) < RETRY,
            _ => true,
        });
    }
}

/// The part of a route that a handle depends on: routes that differ elsewhere share it.
fn key(route: &Route, labels: bool) -> Route {
    let source_port = if labels && flow_label(route.source_port) != 0 { route.source_port } else { 0 };
    Route { peer: Peer { queue_pair: 0, ..route.peer }, queue_pair: 0, source_port, ..*route }
}

fn create(functions: &Functions, domain: &Domain, route: &Route, port: u8, gid: Option<u8>) -> Option<NonNull<Ah>> {
    let mut attr = AhAttr { service_level: route.service_level, port, ..AhAttr::default() };
    match (gid, route.peer.address) {
        (Some(index), Some(address)) => {
            let octets = header::gid(address);
            let half =
                |at: usize| octets.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_ne_bytes);
            attr.is_global = 1;
            attr.grh = GlobalRoute {
                dgid: [half(0), half(8)],
                flow_label: flow_label(route.source_port),
                sgid_index: index,
                // As NCCL sets it.
                hop_limit: 255,
                traffic_class: route.traffic_class,
            };
        }
        (None, None) => attr.dlid = route.peer.lid,
        _ => return None,
    }
    // SAFETY: the domain exists: its owner joins this thread before it frees it. The attributes live during the call.
    NonNull::new(unsafe { (functions.create_ah)(domain.0.as_ptr(), &raw mut attr) })
}

fn destroy(functions: &Functions, handle: Option<NonNull<Ah>>) {
    if let Some(handle) = handle {
        // SAFETY: the handle exists and nobody uses it after this.
        unsafe { (functions.destroy_ah)(handle.as_ptr()) };
    }
}

impl Drop for AddressHandles {
    fn drop(&mut self) {
        // Ends the thread after the handle that it is creating.
        self.stop.store(true, Ordering::Relaxed);
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() {
                self.take_made(Instant::now());
                std::thread::sleep(Duration::from_millis(1));
            }
            _ = thread.join();
        }
        self.take_made(Instant::now());
        for (_, entry) in self.entries.drain() {
            if let Entry::Ready(handle, _) = entry {
                destroy(self.functions, Some(handle));
            }
        }
    }
}
