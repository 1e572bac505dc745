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

/// Job ids and their hosts.
pub(super) fn jobs(dir: &Path) -> Result<Vec<(String, Vec<String>)>, RecordingError> {
    let file: JobsFile = json(dir, "jobs.json")?;
    Ok(file.jobs.into_iter().map(|j| (j.id.text(), j.hosts.into_iter().map(Id::text).collect())).collect())
}
