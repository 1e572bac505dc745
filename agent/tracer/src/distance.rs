//! How many switches lie before a target. It bounds the TTL of traces, so that no datagram of a trace arrives.
//!
//! The search uses the port of traceroute, where the target's kernel answers "port unreachable", or nothing. Switches may
//! choose another way for another port; in a fabric with equal costs all ways are equally long. A target that does not answer
//! is behind the last switch that did: a trace up to that switch cannot arrive either.

use crate::sweep::End;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Destination port of the search.
pub const PORT: u16 = 33_434;
/// Time that a known distance is used.
const KNOWN: Duration = Duration::from_secs(600);
/// Time after which a target that did not answer is searched for again; doubles up to [`LONGEST`].
const UNKNOWN: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(960);

/// Switches before a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Switches that a trace may ask for.
    pub routers: u8,
    /// Whether the target is behind the last of them; otherwise there may be more.
    pub is_known: bool,
}

impl Distance {
    /// From the end of a search and the switches that it found.
    pub fn of(end: End, hops: &[Vec<IpAddr>]) -> Self {
        if let End::Reached(ttl) = end {
            return Self { routers: ttl.saturating_sub(1), is_known: true };
        }
        let last = hops.iter().rposition(|hop| !hop.is_empty()).map_or(0, |position| position + 1);
        Self { routers: u8::try_from(last).unwrap_or(u8::MAX), is_known: false }
    }
}

/// Distances of the targets of one port.
#[derive(Debug, Default)]
pub struct Distances(HashMap<IpAddr, Entry>);

#[derive(Debug)]
struct Entry {
    distance: Distance,
    until: Instant,
    /// Searches in a row that the target did not answer.
    failures: u32,
}

impl Distances {
    /// Distance of a target; `None`: it must be searched for.
    pub fn get(&self, target: IpAddr, now: Instant) -> Option<Distance> {
        self.0.get(&target).filter(|entry| now < entry.until).map(|entry| entry.distance)
    }

    /// When a target is searched for again.
    pub fn until(&self, target: IpAddr) -> Option<Instant> {
        self.0.get(&target).map(|entry| entry.until)
    }

    /// Sets what a search found.
    pub fn set(&mut self, target: IpAddr, distance: Distance, now: Instant) {
        let failures = match self.0.get(&target) {
            _ if distance.is_known => 0,
            Some(entry) => entry.failures + 1,
            None => 1,
        };
        let lasts = match failures {
            0 => KNOWN,
            many => (UNKNOWN * 2_u32.saturating_pow((many - 1).min(8))).min(LONGEST),
        };
        self.0.insert(target, Entry { distance, until: now + lasts, failures });
    }

    /// Makes the next trace search for the target anew.
    pub fn expire(&mut self, target: IpAddr, now: Instant) {
        if let Some(entry) = self.0.get_mut(&target).filter(|entry| entry.distance.is_known) {
            entry.until = now;
        }
    }

    /// Forgets all other targets.
    pub fn retain(&mut self, is_target: impl Fn(IpAddr) -> bool) {
        self.0.retain(|target, _| is_target(*target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> IpAddr {
        "10.0.0.2".parse().unwrap()
    }

    #[test]
    fn a_silent_target_is_behind_the_last_switch_that_answered() {
        let router: IpAddr = "10.9.0.1".parse().unwrap();
        let hops = [vec![router], vec![], vec![router], vec![], vec![], vec![]];
        assert_eq!(Distance::of(End::Done, &hops), Distance { routers: 3, is_known: false });
        assert_eq!(Distance::of(End::Done, &[vec![], vec![]]), Distance { routers: 0, is_known: false });
        assert_eq!(Distance::of(End::Reached(4), &hops[..3]), Distance { routers: 3, is_known: true });
        assert_eq!(Distance::of(End::Reached(1), &[]), Distance { routers: 0, is_known: true }, "on the same network");
        assert_eq!(Distance::of(End::Unreachable, &hops[..1]), Distance { routers: 1, is_known: false });
    }

    #[test]
    fn a_target_that_does_not_answer_is_asked_ever_less_often() {
        let (mut distances, mut now) = (Distances::default(), Instant::now());
        let unknown = Distance { routers: 0, is_known: false };
        for seconds in [60, 120, 240, 480, 960, 960] {
            distances.set(target(), unknown, now);
            assert_eq!(distances.until(target()), Some(now + Duration::from_secs(seconds)));
            now += Duration::from_secs(seconds);
            assert_eq!(distances.get(target(), now), None);
        }
        distances.set(target(), Distance { routers: 3, is_known: true }, now);
        assert!(distances.get(target(), now + KNOWN / 2).is_some());
        distances.expire(target(), now);
        assert_eq!(distances.get(target(), now), None);
        distances.set(target(), unknown, now);
        assert_eq!(distances.until(target()), Some(now + UNKNOWN), "counted anew after it answered");
    }
}
