//! Which senders are served while memory is short: as many as fit, and those whole. Taking a little of each would fill
//! memory with the labels of all and then serve none.
//!
//! A sender is a host, whoever sends for it; where a request tells of several or of none, it is the address.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabriclens_wire::proto::Field;
use parking_lot::Mutex;

use super::gate::{Away, Reason};
use crate::priority_class::{fields, messages};
use fabriclens_core::endpoint::jitter;
use fabriclens_core::pressure::{Level, Pressure};
use fabriclens_core::protocol::Protocol;
use fabriclens_server::auth::Caller;

/// Bytes for a new sender, generously: labels, rows, and what verdicts know, of a host with 8 HCAs. It takes some time
/// until it has them, and so long they are kept free.
const SENDER: u64 = 2 << 20;
const SETTLES: Duration = Duration::from_secs(30);
/// Part of the memory, in per cent, that new ones may fill: what is above is for the rows of those that are served, until
/// they are blocks, and for making the blocks.
const FILLED: u64 = 70;
/// With room for fewer new ones than this, requests are looked at for their sender before they are taken.
const FEW: u64 = 128;
/// How long memory may be all but full, although all is done for it, until some that are served have to go; and the part
/// of them that goes, one of so many.
const PATIENCE: Duration = Duration::from_secs(60);
const PART: usize = 4;
/// How long after that nobody new is taken, so that they do not come and go.
const CLOSED: Duration = Duration::from_secs(600);
/// While some are turned away, rows are made blocks this often, so that there is room for new ones although memory is not
/// short.
const RELIEF: Duration = Duration::from_secs(120);
/// After this time of silence a sender is a new one.
const SILENT: Duration = Duration::from_secs(600);
/// When those come back who are turned away: after a half of this to the whole.
const AFTER: Duration = Duration::from_secs(60);
/// Senders that are remembered at most, of those that are served and of those that are not.
const SENDERS: usize = 200_000;
/// Bytes of a host's name, of which the name system allows 253.
const NAME: usize = 255;

/// See the module.
pub struct Admission {
    pressure: Arc<Pressure>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: HashMap<Box<str>, Served>,
    /// Turned away, and when last.
    away: HashMap<Box<str>, Instant>,
    /// Senders that were ever new.
    came: u64,
    /// When the newest came.
    settling: Vec<Instant>,
    /// Bytes that were free when memory was last looked at.
    free: u64,
    full_since: Option<Instant>,
    closed_until: Option<Instant>,
    relieved: Option<Instant>,
}

/// A sender that is served.
struct Served {
    last: Instant,
    /// The how manieth it was.
    came: u64,
}

impl Admission {
    /// Nobody is served yet.
    pub fn new(pressure: Arc<Pressure>) -> Self {
        let admission = Self { pressure, state: Mutex::default() };
        admission.look(Instant::now());
        admission
    }

    /// Whether a request should be looked at for its sender: while there is plenty for all, each is taken.
    pub fn tight(&self) -> bool {
        let s = self.state.lock();
        s.room() < FEW || s.closed_until.is_some()
    }

    /// Lets in who is served already, and new ones while there is room for them.
    ///
    /// # Errors
    /// [`Away`].
    pub fn admit(&self, sender: &str, now: Instant) -> Result<(), Away> {
        let mut s = self.state.lock();
        if s.served.contains_key(sender) || s.room() > 0 && s.closed_until.is_none() {
            return Ok(());
        }
        if s.away.len() < SENDERS {
            s.away.insert(sender.into(), now);
        }
        Err(Away { reason: Reason::Senders, after: AFTER / 2 + jitter(AFTER / 2) })
    }

    /// A request of a sender is taken.
    pub fn took(&self, sender: &str, now: Instant) {
        let mut s = self.state.lock();
        if let Some(known) = s.served.get_mut(sender) {
            known.last = now;
            return;
        }
        s.away.remove(sender);
        if s.served.len() < SENDERS {
            s.came += 1;
            s.settling.push(now);
            let came = s.came;
            s.served.insert(sender.into(), Served { last: now, came });
        }
    }

    /// Looks at what memory is left, and has some go when it is all but full for long; told a few times a second. Whether
    /// the store should make room for new ones.
    pub fn look(&self, now: Instant) -> bool {
        let mut s = self.state.lock();
        s.away.retain(|_, last| now.saturating_duration_since(*last) < 2 * AFTER);
        s.free = (self.pressure.limit() / 100 * FILLED).saturating_sub(self.pressure.used());
        s.settling.retain(|came| now.saturating_duration_since(*came) < SETTLES);
        s.closed_until = s.closed_until.filter(|until| now < *until);
        if self.pressure.level() < Level::High {
            s.full_since = None;
        } else if now.saturating_duration_since(*s.full_since.get_or_insert(now)) >= PATIENCE {
            s.full_since = Some(now);
            let gone = s.dismiss();
            if gone > 0 {
                s.closed_until = Some(now + CLOSED);
                let served = s.served.len();
                tracing::warn!(
                    gone,
                    served,
                    minutes = CLOSED.as_secs() / 60,
                    "memory is short for long (limits.memory): the hosts that came last are told to come back, and no new \
                     ones are taken for a while"
                );
            }
        }
        let relieves = s.room() == 0
            && !s.away.is_empty()
            && s.relieved.is_none_or(|last| now.saturating_duration_since(last) >= RELIEF);
        if relieves {
            s.relieved = Some(now);
        }
        relieves
    }

    /// Forgets senders that have gone.
    pub fn forget_idle(&self, now: Instant) {
        let mut s = self.state.lock();
        s.served.retain(|_, served| now.saturating_duration_since(served.last) < SILENT);
    }

    /// Senders that are served, and those that were turned away and not served since.
    pub fn count(&self) -> [usize; 2] {
        let s = self.state.lock();
        [s.served.len(), s.away.len()]
    }
}

impl State {
    /// How many new ones fit.
    fn room(&self) -> u64 {
        (self.free / SENDER).saturating_sub(self.settling.len() as u64)
    }

    /// Those that came last go.
    fn dismiss(&mut self) -> usize {
        let mut came: Vec<u64> = self.served.values().map(|served| served.came).collect();
        if came.len() < 2 {
            return 0;
        }
        let stay = came.len() - came.len().div_ceil(PART);
        let first = *came.select_nth_unstable(stay).1;
        self.served.retain(|_, served| served.came < first);
        came.len() - stay
    }
}

/// Who sends a plain request that came by this way: a host that the caller may write as, or else an address.
pub(super) fn sender<'a>(way: Protocol, body: &'a [u8], caller: &Caller) -> Cow<'a, str> {
    let host = match way {
        Protocol::OtlpGrpc | Protocol::OtlpHttp => host(body),
        Protocol::RemoteWrite | Protocol::Import | Protocol::Own => None,
    };
    let host = host.filter(|host| host.len() <= NAME && caller.hosts.has(host));
    host.map_or_else(|| Cow::Owned(caller.address.to_string()), Cow::Borrowed)
}

/// The attribute `host` that all resources of an OTLP request have alike.
fn host(body: &[u8]) -> Option<&str> {
    let mut hosts = messages(body, 1).map(host_of);
    let first = hosts.next()??;
    hosts.all(|host| host == Some(first)).then_some(first)
}

/// The same of one `ResourceMetrics`.
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

    /// With so many MiB in use of a thousand.
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
    fn a_sender_is_a_host_or_an_address() {
        let caller = Caller::anybody([10, 0, 0, 1].into());
        let bound = Caller { hosts: Hosts::Only(["gpu-01".to_owned()].into()), ..caller.clone() };
        let of_bound = |host| sender(Protocol::OtlpGrpc, &of(&[Some(host)]), &bound).into_owned();
        assert_eq!([of_bound("GPU-01"), of_bound("gpu-02")], ["GPU-01", "10.0.0.1"], "a name is not invented");
        let sender = |way, body: &[u8]| sender(way, body, &caller).into_owned();
        assert_eq!(sender(Protocol::OtlpGrpc, &of(&[Some(&"x".repeat(300))])), "10.0.0.1", "no host has such a name");
        assert_eq!(sender(Protocol::OtlpGrpc, &of(&[Some("gpu-01"), Some("gpu-01")])), "gpu-01");
        assert_eq!(sender(Protocol::OtlpGrpc, &of(&[Some("gpu-01"), Some("gpu-02")])), "10.0.0.1", "a gateway");
        assert_eq!(sender(Protocol::OtlpHttp, &of(&[Some("gpu-01"), None])), "10.0.0.1");
        assert_eq!(sender(Protocol::OtlpHttp, &of(&[])), "10.0.0.1");
        assert_eq!(sender(Protocol::OtlpHttp, b"\xff\xff nothing that can be read"), "10.0.0.1");
        assert_eq!(sender(Protocol::RemoteWrite, &of(&[Some("gpu-01")])), "10.0.0.1");
    }

    #[test]
    fn who_is_served_stays_and_new_ones_come_while_there_is_room() {
        let (admission, now) = (at(695), Instant::now());
        assert!(admission.tight(), "5 MiB are left for new ones: two of 2 MiB each");
        for host in ["a", "b"] {
            admission.admit(host, now).unwrap();
            admission.took(host, now);
        }
        assert!(!admission.look(now), "all are served");
        let away = admission.admit("c", now).unwrap_err();
        assert!(away.reason == Reason::Senders && away.after >= AFTER / 2 && away.after <= AFTER, "{away:?}");
        admission.admit("a", now).unwrap();
        assert_eq!(admission.count(), [2, 1]);
        assert!(admission.look(now) && !admission.look(now + SETTLES / 2), "room is made now and then");
        assert!(admission.admit("c", now + SETTLES / 2).is_err(), "they have not taken yet what they will");
        admission.look(now + SETTLES);
        admission.admit("c", now + SETTLES).expect("they took less");
        admission.took("c", now + SETTLES);
        assert_eq!(admission.count(), [3, 0], "it is served now");
        admission.took("a", now + SETTLES + SILENT);
        admission.forget_idle(now + SETTLES + SILENT);
        assert_eq!(admission.count(), [1, 0]);
        assert!(!at(100).tight());
    }

    #[test]
    fn who_came_last_goes_when_memory_stays_full_and_does_not_come_back_at_once() {
        let (admission, begin) = (at(920), Instant::now());
        for host in ["a", "b", "c", "d", "e"] {
            admission.took(host, begin);
        }
        admission.look(begin);
        admission.look(begin + PATIENCE / 2);
        assert_eq!(admission.count(), [5, 0], "patience");
        admission.look(begin + PATIENCE);
        assert_eq!(admission.count(), [3, 0]);
        assert!(admission.admit("d", begin + PATIENCE).is_err() && admission.admit("c", begin + PATIENCE).is_ok());
        admission.look(begin + PATIENCE * 3 / 2);
        assert_eq!(admission.count(), [3, 1], "patience again, since it takes time until memory is free");
        admission.pressure.set_used(100 * MIB);
        admission.look(begin + PATIENCE * 2);
        assert!(admission.tight() && admission.admit("d", begin + PATIENCE * 2).is_err(), "closed for a while");
        admission.look(begin + PATIENCE + CLOSED);
        assert!(!admission.tight() && admission.admit("d", begin + PATIENCE + CLOSED).is_ok());
        assert_eq!(admission.count()[0], 3, "no more go");
    }

    #[test]
    fn the_last_one_stays() {
        let (admission, begin) = (at(990), Instant::now());
        admission.took("gateway", begin);
        admission.look(begin);
        admission.look(begin + PATIENCE);
        assert_eq!(admission.count(), [1, 0]);
    }
}
