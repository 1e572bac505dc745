//! Admission control by sender while memory is short: serves as many senders as fit, and those completely. Taking a
//! little of each would fill memory with the labels of all and then serve none.
//!
//! A sender is the host whose samples a request carries. If a request carries those of several hosts or of none, the
//! sender is its address. Callers whose credential names no host can invent hosts, so part of the memory is kept for those
//! that are bound to hosts, and the others are evicted first.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_base::host_name;
use fabriclens_wire::proto::Field;
use parking_lot::Mutex;

use super::gate::{Reason, Rejection};
use crate::priority_class::{fields, messages};
use fabriclens_core::endpoint::jitter;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::{Caller, Hosts};

/// Memory reserved for a new sender, generously: labels, rows and detector state of a host with 8 HCAs. A new sender
/// takes a while to use it, and the reservation holds that long.
const SENDER_BYTES: u64 = 2 << 20;
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Share of the memory limit that new senders may fill, in percent. The rest is for the rows of present senders until
/// they are written to blocks, and for writing the blocks.
const FILL_PERCENT: u64 = 70;
/// Share of the memory limit within it that is kept for new senders that are bound to hosts, in percent.
const BOUND_PERCENT: u64 = 10;
/// If fewer new senders than this fit, requests are inspected for their sender before they are accepted.
const TIGHT_SENDERS: u64 = 128;
/// Present senders are evicted if memory stays almost full for this long, and the fraction that is evicted: one in so
/// many.
const EVICT_AFTER: Duration = Duration::from_secs(60);
const EVICT_FRACTION: usize = 4;
/// Time after an eviction in which no new senders are admitted, so that senders do not alternate.
const CLOSED_TIME: Duration = Duration::from_secs(600);
/// While senders are rejected, the store is asked to write rows to blocks at this interval, which frees memory for new
/// senders even if memory is not short.
const RELIEF_INTERVAL: Duration = Duration::from_secs(120);
/// A sender that was silent for this long counts as new.
const IDLE_TIME: Duration = Duration::from_secs(600);
/// Retry delay of rejected senders: between half of this and all.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Most senders that are remembered, admitted and rejected each.
const MAX_SENDERS: usize = 200_000;
/// Longest host name, bytes; DNS allows 253.
const HOST_BYTES: usize = 255;

/// Decides which senders are served while memory is short.
pub struct Admission {
    pressure: Arc<Pressure>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: HashMap<Box<str>, Served>,
    /// Rejected senders, with the time of their last rejection.
    rejected: HashMap<Box<str>, Instant>,
    /// Number of senders ever admitted.
    admitted: u64,
    /// Admission times of the newest senders.
    settling: Vec<Instant>,
    /// Free memory at the last reading, and what of it is kept for senders bound to hosts, bytes.
    free: u64,
    kept: u64,
    full_since: Option<Instant>,
    closed_until: Option<Instant>,
    relieved: Option<Instant>,
}

/// An admitted sender.
struct Served {
    last: Instant,
    /// Its number in the order of admission.
    number: u64,
    /// Whether its credential names its host.
    bound: bool,
}

/// A sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSender<'a> {
    /// Host, in the form in which equal names are equal texts, or address.
    name: Cow<'a, str>,
    /// Whether the request names one host that the caller may write as.
    is_host: bool,
    /// Whether its credential names its host.
    bound: bool,
}

impl RequestSender<'_> {
    /// Whether the request names one host that the caller may write as.
    pub(super) fn is_host(&self) -> bool {
        self.is_host
    }
}

impl Admission {
    /// Creates the admission control without any sender.
    pub fn new(pressure: Arc<Pressure>) -> Self {
        let admission = Self { pressure, state: Mutex::default() };
        admission.update(Instant::now());
        admission
    }

    /// Whether requests must be inspected for their sender; while memory is plentiful all are accepted.
    pub fn tight(&self) -> bool {
        let s = self.state.lock();
        s.free_slots(false) < TIGHT_SENDERS || s.closed_until.is_some()
    }

    /// Admits present senders, and new ones while they fit.
    ///
    /// # Errors
    /// [`Rejection`] if the sender is new and does not fit; it may retry.
    pub fn admit(&self, sender: &RequestSender<'_>, now: Instant) -> Result<(), Rejection> {
        let mut s = self.state.lock();
        if s.served.contains_key(&*sender.name) || s.free_slots(sender.bound) > 0 && s.closed_until.is_none() {
            return Ok(());
        }
        if s.rejected.len() < MAX_SENDERS {
            s.rejected.insert((&*sender.name).into(), now);
        }
        Err(Rejection { reason: Reason::Senders, after: RETRY_AFTER / 2 + jitter(RETRY_AFTER / 2) })
    }

    /// Records an accepted request of a sender.
    pub fn record(&self, sender: &RequestSender<'_>, now: Instant) {
        let mut s = self.state.lock();
        if let Some(known) = s.served.get_mut(&*sender.name) {
            known.last = now;
            known.bound |= sender.bound;
            return;
        }
        s.rejected.remove(&*sender.name);
        if s.served.len() < MAX_SENDERS {
            s.admitted += 1;
            s.settling.push(now);
            let number = s.admitted;
            s.served.insert((&*sender.name).into(), Served { last: now, number, bound: sender.bound });
        }
    }

    /// Reads the free memory, and evicts senders if memory has been almost full for long; called several times a
    /// second. Returns whether the store should write rows to blocks to free memory.
    pub fn update(&self, now: Instant) -> bool {
        let mut s = self.state.lock();
        s.rejected.retain(|_, last| now.saturating_duration_since(*last) < 2 * RETRY_AFTER);
        let limit = self.pressure.limit();
        s.free = (limit / 100 * FILL_PERCENT).saturating_sub(self.pressure.used());
        s.kept = limit / 100 * BOUND_PERCENT;
        s.settling.retain(|admitted| now.saturating_duration_since(*admitted) < SETTLE_TIME);
        s.closed_until = s.closed_until.filter(|until| now < *until);
        if self.pressure.level() < Level::High {
            s.full_since = None;
        } else if now.saturating_duration_since(*s.full_since.get_or_insert(now)) >= EVICT_AFTER {
            s.full_since = Some(now);
            let evicted = s.evict_newest();
            if evicted > 0 {
                s.closed_until = Some(now + CLOSED_TIME);
                let served = s.served.len();
                tracing::warn!(
                    evicted,
                    served,
                    minutes = CLOSED_TIME.as_secs() / 60,
                    "memory stays short (limits.memory); the newest senders are evicted and no new ones are admitted for a while"
                );
            }
        }
        let relieves = s.free_slots(false) == 0
            && !s.rejected.is_empty()
            && s.relieved.is_none_or(|last| now.saturating_duration_since(last) >= RELIEF_INTERVAL);
        if relieves {
            s.relieved = Some(now);
        }
        relieves
    }

    /// Forgets senders that have been silent for long.
    pub fn forget_idle(&self, now: Instant) {
        let mut s = self.state.lock();
        s.served.retain(|_, served| now.saturating_duration_since(served.last) < IDLE_TIME);
    }

    /// Number of admitted senders, and of senders rejected since they were last admitted.
    pub fn count(&self) -> [usize; 2] {
        let s = self.state.lock();
        [s.served.len(), s.rejected.len()]
    }
}

impl State {
    /// Number of new senders that fit: of those that are bound to hosts, or of others.
    fn free_slots(&self, bound: bool) -> u64 {
        let free = if bound { self.free } else { self.free.saturating_sub(self.kept) };
        (free / SENDER_BYTES).saturating_sub(self.settling.len() as u64)
    }

    /// Evicts the newest senders, those that are bound to hosts last; returns their number.
    fn evict_newest(&mut self) -> usize {
        let order = |served: &Served| (!served.bound, served.number);
        let mut all: Vec<(bool, u64)> = self.served.values().map(order).collect();
        if all.len() < 2 {
            return 0;
        }
        let stay = all.len() - all.len().div_ceil(EVICT_FRACTION);
        let first = *all.select_nth_unstable(stay).1;
        self.served.retain(|_, served| order(served) < first);
        all.len() - stay
    }
}

/// Returns the sender of an uncompressed request: a host that the caller may write as, or else the address.
pub(super) fn sender<'a>(protocol: Protocol, body: &'a [u8], caller: &Caller) -> RequestSender<'a> {
    let host = match protocol {
        Protocol::OtlpGrpc | Protocol::OtlpHttp => host(body),
        Protocol::RemoteWrite | Protocol::Import | Protocol::Own => None,
    };
    let host = host.filter(|host| host.len() <= HOST_BYTES && caller.hosts.has(host));
    // A host that may write its name in any case is one sender.
    let key = |host: &'a str| match host.bytes().any(|b| b.is_ascii_uppercase()) {
        true => Cow::Owned(host_name::key(host)),
        false => Cow::Borrowed(host),
    };
    let name = host.map_or_else(|| Cow::Owned(caller.address.to_string()), key);
    // Without authentication there is nobody for whom memory could be kept.
    RequestSender { name, is_host: host.is_some(), bound: caller.hosts != Hosts::Any || caller.name.is_none() }
}

/// The `host` attribute that all resources of an OTLP request have in common.
fn host(body: &[u8]) -> Option<&str> {
    let mut hosts = messages(body, 1).map(host_of);
    let first = hosts.next()??;
    hosts.all(|host| host == Some(first)).then_some(first)
}

/// The `host` attribute of a `ResourceMetrics`.
fn host_of(metrics: &[u8]) -> Option<&str> {
    messages(messages(metrics, 1).next()?, 1).find_map(|attribute| {
        let mut fields = fields(attribute);
        match (fields.next()?, fields.next()?) {
            ((1, Field::Bytes(b"host")), (2, Field::Bytes(value))) => {
                std::str::from_utf8(messages(value, 1).next()?).ok()
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use prost::Message as _;
    use serde_json::json;

    const MIB: u64 = 1 << 20;

    /// Admission with so many MiB of 1000 in use.
    fn at(used: u64) -> Admission {
        Admission::new(Arc::new(Pressure::fixed(used * MIB, 1000 * MIB)))
    }

    fn bound(name: &str) -> RequestSender<'_> {
        RequestSender { name: name.into(), is_host: true, bound: true }
    }

    fn unbound(name: &str) -> RequestSender<'_> {
        RequestSender { name: name.into(), is_host: true, bound: false }
    }

    fn of(hosts: &[Option<&str>]) -> Vec<u8> {
        let resource = |host: &Option<&str>| {
            let other = json!({"key": "device", "value": {"stringValue": "mlx5_0"}});
            let host = host.map(|host| json!({"key": "host", "value": {"stringValue": host}}));
            let attributes: Vec<_> = [other].into_iter().chain(host).collect();
            json!({"resource": {"attributes": attributes}})
        };
        let request = json!({"resourceMetrics": hosts.iter().map(resource).collect::<Vec<_>>()});
        serde_json::from_value::<ExportMetricsServiceRequest>(request).unwrap().encode_to_vec()
    }

    #[test]
    fn sender_is_a_host_or_an_address() {
        let caller = Caller::anonymous([10, 0, 0, 1].into());
        let bound = Caller { hosts: Hosts::Only(["gpu-01".to_owned()].into()), ..caller.clone() };
        let of_bound = |host| {
            let body = of(&[Some(host)]);
            let sender = sender(Protocol::OtlpGrpc, &body, &bound);
            (sender.name.clone().into_owned(), sender.is_host())
        };
        assert_eq!(of_bound("GPU-01"), ("gpu-01".into(), true), "in any case it is one sender");
        assert_eq!(of_bound("gpu-02"), ("10.0.0.1".into(), false), "a bound caller cannot claim another host");
        let sender = |protocol, body: &[u8]| sender(protocol, body, &caller).name.into_owned();
        assert_eq!(sender(Protocol::OtlpGrpc, &of(&[Some(&"x".repeat(300))])), "10.0.0.1", "too long for a host name");
        assert_eq!(sender(Protocol::OtlpGrpc, &of(&[Some("gpu-01"), Some("gpu-01")])), "gpu-01");
        assert_eq!(
            sender(Protocol::OtlpGrpc, &of(&[Some("gpu-01"), Some("gpu-02")])),
            "10.0.0.1",
            "several hosts count as their gateway"
        );
        assert_eq!(sender(Protocol::OtlpHttp, &of(&[Some("gpu-01"), None])), "10.0.0.1");
        assert_eq!(sender(Protocol::OtlpHttp, &of(&[])), "10.0.0.1");
        assert_eq!(sender(Protocol::OtlpHttp, b"\xff\xff nothing that can be read"), "10.0.0.1");
        assert_eq!(sender(Protocol::RemoteWrite, &of(&[Some("gpu-01")])), "10.0.0.1");
    }

    #[test]
    fn present_senders_stay_and_new_ones_fill_free_memory() {
        let (admission, now) = (at(695), Instant::now());
        assert!(admission.tight(), "5 MiB are free: two senders of 2 MiB each");
        for host in ["a", "b"] {
            admission.admit(&bound(host), now).unwrap();
            admission.record(&bound(host), now);
        }
        assert!(!admission.update(now), "all are served");
        let rejection = admission.admit(&bound("c"), now).unwrap_err();
        assert!(
            rejection.reason == Reason::Senders && rejection.after >= RETRY_AFTER / 2 && rejection.after <= RETRY_AFTER,
            "{rejection:?}"
        );
        admission.admit(&bound("a"), now).unwrap();
        assert_eq!(admission.count(), [2, 1]);
        assert!(admission.update(now) && !admission.update(now + SETTLE_TIME / 2), "relief is requested at intervals");
        assert!(
            admission.admit(&bound("c"), now + SETTLE_TIME / 2).is_err(),
            "the reservation of new senders still holds"
        );
        admission.update(now + SETTLE_TIME);
        admission.admit(&bound("c"), now + SETTLE_TIME).expect("the reservation has expired");
        admission.record(&bound("c"), now + SETTLE_TIME);
        assert_eq!(admission.count(), [3, 0], "an admitted sender is no longer counted as rejected");
        admission.record(&bound("a"), now + SETTLE_TIME + IDLE_TIME);
        admission.forget_idle(now + SETTLE_TIME + IDLE_TIME);
        assert_eq!(admission.count(), [1, 0]);
        assert!(!at(100).tight());
    }

    #[test]
    fn newest_senders_are_evicted_when_memory_stays_full() {
        let (admission, begin) = (at(920), Instant::now());
        for host in ["a", "b", "c", "d", "e"] {
            admission.record(&bound(host), begin);
        }
        admission.update(begin);
        admission.update(begin + EVICT_AFTER / 2);
        assert_eq!(admission.count(), [5, 0], "memory has not been full for long enough");
        admission.update(begin + EVICT_AFTER);
        assert_eq!(admission.count(), [3, 0]);
        assert!(
            admission.admit(&bound("d"), begin + EVICT_AFTER).is_err()
                && admission.admit(&bound("c"), begin + EVICT_AFTER).is_ok()
        );
        admission.update(begin + EVICT_AFTER * 3 / 2);
        assert_eq!(admission.count(), [3, 1], "no second eviction before memory could be freed");
        admission.pressure.set_used(100 * MIB);
        admission.update(begin + EVICT_AFTER * 2);
        assert!(
            admission.tight() && admission.admit(&bound("d"), begin + EVICT_AFTER * 2).is_err(),
            "closed for a while"
        );
        admission.update(begin + EVICT_AFTER + CLOSED_TIME);
        assert!(!admission.tight() && admission.admit(&bound("d"), begin + EVICT_AFTER + CLOSED_TIME).is_ok());
        assert_eq!(admission.count()[0], 3, "no further eviction");
    }

    #[test]
    fn memory_is_kept_for_senders_that_are_bound_to_hosts() {
        let (admission, now) = (at(595), Instant::now());
        for n in 0..100 {
            let name = format!("host-{n}");
            let invented = unbound(&name);
            if admission.admit(&invented, now).is_ok() {
                admission.record(&invented, now);
            }
        }
        assert_eq!(admission.count()[0], 2, "5 MiB below the part that is kept: two senders of 2 MiB each");
        for n in 0..50 {
            let own = format!("gpu-{n}");
            admission.admit(&bound(&own), now).unwrap();
            admission.record(&bound(&own), now);
        }
        assert!(admission.admit(&bound("gpu-50"), now).is_err());
        admission.record(&unbound("gpu-0"), now);
        admission.pressure.set_used(990 * MIB);
        admission.update(now);
        admission.update(now + EVICT_AFTER);
        let served = &admission.state.lock().served;
        assert_eq!(served.len(), 39);
        assert!(served.values().all(|served| served.bound), "the others are evicted first");
    }

    #[test]
    fn the_last_sender_is_never_evicted() {
        let (admission, begin) = (at(990), Instant::now());
        admission.record(&bound("gateway"), begin);
        admission.update(begin);
        admission.update(begin + EVICT_AFTER);
        assert_eq!(admission.count(), [1, 0]);
    }
}
