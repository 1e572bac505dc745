//! Work that takes a while or reads the disk, off the threads that serve requests.

use std::sync::Arc;

use fabriclens_core::fair_turn::FairTurn;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Runs `work` on the blocking pool.
///
/// # Errors
/// Those of `work`, and [`Kind::Internal`] if it panics.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(internal)?
}

/// Runs `work` on the blocking pool, one request at a time, in which callers take turns: for answers that may take many megabytes.
/// The turn lasts until the work ends, also when the client has left.
///
/// # Errors
/// As of [`blocking`].
pub(super) async fn in_turn<T: Send + 'static>(
    turns: &Arc<FairTurn>,
    caller: &Caller,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let turn = turns.take(caller.name.clone(), caller.address).await;
    blocking(move || {
        let _turn = turn;
        work()
    })
    .await
}

/// An error of the collector itself.
pub(super) fn internal(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(Kind::Internal, error.to_string())
}
