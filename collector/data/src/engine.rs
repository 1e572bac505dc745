//! The PromQL engine with the configured limits (`[query]`).

use fabriclens_config as config;
use fabriclens_promql::{Engine, Limits};

/// Most points per series in one answer, as in Prometheus.
pub const MAX_POINTS: i64 = 11_000;

/// Returns an engine with the configured limits.
pub fn engine(query: &config::Query) -> Engine {
    Engine::new(Limits {
        max_samples: usize::try_from(query.max_samples).unwrap_or(usize::MAX),
        max_steps: MAX_POINTS as usize + 1,
        timeout: query.timeout,
        lookback: query.lookback,
        version: query.promql,
        ..Limits::default()
    })
}
