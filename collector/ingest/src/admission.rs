//! Admission control by sender while memory is short: serves as many senders as fit, and those completely. Taking a
//! little of each would fill memory with the labels of all and then serve none.
//!
//! A sender is the host whose samples a request carries. If a request carries those of several hosts or of none, the
//! sender is its address.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_wire::proto::Field;
use parking_lot::Mutex;

use super::gate::{Reason, Rejection};
use crate::priority_class::{fields, messages};
use fabriclens_core::endpoint::jitter;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::Caller;

/// Memory reserved for a new sender, generously: labels, rows and detector state of a host with 8 HCAs. A new sender
/// takes a while to use it, and the reservation holds that long.
const SENDER_BYTES: u64 = 2 << 20;
const SETTLE_TIME: Duration = Duration::from_secs(30);
/// Share of the memory limit that new senders may fill, in percent. The rest is for the rows of present senders until
/// they are written to blocks, and for writing the blocks.
const FILL_PERCENT: u64 = 70;
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
    /// Free memory at the last reading, bytes.
    free: u64,
    full_since: Option<Instant>,
    closed_until: Option<Instant>,
    relieved: Option<Instant>,
}

/// An admitted sender.
struct Served {
    last: Instant,
    /// Its number in the order of admission.
    number: u64,
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
        s.free_slots() < TIGHT_SENDERS || s.closed_until.is_some()
    }

    /// Admits present senders, and new ones while they fit.
    ///
    /// # Errors
    /// [`Rejection`] if the sender is new and does not fit; it may retry.
    pub fn admit(&self, sender: &str, now: Instant) -> Result<(), Rejection> {
        let mut s = self.state.lock();
        if s.served.contains_key(sender) || s.free_slots() > 0 && s.closed_until.is_none() {
            return Ok(());
        }
        if s.rejected.len() < MAX_SENDERS {
            s.rejected.insert(sender.into(), now);
        }
        Err(Rejection { reason: Reason::Senders, after: RETRY_AFTER / 2 + jitter(RETRY_AFTER / 2) })
    }

    /// Records an accepted request of a sender.
    pub fn record(&self, sender: &str, now: Instant) {
        let mut s = self.state.lock();
        if let Some(known) = s.served.get_mut(sender) {
            known.last = now;
            return;
        }
        s.rejected.remove(sender);
        if s.served.len() < MAX_SENDERS {
            s.admitted += 1;
            s.settling.push(now);
            let number = s.admitted;
            s.served.insert(sender.into(), Served { last: now, number });
        }
    }

    /// Reads the free memory, and evicts senders if memory has been almost full for long; called several times a
    /// second. Returns whether the store should write rows to blocks to free memory.
    pub fn update(&self, now: Instant) -> bool {
        let mut s = self.state.lock();
        s.rejected.retain(|_, last| now.saturating_duration_since(*last) < 2 * RETRY_AFTER);
        s.free = (self.pressure.limit() / 100 * FILL_PERCENT).saturating_sub(self.pressure.used());
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
        let relieves = s.free_slots() == 0
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
    /// Number of new senders that fit.
    fn free_slots(&self) -> u64 {
        (self.free / SENDER_BYTES).saturating_sub(self.settling.len() as u64)
    }

    /// Evicts the newest senders; returns their number.
    fn evict_newest(&mut self) -> usize {
        let mut numbers: Vec<u64> = self.served.values().map(|served| served.number).collect();
        if numbers.len() < 2 {
            return 0;
        }
        let stay = numbers.len() - numbers.len().div_ceil(EVICT_FRACTION);
        let first = *numbers.select_nth_unstable(stay).1;
        self.served.retain(|_, served| served.number < first);
        numbers.len() - stay
    }
}

/// Returns the sender of an uncompressed request: a host that the caller may write as, or else the address.
pub(super) fn sender<'a>(protocol: Protocol, body: &'a [u8], caller: &Caller) -> Cow<'a, str> {
    let host = match protocol {
        Protocol::OtlpGrpc | Protocol::OtlpHttp => host(body),
        Protocol::RemoteWrite | Protocol::Import | Protocol::Own => None,
    };
    let host = host.filter(|host| host.len() <= HOST_BYTES && caller.hosts.has(host));
    host.map_or_else(|| Cow::Owned(caller.address.to_string()), Cow::Borrowed)
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
    use fabriclens_server::auth::Hosts;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use prost::Message as _;
    use serde_json::json;

    const MIB: u64 = 1 << 20;

    /// Admission with so many MiB of 1000 in use.
    fn at(used: u64) -> Admission {
        Admission::new(Arc::new(Pressure::fixed(used * MIB, 1000 * MIB)))
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
        let of_bound = |host| sender(Protocol::OtlpGrpc, &of(&[Some(host)]), &bound).into_owned();
        assert_eq!(
            [of_bound("GPU-01"), of_bound("gpu-02")],
            ["GPU-01", "10.0.0.1"],
            "a bound caller cannot claim another host"
        );
        let sender = |protocol, body: &[u8]| sender(protocol, body, &caller).into_owned();
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
            admission.admit(host, now).unwrap();
            admission.record(host, now);
        }
        assert!(!admission.update(now), "all are served");
        let rejection = admission.admit("c", now).unwrap_err();
        assert!(
            rejection.reason == Reason::Senders && rejection.after >= RETRY_AFTER / 2 && rejection.after <= RETRY_AFTER,
            "{rejection:?}"
        );
        admission.admit("a", now).unwrap();
        assert_eq!(admission.count(), [2, 1]);
        assert!(admission.update(now) && !admission.update(now + SETTLE_TIME / 2), "relief is requested at intervals");
        assert!(admission.admit("c", now + SETTLE_TIME / 2).is_err(), "the reservation of new senders still holds");
        admission.update(now + SETTLE_TIME);
        admission.admit("c", now + SETTLE_TIME).expect("the reservation has expired");
        admission.record("c", now + SETTLE_TIME);
        assert_eq!(admission.count(), [3, 0], "an admitted sender is no longer counted as rejected");
        admission.record("a", now + SETTLE_TIME + IDLE_TIME);
        admission.forget_idle(now + SETTLE_TIME + IDLE_TIME);
        assert_eq!(admission.count(), [1, 0]);
        assert!(!at(100).tight());
    }

    #[test]
    fn newest_senders_are_evicted_when_memory_stays_full() {
        let (admission, begin) = (at(920), Instant::now());
        for host in ["a", "b", "c", "d", "e"] {
            admission.record(host, begin);
        }
        admission.update(begin);
        admission.update(begin + EVICT_AFTER / 2);
        assert_eq!(admission.count(), [5, 0], "memory has not been full for long enough");
        admission.update(begin + EVICT_AFTER);
        assert_eq!(admission.count(), [3, 0]);
        assert!(
            admission.admit("d", begin + EVICT_AFTER).is_err() && admission.admit("c", begin + EVICT_AFTER).is_ok()
        );
        admission.update(begin + EVICT_AFTER * 3 / 2);
        assert_eq!(admission.count(), [3, 1], "no second eviction before memory could be freed");
        admission.pressure.set_used(100 * MIB);
        admission.update(begin + EVICT_AFTER * 2);
        assert!(admission.tight() && admission.admit("d", begin + EVICT_AFTER * 2).is_err(), "closed for a while");
        admission.update(begin + EVICT_AFTER + CLOSED_TIME);
        assert!(!admission.tight() && admission.admit("d", begin + EVICT_AFTER + CLOSED_TIME).is_ok());
        assert_eq!(admission.count()[0], 3, "no further eviction");
    }

    #[test]
    fn the_last_sender_is_never_evicted() {
        let (admission, begin) = (at(990), Instant::now());
        admission.record("gateway", begin);
        admission.update(begin);
        admission.update(begin + EVICT_AFTER);
        assert_eq!(admission.count(), [1, 0]);
    }
}
