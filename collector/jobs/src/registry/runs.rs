//! The runs of all jobs in memory, with an index from every name of a job to its key.

use super::usage::{Charges, Usage};
use crate::record::{JobKey, JobRecord, Source};
use crate::sender::{Limits, Reporter, SenderClass, host_sender, is_host};
use crate::view::run_end;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Entries of the index of names before it is rebuilt for the first time.
const INDEX: usize = 65_536;
/// Memory of a claim besides its text, bytes.
const CLAIM: usize = 64;

/// One run of a job, as it is stored.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Run {
    pub(crate) number: u32,
    /// The record of each source. `said` is the field's name on disk.
    #[serde(rename = "said")]
    pub(crate) records: BTreeMap<Source, JobRecord>,
    /// The sender of each record, where it is not the source itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) by: BTreeMap<Source, String>,
    /// Hosts that claim to run the job, though its reporters list others.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) claims: BTreeSet<String>,
}

impl Run {
    /// A run without records.
    pub(crate) fn new(number: u32) -> Self {
        Self { number, records: BTreeMap::new(), by: BTreeMap::new(), claims: BTreeSet::new() }
    }

    /// Sets who sent the record of a source.
    pub(crate) fn set_sender(&mut self, source: Source, sender: &str) {
        if sender == source.text() {
            self.by.remove(&source);
        } else {
            self.by.insert(source, sender.to_owned());
        }
    }

    fn sender(&self, source: Source) -> &str {
        self.by.get(&source).map_or(source.text(), String::as_str)
    }

    /// Whether it has ended.
    pub(super) fn is_ended(&self) -> bool {
        run_end(&self.records).is_some()
    }

    /// Senders and the bytes that each must answer for. What agents see of a job that others report belongs to those; of
    /// a job that only agents know, each host has its share.
    pub(crate) fn charges(&self) -> Vec<(String, usize)> {
        let reported = self.records.iter().filter(|(source, _)| **source != Source::Agent);
        let mut all: Vec<(String, usize)> =
            reported.map(|(source, record)| (self.sender(*source).to_owned(), record.weight())).collect();
        let claims: usize = self.claims.iter().map(|host| CLAIM + host.len()).sum();
        if let Some((_, bytes)) = all.last_mut() {
            *bytes += claims;
        }
        if let Some(seen) = self.records.get(&Source::Agent) {
            let weight = seen.weight();
            match all.last_mut() {
                Some((_, bytes)) => *bytes += weight,
                None if seen.hosts.is_empty() => all.push((Source::Agent.text().to_owned(), weight)),
                None => {
                    let share = weight.div_ceil(seen.hosts.len());
                    all.extend(seen.hosts.keys().map(|host| (host_sender(host), share)));
                }
            }
        }
        all
    }

    /// The same for the accounts.
    pub(super) fn usage(&self) -> Charges {
        Charges { of: self.charges(), ended: self.is_ended() }
    }

    /// Whether a reporter may change it: a bound one only what it reported itself and no other host has seen.
    pub(super) fn may_be_changed_by(&self, reporter: &Reporter) -> bool {
        !reporter.is_bound() || self.is_only_of_host(&reporter.sender)
    }

    /// The host that reported it, if nobody else did; agents may have seen it.
    pub(crate) fn reporting_host(&self) -> Option<&str> {
        let http_only = self.records.keys().all(|s| matches!(s, Source::Http | Source::Agent));
        self.by.get(&Source::Http).map(String::as_str).filter(|s| http_only && SenderClass::of(s) == SenderClass::Host)
    }

    /// Whether only this host (its name as a sender) reported it or saw it.
    fn is_only_of_host(&self, host: &str) -> bool {
        let seen = self.records.get(&Source::Agent).into_iter().flat_map(|record| record.hosts.keys());
        let reported = self.records.keys().filter(|source| **source != Source::Agent);
        reported.clone().all(|source| *source == Source::Http && self.sender(*source) == host)
            && seen.clone().all(|name| is_host(host, name))
    }
}

/// All jobs with their runs.
pub(crate) struct Jobs {
    /// Runs of each job, oldest first.
    pub(crate) runs: BTreeMap<JobKey, Vec<Run>>,
    /// Keys by id and by alias, sorted; keys and names of removed runs stay until the next rebuild.
    names: HashMap<String, Vec<JobKey>>,
    /// Entries of the index, and how many it may have before it is rebuilt.
    indexed: usize,
    rebuild_at: usize,
    /// What each sender takes.
    pub(super) usage: Usage,
}

impl Jobs {
    pub(super) fn new(limits: Limits) -> Self {
        Self { runs: BTreeMap::new(), names: HashMap::new(), indexed: 0, rebuild_at: INDEX, usage: Usage::new(limits) }
    }

    pub(crate) fn last(&self, key: &JobKey) -> Option<&Run> {
        self.runs.get(key)?.last()
    }

    /// Jobs with this id or alias, in any of their runs.
    pub(crate) fn with_name(&self, name: &str) -> impl Iterator<Item = &JobKey> {
        self.names.get(name).into_iter().flatten()
    }

    pub(super) fn index(&mut self, key: &JobKey, run: &Run) {
        let aliases = run.records.values().flat_map(|record| &record.aliases);
        for name in std::iter::once(&key.id).chain(aliases) {
            let keys = match self.names.get_mut(name) {
                Some(keys) => keys,
                None => self.names.entry(name.clone()).or_default(),
            };
            if let Err(at) = keys.binary_search(key) {
                keys.insert(at, key.clone());
                self.indexed += 1;
            }
        }
    }

    /// Rebuilds the index once it has twice the entries that it had after the last time: names of a job come and go.
    pub(super) fn trim_index(&mut self) {
        if self.indexed > self.rebuild_at {
            self.rebuild_index();
        }
    }

    fn rebuild_index(&mut self) {
        self.names = HashMap::new();
        self.indexed = 0;
        let all = std::mem::take(&mut self.runs);
        all.iter().for_each(|(key, runs)| runs.iter().for_each(|run| self.index(key, run)));
        self.runs = all;
        self.rebuild_at = INDEX.max(2 * self.indexed);
    }

    /// Drops the runs for which `keep` is false, and rebuilds the index.
    pub(super) fn retain(&mut self, keep: impl Fn(&JobKey, &Run) -> bool) {
        let usage = &mut self.usage;
        self.runs.retain(|key, runs| {
            runs.retain(|run| {
                let keep = keep(key, run);
                if !keep {
                    usage.remove(run.usage());
                }
                keep
            });
            !runs.is_empty()
        });
        self.rebuild_index();
    }
}
