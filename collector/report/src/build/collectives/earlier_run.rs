//! The job's main operation in an earlier run of the same program.

use super::operations::{COUNTERS, OnHost, Total};
use crate::build::ReportContext;
use crate::build::own_series::is_of;
use crate::model::{EarlierOperation, Operation};
use fabriclens_base::escape::{promql_string, regex};
use fabriclens_jobs::Job;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// The counters are read so long after the end of the job, ms: agents follow its files each half minute by default.
const AFTER: i64 = 60_000;
/// How old their last sample may be then, ms.
const BACK: i64 = 600_000;

/// Means of `main` in `job`, which ended at `end_ms`, as its counters stood then; `None` if they were not read.
pub(in crate::build) fn mean(
    context: &ReportContext<'_>,
    main: &Operation,
    job: &Job,
    end_ms: i64,
) -> Result<Option<EarlierOperation>, QueryError> {
    let names: Vec<String> = std::iter::once(&job.id).chain(&job.aliases).map(|name| regex(name)).collect();
    let [job_names, operation, size] = [&names.join("|"), &main.operation, &main.size].map(|text| promql_string(text));
    let is_own = |labels: &Labels| is_of(job, labels) && job.hosts.contains_key(labels.get("host"));
    let mut by_host: BTreeMap<[String; 2], OnHost> = BTreeMap::new();
    for (metric, counted) in COUNTERS {
        let selector = format!("{metric}{{job=~{job_names},operation={operation},size={size}}}");
        let found = context.source.ask(&format!("last_over_time({selector}[{BACK}ms])"), end_ms + AFTER)?;
        for sample in found.into_iter().filter(|sample| is_own(&sample.labels)) {
            let key = ["host", "communicator"].map(|name| sample.labels.get(name).to_owned());
            counted(by_host.entry(key).or_default()).total = sample.value;
        }
    }
    let mut total = Total::default();
    by_host.values().for_each(|on_host| total.add(on_host));
    Ok(total.mean_seconds().map(|mean_seconds| EarlierOperation { mean_seconds, bandwidth: total.bandwidth() }))
}
