//! Administration of the store: snapshots for backups, as Prometheus offers them.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::Api;
use super::blocking::{blocking, internal};
use super::encode::{self, Json};
use fabriclens_core::time;
use fabriclens_server::error::{ApiError, Kind};

/// Directory below the data directory.
const DIRECTORY: &str = "snapshots";
/// Snapshots keep blocks alive that retention removes, so without a limit a client could fill the disk.
const MAX_SNAPSHOTS: usize = 8;

/// Writes a snapshot of everything acknowledged before the request, and returns its name. A snapshot is a data
/// directory: `fabriclens serve --data` on it, or on a copy, restores it.
pub(super) async fn snapshot(State(api): State<Arc<Api>>) -> Result<Json, ApiError> {
    let name = blocking(move || write(&api)).await?;
    Ok(encode::success(|out| out.push_str(&json!({"name": name}).to_string())))
}

fn write(api: &Api) -> Result<String, ApiError> {
    let all = api.config.data.join(DIRECTORY);
    if entries(&all) >= MAX_SNAPSHOTS {
        let message =
            format!("there are {MAX_SNAPSHOTS} snapshots in {}; remove those that are not needed", all.display());
        return Err(ApiError::new(Kind::Unavailable, message));
    }
    std::fs::create_dir_all(&all)
        .map_err(|e| ApiError::new(Kind::Internal, format!("cannot create {}: {e}", all.display())))?;
    // Sorts by time, and differs between two requests in the same second.
    let name = time::format_time(time::now_ms()).replace([':', '-', '.'], "");
    api.store.snapshot(&all.join(&name)).map_err(internal)?;
    Ok(name)
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}
