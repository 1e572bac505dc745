//! How a store behaves; set once when it is opened.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall clock in Unix milliseconds; tests bring their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Settings of a store. `Options::default()` is right for one machine.
#[derive(Clone)]
pub struct Options {
    /// Samples older than this are refused and blocks that hold only such are removed; `None` keeps everything.
    pub retention: Option<Duration>,
    /// How long rollups of samples are kept: at least as long as the samples; `None` makes none.
    pub rollups: Option<Duration>,
    /// Samples that a query must be about to read before rollups stand for them: up to here answers are exact.
    pub exact_samples: usize,
    /// Upper bound of bytes on disk; the oldest blocks go first. `None` = as much as the disk has.
    pub max_bytes: Option<u64>,
    /// Time that one block covers before merging; windows are aligned to multiples of it.
    pub block_span: Duration,
    /// How much older than the newest sample of the store a sample may be; `None` = as old as retention allows.
    pub out_of_order: Option<Duration>,
    /// How far ahead of the clock a sample may be.
    pub max_future: Duration,
    /// Rows of a layout that are sealed into one compressed chunk in memory.
    pub chunk_rows: usize,
    /// Bytes of log (2 to 5 for each counter's sample, 8.5 at most) after which the head becomes a block; bounds memory
    /// and start-up.
    pub head_bytes: u64,
    /// Age after which the head becomes a block even if it is small.
    pub head_age: Duration,
    /// Series that the head may hold at once; samples of further ones are refused and counted.
    pub series: SeriesLimits,
    /// Samples that one read may touch; more is an error that names this limit.
    pub max_read_samples: usize,
    /// Whether a background thread flushes, merges and applies retention. Off: only `flush` and `maintain` do.
    pub background: bool,
    /// Wall clock.
    pub clock: Clock,
    /// How long a leap of the clock ahead by more than an hour must last before what it makes too old is removed.
    pub doubt: Duration,
}

/// How many series the head may hold at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesLimits {
    /// In all.
    pub all: usize,
    /// Of one metric.
    pub of_metric: usize,
    /// Label whose values are tenants; empty: there are none.
    pub tenant_label: String,
    /// Of one tenant; of the series without that label together.
    pub of_tenant: usize,
}

impl Default for SeriesLimits {
    fn default() -> Self {
        Self { all: 5_000_000, of_metric: 1_000_000, tenant_label: String::new(), of_tenant: 5_000_000 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retention: Some(Duration::from_secs(31 * 86_400)),
            rollups: Some(Duration::from_secs(366 * 86_400)),
            exact_samples: 10_000_000,
            max_bytes: None,
            block_span: Duration::from_secs(2 * 3600),
            out_of_order: None,
            max_future: Duration::from_secs(600),
            chunk_rows: 120,
            head_bytes: 128 << 20,
            head_age: Duration::from_secs(2 * 3600),
            series: SeriesLimits::default(),
            max_read_samples: 200_000_000,
            background: true,
            clock: Arc::new(wall_clock),
            doubt: Duration::from_secs(3600),
        }
    }
}

impl Options {
    /// How long rollups are kept; `None` is forever.
    pub(crate) fn rollup_retention(&self) -> Option<Duration> {
        Some(self.retention?.max(self.rollups.unwrap_or_default()))
    }
}

fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// A duration in milliseconds, saturating: `--retention 10000y` is as good as forever.
pub(crate) fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}
