//! The runs of all jobs in memory, with an index from every name of a job to its key.

use crate::record::{JobKey, JobRecord, Source};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One run of a job, as it is stored.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Run {
    pub(crate) number: u32,
    /// The record of each source. `said` is the field's name on disk.
    #[serde(rename = "said")]
    pub(crate) records: BTreeMap<Source, JobRecord>,
}

/// All jobs with their runs.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Runs of each job, oldest first.
    pub(crate) runs: BTreeMap<JobKey, Vec<Run>>,
    /// Keys by id and by alias.
    names: HashMap<String, BTreeSet<JobKey>>,
}

impl Jobs {
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
            if let Some(keys) = self.names.get_mut(name) {
                keys.insert(key.clone());
            } else {
                self.names.insert(name.clone(), [key.clone()].into());
            }
        }
    }

    /// Drops the runs for which `keep` is false, and rebuilds the index.
    pub(super) fn retain(&mut self, keep: impl Fn(&Run) -> bool) {
        self.runs.retain(|_, runs| {
            runs.retain(&keep);
            !runs.is_empty()
        });
        self.names.clear();
        let all = std::mem::take(&mut self.runs);
        all.iter().for_each(|(key, runs)| runs.iter().for_each(|run| self.index(key, run)));
        self.runs = all;
    }
}
