//! Series that hosts tell of the job itself, by its name.

use super::ReportContext;
use super::ranks::Ranks;
use crate::model::Grade;
use fabriclens_jobs::Job;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;

/// Whether the labels name this job. Hosts and schedulers need not name the cluster.
pub(super) fn is_of(job: &Job, labels: &Labels) -> bool {
    let cluster = labels.get("cluster");
    job.has_name(labels.get("job")) && (cluster == job.cluster || cluster.is_empty() || job.cluster.is_empty())
}

impl ReportContext<'_> {
    /// Whether a series is of this job, or of no named job on a host that was this job's alone.
    pub(super) fn is_own(&self, labels: &Labels) -> bool {
        match labels.get("job") {
            "" => Grade::from(self.on.host(labels.get("host"))) == Grade::Exclusive,
            _ => is_of(self.job, labels),
        }
    }

    /// Own series of a gauge at the end of the job, aggregated over its time by a PromQL function such as `max_over_time`.
    pub(super) fn own_over_time(&self, function: &str, metric: &str) -> Result<Vec<(Labels, f64)>, QueryError> {
        let range = (self.source.end_ms - self.source.start_ms).max(1);
        let query = format!("{function}({}[{range}ms])", self.source.selector(metric, ""));
        let samples = self.source.at(&query, self.source.end_ms)?;
        Ok(samples.into_iter().filter(|s| self.is_own(&s.labels)).map(|s| (s.labels, s.value)).collect())
    }

    /// Ranks of the job's hosts and the ports of their processes.
    pub(super) fn ranks(&self) -> Result<&Ranks, QueryError> {
        if let Some(ranks) = self.ranks.get() {
            return Ok(ranks);
        }
        let ranks = Ranks::read(|metric| self.own_over_time("last_over_time", metric))?;
        Ok(self.ranks.get_or_init(|| ranks))
    }
}
