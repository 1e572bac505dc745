//! Limits of a query, and the version of the language.

use std::time::Duration;

/// The version of Prometheus whose ranges and lookback apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Ranges, subqueries and the lookback include a sample at their start.
    V2,
    /// They exclude it, so that a range of five intervals has five samples.
    #[default]
    V3,
}

impl Version {
    /// As configuration writes it.
    pub fn text(self) -> &'static str {
        match self {
            Self::V2 => "2.x",
            Self::V3 => "3.x",
        }
    }

    /// The version that configuration names; `None` if there is none.
    pub fn named(text: &str) -> Option<Self> {
        [Self::V2, Self::V3].into_iter().find(|v| v.text() == text)
    }

    /// The first instant within a range that starts at `start` (both in Unix milliseconds).
    pub fn first_within(self, start: i64) -> i64 {
        match self {
            Self::V2 => start,
            Self::V3 => start.saturating_add(1),
        }
    }
}

/// Limits of one query, and the defaults of the language.
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
    /// What ranges and the lookback include.
    pub version: Version,
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
            version: Version::default(),
        }
    }
}
