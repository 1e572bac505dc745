//! Settings of a store, fixed when it is opened.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall clock in Unix milliseconds; tests inject their own.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Settings of a store. `Options::default()` suits a single machine.
#[derive(Clone)]
pub struct Options {
    /// Samples older than this are refused, and blocks with only such samples are removed; `None` keeps everything.
    pub retention: Option<Duration>,
    /// How long rollups are kept, at least as long as samples; `None` disables rollups.
    pub rollups: Option<Duration>,
    /// A query reads rollups instead of samples only if it would read more samples than this; below, answers are
    /// exact.
    pub exact_samples: usize,
    /// Maximum bytes on disk; the oldest blocks are removed first. `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Time span of a block before merging; windows are aligned to multiples of it.
    pub block_span: Duration,
    /// How much older than the newest sample of the store a sample may be; `None`: limited by retention only.
    pub out_of_order: Option<Duration>,
    /// How far ahead of the clock a sample may be.
    pub max_future: Duration,
    /// Rows of a layout that are sealed into one compressed chunk in memory.
    pub chunk_rows: usize,
    /// Bytes of log (2 to 5 per counter sample, 8.5 at most) after which the head is flushed; bounds memory and
    /// start-up time.
    pub head_bytes: u64,
    /// Series for which `head_bytes` is enough. With more the log may be longer in proportion: it names each series once, and each block
    /// has an index entry of each, so a head of a few rows would cost more than its samples.
    pub head_series: usize,
    /// Age after which the head is flushed even if it is small.
    pub head_age: Duration,
    /// Series that the head may hold; samples of further series are refused and counted.
    pub series: SeriesLimits,
    /// Samples that one read may touch; more is an error that names this limit.
    pub max_samples: usize,
    /// Whether background threads flush, merge and apply retention. If false, only `flush` and `maintain` do.
    pub background: bool,
    /// Wall clock.
    pub clock: Clock,
    /// How long a clock jump of more than an hour must last before retention follows it.
    pub clock_jump_hold: Duration,
}

/// Limits on the series in the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesLimits {
    /// In total.
    pub all: usize,
    /// Per metric.
    pub of_metric: usize,
    /// Label whose values identify tenants; empty disables the tenant limit.
    pub tenant_label: String,
    /// Per tenant; series without the label count as one tenant.
    pub of_tenant: usize,
    /// Estimated memory of all series without their rows, bytes; those with one value of the label `host` may take a
    /// sixteenth of it.
    pub memory: usize,
    /// Whether a quarter of each limit is kept for senders that are bound to hosts.
    pub keep_for_bound: bool,
}

impl Default for SeriesLimits {
    fn default() -> Self {
        Self {
            all: 5_000_000,
            of_metric: 1_000_000,
            tenant_label: String::new(),
            of_tenant: 5_000_000,
            memory: usize::MAX,
            keep_for_bound: false,
        }
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
            chunk_rows: 32,
            head_bytes: 128 << 20,
            head_series: 1_000_000,
            head_age: Duration::from_secs(2 * 3600),
            series: SeriesLimits::default(),
            max_samples: 200_000_000,
            background: true,
            clock: Arc::new(wall_clock),
            clock_jump_hold: Duration::from_secs(3600),
        }
    }
}

impl Options {
    /// How long rollups are kept; `None`: forever.
    pub(crate) fn rollup_retention(&self) -> Option<Duration> {
        Some(self.retention?.max(self.rollups.unwrap_or_default()))
    }
}

fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// A duration in milliseconds, saturating: `--retention 10000y` means forever.
pub(crate) fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}
