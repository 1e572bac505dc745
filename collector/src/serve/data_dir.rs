//! Opens the data directory.

use std::sync::Arc;
use std::time::Instant;

use fabriclens_config::Config;
use fabriclens_store::{Options, SeriesLimits, Store};

use super::error::ServeError;

/// Fraction of the memory limit for active series without their rows. A fleet of agents takes a third of its memory for them, and
/// is told to wait (near the limit) before its series are refused.
const SERIES_FRACTION: u64 = 2;

/// Opens the store; `memory` is the memory limit of the process, bytes.
///
/// # Errors
/// [`ServeError::Store`].
pub(super) async fn open(config: &Config, memory: u64) -> Result<Arc<Store>, ServeError> {
    let options = Options {
        retention: Some(config.retention.age),
        rollups: Some(config.retention.rollups).filter(|age| !age.is_zero()),
        max_bytes: config.retention.size,
        max_future: config.ingest.future,
        series: SeriesLimits {
            memory: usize::try_from(memory / SERIES_FRACTION).unwrap_or(usize::MAX),
            keep_for_bound: config.requires_authentication(),
            ..config.series.clone()
        },
        max_samples: usize::try_from(config.query.max_samples).unwrap_or(usize::MAX),
        ..Options::default()
    };
    let dir = config.data.clone();
    let began = Instant::now();
    let opened = tokio::task::spawn_blocking(move || Store::open(&dir, options)).await;
    let store = opened.map_err(|e| ServeError::Other(e.to_string()))??;
    let stats = store.stats();
    for damage in &stats.damage {
        tracing::warn!(?damage, "damage found in the data directory; everything else is intact");
    }
    tracing::info!(
        data = %config.data.display(), series = stats.head_series, blocks = stats.blocks,
        seconds = began.elapsed().as_secs_f64(), "store open"
    );
    Ok(Arc::new(store))
}
