//! The receivers of a configuration, each with the limits of its queue.

use std::time::Duration;

use fabriclens_config as config;
use fabriclens_config::{Endpoint, ServeRole, WriteMessage, selector};
use fabriclens_core::sample_feed;
use fabriclens_model::{Matcher, Patterns};

use super::error::ForwardError;
use super::queue::Limits;
use super::sender::{JUDGE_MAX_BACKOFF, MAX_BACKOFF};

/// Path at which a judge takes the samples of ingest collectors.
pub const JUDGE_WRITE: &str = "/api/v1/judge/write";

/// Name of the queue for the judge; the dot keeps it apart from the names of `[[forward]]`.
const JUDGE_QUEUE: &str = "judge.samples";

/// A receiver with the limits of its queue.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) endpoints: Vec<Endpoint>,
    /// Series to queue; empty for all.
    pub(super) select: Vec<Vec<Matcher>>,
    /// Metrics whose metadata is sent.
    pub(super) describe: Vec<Vec<Matcher>>,
    pub(super) limits: Limits,
    pub(super) batch: usize,
    pub(super) parallel: usize,
    pub(super) message: WriteMessage,
    pub(super) max_backoff: Duration,
}

/// The receivers of a configuration: the engine, the judge of an ingest collector, other servers.
pub(super) fn targets(config: &config::Config) -> Result<Vec<Target>, ForwardError> {
    let mut all = Vec::new();
    if let Some(engine) = &config.store {
        all.push(target(&engine.write, Limits { bytes: engine.write.size, age: None, refuses: true })?);
    }
    if config.role == ServeRole::Ingest {
        all.push(judge_target(&config.judge)?);
    }
    for forward in &config.forward {
        all.push(target(forward, Limits { bytes: forward.size, age: Some(forward.age), refuses: false })?);
    }
    Ok(all)
}

fn target(forward: &config::Forward, limits: Limits) -> Result<Target, ForwardError> {
    let mut patterns = Patterns::default();
    let select =
        forward.select.iter().map(|text| selector::selector(text, &mut patterns)).collect::<Result<Vec<_>, _>>();
    let other = |message: String| ForwardError::Other { name: forward.name.clone(), message };
    let select = select.map_err(|e| other(e.to_string()))?;
    Ok(Target {
        name: forward.name.clone(),
        endpoints: vec![forward.endpoint.clone()],
        describe: select.clone(),
        select,
        limits,
        batch: forward.batch,
        parallel: forward.parallel,
        message: forward.message,
        max_backoff: MAX_BACKOFF,
    })
}

/// The judge gets the series that detectors read as they arrive, and the metadata of all metrics, which no engine keeps.
fn judge_target(judge: &config::Judge) -> Result<Target, ForwardError> {
    let other = |message: String| ForwardError::Other { name: JUDGE_QUEUE.to_owned(), message };
    let judged = Matcher::one_of("__name__", sample_feed::metrics()).map_err(|e| other(e.to_string()))?;
    let url = |endpoint: &Endpoint| Endpoint { url: format!("{}{JUDGE_WRITE}", endpoint.url), ..endpoint.clone() };
    Ok(Target {
        name: JUDGE_QUEUE.to_owned(),
        endpoints: judge.endpoints.iter().map(url).collect(),
        select: vec![vec![judged]],
        describe: Vec::new(),
        limits: Limits { bytes: judge.size, age: Some(judge.age), refuses: false },
        batch: judge.batch,
        parallel: 1,
        message: WriteMessage::Version1,
        max_backoff: JUDGE_MAX_BACKOFF,
    })
}
