//! Work that takes a while or reads the disk, off the threads that serve requests.

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

/// An error of the collector itself.
pub(super) fn internal(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(Kind::Internal, error.to_string())
}
