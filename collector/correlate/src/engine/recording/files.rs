//! Reads `topology.json` and `jobs.json`.

use super::error::RecordingError;
use crate::model::topology::{Id, TopologySource, parse};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct JobsFile {
    jobs: Vec<JobRow>,
}

#[derive(Deserialize)]
struct JobRow {
    id: Id,
    hosts: Vec<Id>,
    #[serde(default)]
    start_ns: Option<i64>,
    #[serde(default)]
    end_ns: Option<i64>,
}

/// A job of a recording.
#[derive(Clone, Debug)]
pub struct RecordedJob {
    /// Job id.
    pub id: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// Start, Unix nanoseconds, by the clock of the samples; `i64::MIN` if unknown.
    pub start_ns: i64,
    /// End, Unix nanoseconds; `i64::MAX` if unknown.
    pub end_ns: i64,
}

fn json<T: serde::de::DeserializeOwned>(dir: &Path, name: &str) -> Result<T, RecordingError> {
    let path = dir.join(name);
    let shown = path.display().to_string();
    let text = std::fs::read(&path).map_err(|error| RecordingError::Read { path: shown.clone(), error })?;
    serde_json::from_slice(&text).map_err(|error| RecordingError::Json { path: shown, error })
}

/// Nodes and cables.
pub(super) fn topology(dir: &Path) -> Result<TopologySource, RecordingError> {
    let path = dir.join("topology.json");
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| RecordingError::Read { path: shown.clone(), error })?;
    Ok(parse(&shown, &text)?)
}

/// Jobs and when they ran; `stretch` is the factor of all times.
pub(super) fn jobs(dir: &Path, stretch: i64) -> Result<Vec<RecordedJob>, RecordingError> {
    let file: JobsFile = json(dir, "jobs.json")?;
    let job = |row: JobRow| RecordedJob {
        id: row.id.text(),
        hosts: row.hosts.into_iter().map(Id::text).collect(),
        start_ns: row.start_ns.map_or(i64::MIN, |ns| ns.saturating_mul(stretch)),
        end_ns: row.end_ns.map_or(i64::MAX, |ns| ns.saturating_mul(stretch)),
    };
    Ok(file.jobs.into_iter().map(job).collect())
}
