//! What agents see becomes part of what is known of a job. A host knows a job by the number in a control group or by the
//! UID of a pod; the scheduler may have another name for it, which may be told before or after.

use crate::differ::SAME_NS;
use crate::facts::{Facts, Key, Place, Source};
use crate::registry::{Jobs, Registry, RegistryError, Run};
use crate::view::{Job, end_of, start_of};
use crate::watch::Sighting;
use std::collections::{BTreeMap, BTreeSet};

/// Processes that are seen again within this time are of the same run, if nobody tells of another.
const AGAIN_NS: i64 = 600_000_000_000;

/// A job as agents see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// `slurm`, `kubernetes` and the like.
    pub scheduler: String,
    /// `""` if its hosts do not know it.
    pub cluster: String,
    /// As hosts know it.
    pub native: String,
    /// As the scheduler prints it, if its processes know that; else the same.
    pub task: String,
    /// Owner of its processes; `""` if not known.
    pub user: String,
    /// By host, as agents name it.
    pub hosts: BTreeMap<String, Place>,
    /// When the first of its processes was seen without a break since, Unix nanoseconds.
    pub first_ns: i64,
    /// When one was seen last, Unix nanoseconds.
    pub last_ns: i64,
}

/// A run that agents saw, and of which they have not seen the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Its job.
    pub key: Key,
    /// Names by which hosts may know it.
    pub names: Vec<String>,
    /// Where it was seen.
    pub hosts: Vec<String>,
    /// When it was seen first, Unix nanoseconds.
    pub start_ns: i64,
}

impl Registry {
    /// Agents see jobs: each joins what is known of it. If nothing is, it is a job of its own where `alone` says so. Tells
    /// for each which it is; one that cannot be kept is told in the log.
    pub fn observe(&self, all: &[Sighting], alone: &dyn Fn(&Seen) -> bool) -> Vec<Option<Key>> {
        let mut jobs = self.jobs();
        let own = |seen: &Seen| Key { cluster: seen.cluster.clone(), id: seen.task.clone() };
        let key = |s: &Sighting| self.find(&jobs, &s.seen).or_else(|| alone(&s.seen).then(|| own(&s.seen)));
        let keys: Vec<Option<Key>> = all.iter().map(key).collect();
        // Together: a job of a thousand hosts is written once, not a thousand times.
        let mut of: BTreeMap<&Key, Vec<&Seen>> = BTreeMap::new();
        for (key, sighting) in keys.iter().zip(all) {
            key.iter().for_each(|key| of.entry(key).or_default().push(&sighting.seen));
        }
        for (key, seen) in of {
            if let Err(error) = self.observe_one(&mut jobs, key, seen) {
                tracing::warn!(%error, "a job that agents see is not kept");
            }
        }
        keys
    }

    fn observe_one(&self, jobs: &mut Jobs, key: &Key, mut seen: Vec<&Seen>) -> Result<(), RegistryError> {
        let first = |seen: &[&Seen]| seen.iter().map(|s| s.first_ns).min().unwrap_or(0);
        let Some(last) = jobs.last(key) else {
            return self.write(jobs, key, Run { number: 1, said: BTreeMap::new() }, &seen);
        };
        if end_of(&last.said).is_some_and(|end| first(&seen) > end.saturating_add(AGAIN_NS)) {
            let next = Run { number: last.number + 1, said: BTreeMap::new() };
            return self.write(jobs, key, next, &seen);
        }
        // What was seen before it began is of the run before, and most looks see what was seen already.
        let start = start_of(&last.said);
        seen.retain(|s| s.last_ns >= start && !adds_nothing(jobs, last, key, s));
        if seen.is_empty() {
            return Ok(());
        }
        let run = last.clone();
        self.write(jobs, key, run, &seen)
    }

    /// Runs that agents saw, and of which they have not seen the end; those that are over for long are left alone.
    pub fn observed(&self, now_ns: i64) -> Vec<Observed> {
        let jobs = self.jobs();
        let last = jobs.runs.iter().filter_map(|(key, runs)| Some((key, runs.last()?)));
        let open = last.filter_map(|(key, run)| {
            let seen = run.said.get(&Source::Agent).filter(|f| f.end_ns.is_none())?;
            let long = end_of(&run.said).is_some_and(|end| end.saturating_add(AGAIN_NS) < now_ns);
            (!long).then(|| Observed {
                key: key.clone(),
                names: run.said.values().flat_map(|f| f.aliases.clone()).chain([key.id.clone()]).collect(),
                hosts: seen.hosts.keys().cloned().collect(),
                start_ns: seen.start_ns.unwrap_or(0),
            })
        });
        open.collect()
    }

    /// Which job this is: of those with one of its names that run, or ran a moment ago.
    fn find(&self, jobs: &Jobs, seen: &Seen) -> Option<Key> {
        let exact = Key { cluster: seen.cluster.clone(), id: seen.task.clone() };
        let (agents, recent) = (self.agents(), |run: &Run| {
            end_of(&run.said).is_none_or(|end| seen.first_ns <= end.saturating_add(AGAIN_NS))
        });
        let cluster = |key: &&Key| seen.cluster.is_empty() || key.cluster.is_empty() || key.cluster == seen.cluster;
        let mut found: Vec<(&Key, &Run)> = [&seen.task, &seen.native]
            .into_iter()
            .flat_map(|name| jobs.named(name))
            .filter(cluster)
            .filter_map(|key| Some((key, jobs.last(key).filter(|run| recent(run))?)))
            .collect();
        found.sort_by_key(|(key, run)| (key.cluster == seen.cluster, key.id == seen.task, start_of(&run.said)));
        found.dedup_by_key(|(key, _)| *key);
        let told_there = |run: &Run| {
            let told = || run.said.values().map(|f| &f.hosts);
            // Agents' own names are there after the first time; to look through those of schedulers takes longer.
            seen.hosts.keys().any(|host| told().any(|hosts| hosts.contains_key(host)))
                || seen.hosts.keys().any(|host| told().any(|hosts| hosts.keys().any(|h| agents.is(h, host))))
        };
        let on = found.iter().rev().find(|(_, run)| told_there(run));
        let certain = |(key, _): &(&Key, &Run)| found.len() == 1 || key.cluster == seen.cluster;
        let best = on.or_else(|| found.last().filter(|last| certain(last))).map(|(key, _)| (*key).clone());
        best.or_else(|| jobs.last(&exact).map(|_| exact))
    }

    /// Adds to a run what was seen of it.
    fn write(&self, jobs: &mut Jobs, key: &Key, mut run: Run, all: &[&Seen]) -> Result<(), RegistryError> {
        let told = run.said.iter().filter(|(s, _)| **s != Source::Agent);
        let began = told.clone().filter_map(|(_, f)| f.start_ns).min();
        let over = told.filter_map(|(_, f)| f.end_ns).min();
        let facts = run.said.entry(Source::Agent).or_default();
        let first = all.iter().map(|s| s.first_ns).min().unwrap_or(0);
        facts.start_ns.get_or_insert(first.max(began.unwrap_or(i64::MIN)));
        if over.is_none() && facts.end_ns.is_some_and(|end| all.iter().any(|s| s.last_ns > end)) {
            facts.end_ns = None;
        }
        let mut new = Facts::default();
        for seen in all {
            new.labels.insert("scheduler".into(), seen.scheduler.clone());
            // In a container all are root.
            if !seen.user.is_empty() && seen.scheduler != "kubernetes" {
                new.user = Some(seen.user.clone());
            }
            if seen.native != key.id {
                new.aliases.push(seen.native.clone());
            }
            for (host, place) in &seen.hosts {
                let there = new.hosts.entry(host.clone()).or_default();
                let known = facts.hosts.get(host).map_or(&[][..], |known| &known.devices);
                for device in known.iter().chain(&place.devices) {
                    if !there.devices.contains(device) {
                        there.devices.push(device.clone());
                    }
                }
            }
        }
        new.aliases.sort_unstable();
        new.aliases.dedup();
        facts.amend(new);
        self.check(key, facts)?;
        self.put(jobs, key, run).map(|_| ())
    }

    /// The job that a hook means by a number: hooks of nodes know no other name of an array's task or of a part of a
    /// heterogeneous job. What a scheduler lists is meant as it is.
    pub(crate) fn meant(&self, jobs: &Jobs, source: Source, key: &Key, at_ns: i64) -> Key {
        let open = |run: &Run| end_of(&run.said).is_none_or(|end| at_ns <= end.saturating_add(SAME_NS));
        if source.is_asked() || jobs.last(key).is_some_and(open) {
            return key.clone();
        }
        let of_cluster = jobs.named(&key.id).filter(|k| k.cluster == key.cluster);
        let mut others = of_cluster.filter(|k| *k != key && jobs.last(k).is_some_and(open));
        others.next().unwrap_or(key).clone()
    }

    /// Takes over what agents saw and hooks said under another name of the job, before anybody told that it is one.
    pub(crate) fn join(&self, jobs: &mut Jobs, key: &Key) -> Result<Option<Job>, RegistryError> {
        let Some(run) = jobs.last(key) else { return Ok(None) };
        let (start, end) = (start_of(&run.said), end_of(&run.said).unwrap_or(i64::MAX));
        let stray = |other: &Key| {
            let Some(said) = jobs.last(other).map(|run| &run.said) else { return false };
            let overlaps = start_of(said) <= end.saturating_add(SAME_NS)
                && end_of(said).is_none_or(|end| end >= start.saturating_sub(SAME_NS));
            // Hosts may not know their cluster; who tells of a job does.
            let seen = other.cluster.is_empty() && said.keys().eq([&Source::Agent]);
            let told = other.cluster == key.cluster && said.keys().all(|s| !s.is_asked());
            other != key && overlaps && (seen || told)
        };
        let names = run.said.values().flat_map(|f| &f.aliases).chain([&key.id]);
        let others: BTreeSet<Key> = names.flat_map(|name| jobs.named(name)).filter(|k| stray(k)).cloned().collect();
        let mut run = run.clone();
        if others.is_empty() {
            return Ok(None);
        }
        for other in &others {
            for (source, facts) in self.take(jobs, other)?.map(|other| other.said).into_iter().flatten() {
                run.said.entry(source).and_modify(|known| merge(known, &facts)).or_insert(facts);
            }
        }
        self.put(jobs, key, run).map(Some)
    }
}

/// What one source says of a job under two names.
fn merge(facts: &mut Facts, other: &Facts) {
    let end = facts.end_ns.zip(other.end_ns).map(|(a, b)| a.max(b));
    let start = facts.start_ns.into_iter().chain(other.start_ns).min();
    let mut both = other.clone();
    both.amend(std::mem::take(facts));
    *facts = Facts { start_ns: start, end_ns: end, ..both };
}

/// Whether a run has all of it already.
fn adds_nothing(jobs: &Jobs, run: &Run, key: &Key, seen: &Seen) -> bool {
    let Some(known) = run.said.get(&Source::Agent) else { return false };
    let hosts = seen.hosts.iter().all(|(host, place)| {
        known.hosts.get(host).is_some_and(|there| place.devices.iter().all(|d| there.devices.contains(d)))
    });
    let named = seen.native == key.id || jobs.named(&seen.native).any(|k| k == key);
    hosts && named && known.end_ns.is_none_or(|end| seen.last_ns <= end)
}
