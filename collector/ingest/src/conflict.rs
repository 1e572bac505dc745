//! Detects two agents that send under one host name, which would mix their samples into nonsensical series.
//!
//! One point per resource and request is compared, which is cheap. One agent alone cannot cause any of the signs: the
//! same series and time with another value; a start time that returns after a newer one; two addresses whose samples
//! overlap in time repeatedly. Nothing is refused.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabriclens_store::RowGroup;
use fabriclens_wire::decode::DecodeError;
use fabriclens_wire::proto::{Field, Reader};
use opentelemetry_proto::tonic::resource::v1::Resource;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use prost::Message as _;

/// Most resources that are watched; beyond it all are forgotten.
const WATCHED: usize = 200_000;
/// Largest resource that is inspected, bytes.
const RESOURCE: usize = 64 << 10;
/// Most hosts with their own counter and log line.
const HOSTS: usize = 1000;
/// Minimum interval of warnings per host.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Overlaps of two addresses further apart than this are a move or a replay, not a conflict.
const OVERLAP_WINDOW: Duration = Duration::from_secs(60);

/// Last point seen of a resource.
#[derive(Clone, Copy)]
struct Seen {
    peer: IpAddr,
    point: Point,
    overlap: Option<Instant>,
}

/// First series of a resource in one request: hash of its labels, start time, first and last time, value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    key: u64,
    start: u64,
    from: u64,
    to: u64,
    value: u64,
}

/// Detector of host name conflicts, shared by all requests.
pub(super) struct ConflictDetector {
    seen: Mutex<HashMap<u64, Seen>>,
    warned: Mutex<HashMap<String, Instant>>,
    counter: IntCounterVec,
    hash: RandomState,
}

impl ConflictDetector {
    pub(super) fn new(counter: IntCounterVec) -> Self {
        Self { seen: Mutex::default(), warned: Mutex::default(), counter, hash: RandomState::new() }
    }

    /// Inspects an OTLP request; malformed ones are left to the decoder.
    pub(super) fn otlp(&self, peer: IpAddr, body: &[u8]) {
        for field in Reader::new(body) {
            let Ok((1, Field::Bytes(metrics))) = field else { continue };
            let Ok(Some((resource, point))) = self.first_point(metrics) else { continue };
            // The decoder refuses it, and it would take many times its size.
            if resource.len() > RESOURCE {
                continue;
            }
            if let Some(why) = self.observe(peer, point) {
                self.report(&host_of(resource), peer, why);
            }
        }
    }

    /// Inspects the first series of rows without start times (remote write), if it names a host.
    pub(super) fn rows(&self, peer: IpAddr, group: &RowGroup) {
        let (Some(labels), [first, ..], Some(value)) = (group.series.first(), &group.times[..], group.values.first())
        else {
            return;
        };
        let host = labels.get("host");
        if host.is_empty() {
            return;
        }
        let time = |ms: i64| u64::try_from(ms).unwrap_or(0);
        let (from, to) = (time(*first), time(*group.times.last().unwrap_or(first)));
        let point = Point { key: self.hash.hash_one(labels), start: 0, from, to, value: value.to_bits() };
        if let Some(why) = self.observe(peer, point) {
            self.report(host, peer, why);
        }
    }

    fn observe(&self, peer: IpAddr, now: Point) -> Option<&'static str> {
        let mut seen = self.seen.lock();
        if seen.len() > WATCHED {
            seen.clear();
        }
        let Some(last) = seen.get_mut(&now.key) else {
            seen.insert(now.key, Seen { peer, point: now, overlap: None });
            return None;
        };
        let before = *last;
        *last = Seen { peer, point: now, overlap: before.overlap };
        if now.from == before.point.from && now.value != before.point.value {
            return Some("one series has two values at the same time");
        }
        let older_writer_lives = now.start != 0 && now.start < before.point.start && now.from >= before.point.start;
        if older_writer_lives {
            return Some("counters with two different start times alternate");
        }
        if peer != before.peer && now.from <= before.point.to && now.point_differs(&before.point) {
            let again = before.overlap.is_some_and(|at| at.elapsed() < OVERLAP_WINDOW);
            last.overlap = Some(Instant::now());
            return again.then_some("two addresses send overlapping samples");
        }
        None
    }

    fn report(&self, host: &str, peer: IpAddr, why: &str) {
        let mut warned = self.warned.lock();
        let known = warned.contains_key(host);
        let name = if known || warned.len() < HOSTS { host } else { "other" };
        self.counter.with_label_values(&[name]).inc();
        if warned.get(name).is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return;
        }
        warned.insert(name.to_owned(), Instant::now());
        tracing::warn!(
            host, %peer, evidence = why,
            "two agents send under one host name, so their samples mix; set a different host name in the configuration of one"
        );
    }

    /// Returns the bytes of the resource and its first number, preferring sums, because they carry start times.
    fn first_point<'a>(&self, metrics: &'a [u8]) -> Result<Option<(&'a [u8], Point)>, DecodeError> {
        let (mut resource, mut found): (&[u8], Option<Number<'_>>) = (&[], None);
        for field in Reader::new(metrics) {
            match field? {
                (1, Field::Bytes(b)) => resource = b,
                (2, Field::Bytes(scope)) if found.is_none_or(|f| !f.2) => {
                    for metric in Reader::new(scope) {
                        let (2, Field::Bytes(metric)) = metric? else { continue };
                        let this = number_of(metric)?;
                        if this.is_some_and(|t| t.2) || found.is_none() {
                            found = this.or(found);
                        }
                        if found.is_some_and(|f| f.2) {
                            break;
                        }
                    }
                }
                _ => {}
            }
        }
        let Some((name, data, _)) = found else { return Ok(None) };
        let mut point: Option<Point> = None;
        for field in Reader::new(data) {
            let (1, Field::Bytes(body)) = field? else { continue };
            let this = self.point(resource, name, body)?;
            match &mut point {
                None => point = Some(this),
                Some(first) if first.key == this.key => first.to = first.to.max(this.to),
                Some(_) => {}
            }
        }
        Ok(point.map(|p| (resource, p)))
    }

    fn point(&self, resource: &[u8], name: &[u8], body: &[u8]) -> Result<Point, DecodeError> {
        let mut point = Point::default();
        let mut key = self.hash.hash_one((resource, name));
        for field in Reader::new(body) {
            match field? {
                (2, Field::Fixed64(v)) => point.start = v,
                (3, Field::Fixed64(v)) => (point.from, point.to) = (v, v),
                (4 | 6, Field::Fixed64(v)) => point.value = v,
                (7, Field::Bytes(attribute)) => key = self.hash.hash_one((key, attribute)),
                _ => {}
            }
        }
        point.key = key;
        Ok(point)
    }
}

impl Point {
    /// Whether it is another point, not the same one sent again after a lost answer.
    fn point_differs(&self, other: &Self) -> bool {
        self.from != other.from
    }
}

/// Name and data of a gauge or sum, and whether it is a sum.
type Number<'a> = (&'a [u8], &'a [u8], bool);

/// The numbers of a metric, if it is a gauge or a sum.
fn number_of(metric: &[u8]) -> Result<Option<Number<'_>>, DecodeError> {
    let (mut name, mut data): (&[u8], _) = (&[], None);
    for field in Reader::new(metric) {
        match field? {
            (1, Field::Bytes(b)) => name = b,
            (5, Field::Bytes(b)) => data = Some((b, false)),
            (7, Field::Bytes(b)) => data = Some((b, true)),
            _ => {}
        }
    }
    Ok(data.map(|(d, sum)| (name, d, sum)))
}

fn host_of(resource: &[u8]) -> String {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let resource = Resource::decode(resource).unwrap_or_default();
    let text = |key: &str| {
        resource.attributes.iter().find(|a| a.key == key).and_then(|a| match a.value.as_ref()?.value.as_ref()? {
            Value::StringValue(s) => Some(s.chars().take(200).collect::<String>()),
            _ => None,
        })
    };
    text("host")
        .or_else(|| text("host.name"))
        .or_else(|| text("net.host.name"))
        .or_else(|| text("service.instance.id"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_core::telemetry::Telemetry;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Steps of (peer, start, from, to, value); how many were called a conflict.
    fn conflicts(steps: &[(IpAddr, u64, u64, u64, u64)]) -> usize {
        let watch = ConflictDetector::new(Telemetry::new().unwrap().host_conflicts);
        let point = |s: &(IpAddr, u64, u64, u64, u64)| Point { key: 1, start: s.1, from: s.2, to: s.3, value: s.4 };
        steps.iter().filter(|s| watch.observe(s.0, point(s)).is_some()).count()
    }

    #[test]
    fn two_agents_are_detected() {
        assert!(
            conflicts(&[(A, 100, 200, 200, 1), (A, 150, 201, 201, 9), (A, 100, 202, 202, 2)]) > 0,
            "alternating start times are a conflict"
        );
        assert!(conflicts(&[(A, 0, 200, 200, 1), (B, 0, 200, 200, 2)]) > 0, "two values at one time are a conflict");
        let turns = [(A, 0, 100, 150, 1), (B, 0, 120, 170, 9), (A, 0, 151, 200, 2), (B, 0, 171, 220, 9)];
        assert!(conflicts(&turns) > 0, "repeated overlaps of two addresses are a conflict");
    }

    #[test]
    fn one_agent_is_no_conflict() {
        assert_eq!(
            conflicts(&[(A, 1, 10, 19, 1), (A, 1, 20, 29, 2), (A, 1, 20, 29, 2)]),
            0,
            "a repeated point is no conflict"
        );
        assert_eq!(
            conflicts(&[(A, 1, 10, 19, 1), (A, 30, 31, 39, 0), (A, 1, 20, 29, 1), (A, 30, 40, 49, 0)]),
            0,
            "spool"
        );
        assert_eq!(
            conflicts(&[(A, 100, 200, 200, 1), (A, 50, 60, 60, 0), (A, 50, 200, 200, 5)]),
            0,
            "a clock that was set back is no conflict"
        );
        assert_eq!(
            conflicts(&[(A, 1, 10, 19, 1), (B, 1, 15, 24, 1), (B, 1, 25, 34, 1)]),
            0,
            "a changed address is no conflict"
        );
        assert_eq!(
            conflicts(&[(A, 1, 10, 19, 1), (B, 1, 20, 29, 1), (A, 1, 30, 39, 1)]),
            0,
            "a proxy with two addresses"
        );
    }
}
