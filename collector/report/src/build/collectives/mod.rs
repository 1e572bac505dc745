//! Collectives of the job, as its communication library reports them to agents (`fabric_collective_*`), and what the counters
//! of the ports say of the same time.

mod bandwidth;
mod conclusion;
pub(super) mod earlier_run;
mod late_hosts;
mod operations;
mod rank_network;
mod stragglers;
mod work_requests;

use super::ReportContext;
use crate::model::{Collectives, Communicator, Slowed};
pub(super) use bandwidth::SLOWER;
pub(super) use conclusion::conclusion;
use fabriclens_promql::QueryError;
use std::collections::BTreeMap;

/// Maximum number of listed communicators.
const LISTED: usize = 16;

/// The section without its conclusion. `slowed` are the periods in which counters show that the network slowed the job down.
pub(super) fn collectives(context: &ReportContext<'_>, slowed: &[Slowed]) -> Result<Collectives, QueryError> {
    let communicators = communicators(context)?;
    let all = operations::Executions::read(context)?;
    let mut candidates = stragglers::candidates(context)?;
    candidates.extend(late_hosts::late_hosts(context, &all));
    Ok(Collectives {
        operations: all.operations(context)?,
        share: communicators.first().and_then(|largest| all.share(context, largest.size)),
        bandwidth: bandwidth::bandwidth(context, &all, slowed),
        communicators,
        stragglers: stragglers::stragglers(context, candidates)?,
        work_requests: work_requests::work_requests(context)?,
        conclusion: None,
    })
}

fn communicators(context: &ReportContext<'_>) -> Result<Vec<Communicator>, QueryError> {
    let mut all: BTreeMap<String, Communicator> = BTreeMap::new();
    for (labels, _) in context.own_over_time("last_over_time", "fabric_collective_communicator_info")? {
        let Ok(size) = labels.get("size").parse() else { continue };
        let (id, library_version) = (labels.get("communicator").to_owned(), labels.get("library_version").to_owned());
        let new = Communicator { id: id.clone(), library_version, size, launched: None, idle_seconds: None };
        all.insert(id, new);
    }
    for (labels, seconds) in context.own_over_time("max_over_time", "fabric_collective_idle_seconds")? {
        let Some(communicator) = all.get_mut(labels.get("communicator")) else { continue };
        communicator.idle_seconds = Some(communicator.idle_seconds.map_or(seconds, |longest| longest.max(seconds)));
    }
    let launched = context.source.increases("fabric_collective_operations_total")?;
    let highest = launched.iter().filter(|i| i.labels.get("bound") == "highest" && context.is_own(&i.labels));
    for increase in highest {
        let Some(communicator) = all.get_mut(increase.labels.get("communicator")) else { continue };
        *communicator.launched.get_or_insert(0.0) += increase.total + increase.beyond;
    }
    let mut all: Vec<Communicator> = all.into_values().collect();
    all.sort_by_key(|communicator| std::cmp::Reverse(communicator.size));
    all.truncate(LISTED);
    Ok(all)
}
