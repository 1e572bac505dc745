//! What changes the store: so far, a snapshot for a backup, as Prometheus offers it.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::Api;
use super::encode::{self, Json};
use fabriclens_core::time;
use fabriclens_server::error::{ApiError, Kind};

/// Below the data directory.
const DIRECTORY: &str = "snapshots";
/// Snapshots hold on to blocks that retention removes, so whoever can reach this address could fill the disk with them.
const MOST: usize = 8;

/// Writes a snapshot of everything that was acknowledged before the request, and gives its name. It is a data directory
/// of its own: `fabriclens serve --data` on it, or on a copy of it, is the restore.
pub(super) async fn snapshot(State(api): State<Arc<Api>>) -> Result<Json, ApiError> {
    let job = tokio::task::spawn_blocking(move || write(&api));
    let name = job.await.map_err(|e| ApiError::new(Kind::Internal, e.to_string()))??;
    Ok(encode::success(|out| out.push_str(&json!({"name": name}).to_string())))
}

fn write(api: &Api) -> Result<String, ApiError> {
    let all = api.config.data.join(DIRECTORY);
    if entries(&all) >= MOST {
        let message =
            format!("there are {MOST} snapshots in {}; remove those that are no longer needed", all.display());
        return Err(ApiError::new(Kind::Unavailable, message));
    }
    std::fs::create_dir_all(&all)
        .map_err(|e| ApiError::new(Kind::Internal, format!("cannot create {}: {e}", all.display())))?;
    // A name that sorts by time and that two requests in one second do not share.
    let name = time::format_time(time::now_ms()).replace([':', '-', '.'], "");
    api.store.snapshot(&all.join(&name)).map_err(|e| ApiError::new(Kind::Internal, e.to_string()))?;
    Ok(name)
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}
