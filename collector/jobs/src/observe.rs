//! Merges what agents see into the registry. A host knows a job by the number in a control group or by the UID of a pod; the
//! scheduler may report the same job under another id, before or after.

use crate::claims::ListedHosts;
use crate::disagreements::TOLERANCE_NS;
use crate::record::{JobKey, JobRecord, Source};
use crate::registry::{Jobs, Registry, RegistryError, Run};
use crate::sender::is_host;
use crate::sighting::{OpenRun, SeenJob, Sighting};
use crate::view::{Job, run_end, run_start};
use std::collections::{BTreeMap, BTreeSet};

/// Processes that reappear within this time belong to the same run, unless another source reports a new one.
const REAPPEAR_NS: i64 = 600_000_000_000;

impl Registry {
    /// Merges sightings into the known jobs. A sighting that matches no job becomes one if `standalone` says so. Returns the
    /// key of each sighting's job, `None` where the host only claims it; failures to store are logged.
    pub fn observe(&self, all: &[Sighting], standalone: &dyn Fn(&SeenJob) -> bool) -> Vec<Option<JobKey>> {
        let mut jobs = self.jobs();
        let own = |seen: &SeenJob| JobKey { cluster: seen.cluster.clone(), id: seen.task.clone() };
        let key = |s: &Sighting| self.match_run(&jobs, &s.seen).or_else(|| standalone(&s.seen).then(|| own(&s.seen)));
        let mut keys: Vec<Option<JobKey>> = all.iter().map(key).collect();
        // Grouped, so that a job of a thousand hosts is written once.
        let mut by_key: BTreeMap<JobKey, Vec<usize>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            key.iter().for_each(|key| by_key.entry(key.clone()).or_default().push(at));
        }
        let mut failed = (0_usize, None);
        for (key, mut of_key) in by_key {
            // An id that comes again long after its run is another run.
            let is_current = |run: &&Run| of_key.iter().any(|at| is_recent(run, &all[*at].seen));
            let run = jobs.last(&key).filter(is_current);
            let claims: Vec<usize> = match run.and_then(|run| ListedHosts::of(run, &self.host_names())) {
                Some(listed) => {
                    of_key.extract_if(.., |at| !all[*at].seen.hosts.keys().all(|h| listed.contains(h))).collect()
                }
                None => Vec::new(),
            };
            claims.iter().for_each(|at| keys[*at] = None);
            let [claims, seen] = [claims, of_key].map(|of| of.into_iter().map(|at| &all[at].seen).collect::<Vec<_>>());
            let kept = if seen.is_empty() { Ok(()) } else { self.observe_one(&mut jobs, &key, seen) };
            if let Err(error) = kept.and_then(|()| self.claim(&mut jobs, &key, &claims)) {
                failed = (failed.0 + 1, failed.1.or(Some(error)));
            }
        }
        if let Err(error) = self.commit() {
            failed = (failed.0, Some(error));
        }
        if let (jobs, Some(error)) = failed {
            tracing::warn!(jobs, %error, "cannot store jobs that agents see; the first error is shown");
        }
        keys
    }

    /// Keeps the names of hosts that only claim to run a job while it runs.
    fn claim(&self, jobs: &mut Jobs, key: &JobKey, seen: &[&SeenJob]) -> Result<(), RegistryError> {
        let Some(run) = jobs.last(key) else { return Ok(()) };
        // The hosts of the run before may have been seen a moment ago.
        let start = run_start(&run.records).saturating_add(TOLERANCE_NS);
        let end = run_end(&run.records).unwrap_or(i64::MAX);
        let during = seen.iter().filter(|seen| seen.last_ns > start && seen.first_ns < end);
        let new: Vec<&String> =
            during.flat_map(|seen| seen.hosts.keys()).filter(|host| run.is_new_claim(host)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut run = run.clone();
        new.into_iter().for_each(|host| run.add_claim(key, host));
        self.put(jobs, key, run).map(|_| ())
    }

    fn observe_one(&self, jobs: &mut Jobs, key: &JobKey, mut seen: Vec<&SeenJob>) -> Result<(), RegistryError> {
        let first = |seen: &[&SeenJob]| seen.iter().map(|s| s.first_ns).min().unwrap_or(0);
        let Some(last) = jobs.last(key) else {
            return self.add_seen(jobs, key, Run::new(1), &seen);
        };
        let next = Run::new(last.number + 1);
        if run_end(&last.records).is_some_and(|end| first(&seen) > end.saturating_add(REAPPEAR_NS)) {
            return self.add_seen(jobs, key, next, &seen);
        }
        if !seen.iter().all(|seen| admits(last, seen)) {
            // A host took the id of a job that others run.
            self.end_before(jobs, key, Source::Http, first(&seen))?;
            return self.add_seen(jobs, key, next, &seen);
        }
        // A sighting before the start belongs to the run before, and most sightings add nothing.
        let start = run_start(&last.records);
        seen.retain(|s| s.last_ns >= start && !is_known(jobs, last, key, s));
        if seen.is_empty() {
            return Ok(());
        }
        let run = last.clone();
        self.add_seen(jobs, key, run, &seen)
    }

    /// Runs that agents saw and whose end they have not seen, except runs that ended long ago by another source.
    pub fn open_runs(&self, now_ns: i64) -> Vec<OpenRun> {
        let jobs = self.jobs();
        let last = jobs.runs.iter().filter_map(|(key, runs)| Some((key, runs.last()?)));
        let open = last.filter_map(|(key, run)| {
            let seen = run.records.get(&Source::Agent).filter(|record| record.end_ns.is_none())?;
            let long_ended = run_end(&run.records).is_some_and(|end| end.saturating_add(REAPPEAR_NS) < now_ns);
            (!long_ended).then(|| OpenRun {
                key: key.clone(),
                names: run.records.values().flat_map(|r| r.aliases.clone()).chain([key.id.clone()]).collect(),
                hosts: seen.hosts.keys().cloned().collect(),
                start_ns: seen.start_ns.unwrap_or(0),
            })
        });
        open.collect()
    }

    /// The job of a sighting: of the jobs with one of its names, one that runs or ended recently.
    fn match_run(&self, jobs: &Jobs, seen: &SeenJob) -> Option<JobKey> {
        let exact = JobKey { cluster: seen.cluster.clone(), id: seen.task.clone() };
        let host_names = self.host_names();
        let cluster = |key: &&JobKey| seen.cluster.is_empty() || key.cluster.is_empty() || key.cluster == seen.cluster;
        let mut found: Vec<(&JobKey, &Run)> = [&seen.task, &seen.native]
            .into_iter()
            .flat_map(|name| jobs.with_name(name))
            .filter(cluster)
            .filter_map(|key| Some((key, jobs.last(key).filter(|run| is_recent(run, seen) && admits(run, seen))?)))
            .collect();
        found.sort_by_key(|(key, run)| (key.cluster == seen.cluster, key.id == seen.task, run_start(&run.records)));
        found.dedup_by_key(|(key, _)| *key);
        let has_host = |run: &Run| {
            let hosts = || run.records.values().map(|record| &record.hosts);
            // Agents' names are there from the second time on; comparing the scheduler's names takes longer.
            seen.hosts.keys().any(|host| hosts().any(|hosts| hosts.contains_key(host)))
                || seen.hosts.keys().any(|host| hosts().any(|hosts| hosts.keys().any(|h| host_names.is_same(h, host))))
        };
        let on_host = found.iter().rev().find(|(_, run)| has_host(run));
        let certain = |(key, _): &(&JobKey, &Run)| found.len() == 1 || key.cluster == seen.cluster;
        let best = on_host.or_else(|| found.last().filter(|last| certain(last))).map(|(key, _)| (*key).clone());
        best.or_else(|| jobs.last(&exact).map(|_| exact))
    }

    /// Adds sightings to the agents' record of a run.
    fn add_seen(&self, jobs: &mut Jobs, key: &JobKey, mut run: Run, all: &[&SeenJob]) -> Result<(), RegistryError> {
        let others = run.records.iter().filter(|(source, _)| **source != Source::Agent);
        let began = others.clone().filter_map(|(_, record)| record.start_ns).min();
        let ended = others.filter_map(|(_, record)| record.end_ns).min();
        let record = run.records.entry(Source::Agent).or_default();
        let first = all.iter().map(|s| s.first_ns).min().unwrap_or(0);
        record.start_ns.get_or_insert(first.max(began.unwrap_or(i64::MIN)));
        if ended.is_none() && record.end_ns.is_some_and(|end| all.iter().any(|s| s.last_ns > end)) {
            record.end_ns = None;
        }
        let mut new = JobRecord::default();
        for seen in all {
            new.labels.insert("scheduler".into(), seen.scheduler.clone());
            // In containers every process belongs to root.
            if !seen.user.is_empty() && seen.scheduler != "kubernetes" {
                new.user = Some(seen.user.clone());
            }
            if seen.native != key.id {
                new.aliases.push(seen.native.clone());
            }
            for (host, allocation) in &seen.hosts {
                let merged = new.hosts.entry(host.clone()).or_default();
                let known = record.hosts.get(host).map_or(&[][..], |known| &known.devices);
                for device in known.iter().chain(&allocation.devices) {
                    if !merged.devices.contains(device) {
                        merged.devices.push(device.clone());
                    }
                }
            }
        }
        new.aliases.sort_unstable();
        new.aliases.dedup();
        record.amend(new);
        let checked = key.check().and_then(|()| record.check());
        checked.map_err(|source| RegistryError::Refused { key: key.clone(), source })?;
        self.put(jobs, key, run).map(|_| ())
    }

    /// The job that a report means. A hook on a node knows a task of an array, or a part of a heterogeneous job, only by its
    /// own number, which may be an alias of a running job. Ids from a polled scheduler are taken as they are.
    pub(crate) fn resolve(&self, jobs: &Jobs, source: Source, key: &JobKey, at_ns: i64) -> JobKey {
        let open = |run: &Run| run_end(&run.records).is_none_or(|end| at_ns <= end.saturating_add(TOLERANCE_NS));
        if source.is_polled() || jobs.last(key).is_some_and(open) {
            return key.clone();
        }
        let of_cluster = jobs.with_name(&key.id).filter(|k| k.cluster == key.cluster);
        let mut others = of_cluster.filter(|k| *k != key && jobs.last(k).is_some_and(open));
        others.next().unwrap_or(key).clone()
    }

    /// Merges jobs that agents or hooks reported under an alias of this job before the alias was known.
    pub(crate) fn merge_aliases(&self, jobs: &mut Jobs, key: &JobKey) -> Result<Option<Job>, RegistryError> {
        let Some(run) = jobs.last(key) else { return Ok(None) };
        let (start, end) = (run_start(&run.records), run_end(&run.records).unwrap_or(i64::MAX));
        let same_run = |other: &JobKey| {
            let Some(run) = jobs.last(other).filter(|run| run.reporting_host().is_none()) else { return false };
            let records = &run.records;
            let overlaps = run_start(records) <= end.saturating_add(TOLERANCE_NS)
                && run_end(records).is_none_or(|end| end >= start.saturating_sub(TOLERANCE_NS));
            // Hosts may not know their cluster; hooks do.
            let seen = other.cluster.is_empty() && records.keys().eq([&Source::Agent]);
            let reported = other.cluster == key.cluster && records.keys().all(|s| !s.is_polled());
            other != key && overlaps && (seen || reported)
        };
        let names = run.records.values().flat_map(|record| &record.aliases).chain([&key.id]);
        let others: BTreeSet<JobKey> =
            names.flat_map(|name| jobs.with_name(name)).filter(|k| same_run(k)).cloned().collect();
        let mut run = run.clone();
        if others.is_empty() {
            return Ok(None);
        }
        for other in others.iter().filter_map(|other| jobs.last(other)) {
            for (source, record) in &other.records {
                run.records.entry(*source).and_modify(|known| merge(known, record)).or_insert_with(|| record.clone());
            }
            for (source, sender) in &other.by {
                run.by.entry(*source).or_insert_with(|| sender.clone());
            }
        }
        let job = match self.put(jobs, key, run) {
            // They stay apart.
            Err(RegistryError::Full { .. }) => return Ok(None),
            put => put?,
        };
        for other in &others {
            self.take_last(jobs, other);
        }
        Ok(Some(job))
    }
}

/// Whether a run had not ended long before a sighting.
fn is_recent(run: &Run, seen: &SeenJob) -> bool {
    run_end(&run.records).is_none_or(|end| seen.first_ns <= end.saturating_add(REAPPEAR_NS))
}

/// Whether a sighting may belong to a run: what a host reported with a credential of its own is a job on that host only.
fn admits(run: &Run, seen: &SeenJob) -> bool {
    run.reporting_host().is_none_or(|own| seen.hosts.keys().all(|host| is_host(own, host)))
}

/// Merges one source's records of a job under two names: earliest start, latest end.
fn merge(record: &mut JobRecord, other: &JobRecord) {
    let end = record.end_ns.zip(other.end_ns).map(|(a, b)| a.max(b));
    let start = record.start_ns.into_iter().chain(other.start_ns).min();
    let mut both = other.clone();
    both.amend(std::mem::take(record));
    *record = JobRecord { start_ns: start, end_ns: end, ..both };
}

/// Whether the agents' record of a run already contains this sighting.
fn is_known(jobs: &Jobs, run: &Run, key: &JobKey, seen: &SeenJob) -> bool {
    let Some(known) = run.records.get(&Source::Agent) else { return false };
    let hosts = seen.hosts.iter().all(|(host, allocation)| {
        known.hosts.get(host).is_some_and(|there| allocation.devices.iter().all(|d| there.devices.contains(d)))
    });
    let named = seen.native == key.id || jobs.with_name(&seen.native).any(|k| k == key);
    hosts && named && known.start_ns.is_some() && known.end_ns.is_none_or(|end| seen.last_ns <= end)
}
