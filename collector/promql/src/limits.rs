//! Limits of a query.

use std::time::Duration;

/// Limits of one query, and the two default intervals of the language.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Samples read plus values computed.
    pub max_samples: usize,
    /// Series that one selector may read.
    pub max_series: usize,
    /// Steps of a range query.
    pub max_steps: usize,
    /// Maximum wall clock time.
    pub timeout: Duration,
    /// How far an instant selector looks back for a sample.
    pub lookback: Duration,
    /// Resolution of a subquery that specifies none.
    pub subquery_step: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_samples: 50_000_000,
            max_series: 1_000_000,
            max_steps: 11_000,
            timeout: Duration::from_secs(120),
            lookback: Duration::from_secs(300),
            subquery_step: Duration::from_secs(60),
        }
    }
}
