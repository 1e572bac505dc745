//! When a job is over that agents saw: its processes are gone from all hosts, and agents tell that they looked. An agent
//! that is silent proves nothing.

use crate::SECOND;
use crate::facts::{Key, Source};
use crate::observe::{Observed, Seen};
use crate::registry::Registry;
use std::collections::{BTreeMap, HashMap};

/// An agent has looked without finding a process for so long: it is gone.
const GONE_NS: i64 = 30 * SECOND;
/// So many of its own samples may be missing before a process counts as gone.
const MISSED: i64 = 3;
/// An agent of which nothing is heard for so long is silent.
const SILENT_NS: i64 = 300 * SECOND;
/// A job of which all agents are silent for so long is over since.
const LOST_NS: i64 = 86_400 * SECOND;

/// A job on a host, as samples tell it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    /// What is seen; of one host.
    pub seen: Seen,
    /// Longest time between two samples.
    pub gap_ns: i64,
}

/// What a look at the samples shows.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Jobs, one entry for each host.
    pub sightings: Vec<Sighting>,
    /// When the agent of each host told that it looks for processes, ascending, Unix nanoseconds.
    pub looked: HashMap<String, Vec<i64>>,
}

/// Where a job was seen last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastSeen {
    /// Unix nanoseconds.
    pub at_ns: i64,
    /// As in [`Sighting`].
    pub gap_ns: i64,
}

/// Knows when each job was seen last on each host.
#[derive(Default)]
pub struct Watch {
    last: HashMap<Key, BTreeMap<String, LastSeen>>,
}

/// Whether a job that nobody else knows is one.
pub type Alone<'a> = &'a dyn Fn(&Seen) -> bool;
/// When a job was seen last on its hosts, where this was before the look.
pub type Before<'a> = &'a dyn Fn(&Observed) -> BTreeMap<String, LastSeen>;

impl Watch {
    /// Tells the registry what a look shows. True when something is new.
    pub fn round(
        &mut self,
        registry: &Registry,
        look: &Look,
        now_ns: i64,
        alone: Alone<'_>,
        before: Before<'_>,
    ) -> bool {
        let mut changed = false;
        let known: Vec<Observed> = registry.observed(now_ns);
        let keys = registry.observe(&look.sightings, alone);
        for (key, Sighting { seen, gap_ns }) in keys.into_iter().zip(&look.sightings) {
            let Some(key) = key else { continue };
            let hosts = self.last.entry(key).or_default();
            for host in seen.hosts.keys() {
                let last = hosts.entry(host.clone()).or_default();
                last.at_ns = last.at_ns.max(seen.last_ns);
                last.gap_ns = last.gap_ns.max(*gap_ns);
            }
        }
        let open = registry.observed(now_ns);
        changed |= known != open;
        self.last.retain(|key, _| open.binary_search_by(|o| o.key.cmp(key)).is_ok());
        for job in open {
            let last = self.last.entry(job.key.clone()).or_insert_with(|| before(&job));
            // Of a host that is known from before the start of this process nothing else may be known.
            job.hosts.iter().filter(|h| !last.contains_key(*h)).cloned().collect::<Vec<_>>().into_iter().for_each(
                |h| {
                    last.insert(h, LastSeen { at_ns: job.start_ns, gap_ns: 0 });
                },
            );
            if let Some(end) = over(last, &look.looked, now_ns) {
                changed = true;
                let begin = registry.get(&job.key).map_or(job.start_ns, |j| j.start_ns);
                if let Err(error) = registry.end(Source::Agent, &job.key, end.max(begin)) {
                    tracing::warn!(%error, "the end of a job that agents saw is not kept");
                }
            }
        }
        changed
    }
}

/// When it ended, if it did.
fn over(hosts: &BTreeMap<String, LastSeen>, looked: &HashMap<String, Vec<i64>>, now_ns: i64) -> Option<i64> {
    let last = hosts.values().map(|l| l.at_ns).max()?;
    let (mut gone, mut silent) = (false, true);
    for (host, seen) in hosts {
        let looks = looked.get(host).map_or(&[][..], Vec::as_slice);
        let after = &looks[looks.partition_point(|at| *at <= seen.at_ns)..];
        // Looks of one agent that span the time: one that has just started again may not have looked at processes yet.
        let span = after.last().zip(after.first()).map_or(0, |(last, first)| last - first);
        if span >= GONE_NS.max(MISSED * seen.gap_ns) {
            gone = true;
        } else if now_ns - looks.last().copied().unwrap_or(0).max(seen.at_ns) < SILENT_NS {
            return None;
        } else {
            silent &= now_ns - seen.at_ns >= LOST_NS;
        }
    }
    (gone || silent).then_some(last)
}
