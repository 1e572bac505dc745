//! Metrics that are rows of a table or constant, and the form of a series.

use fabriclens_store::Stats;
use prometheus::{IntGauge, Opts, Registry};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Metric name, labels and value of a series.
pub type OwnSample = (String, Vec<(String, String)>, f64);

/// Selects one number of the store's statistics.
pub(super) type StatsField = fn(&Stats) -> u64;

/// Gauges read from the statistics of the store: name, help, value.
pub(super) const STORE: &[(&str, &str, StatsField)] = &[
    ("fabriclens_store_head_series", "Series in memory.", |s| s.head_series as u64),
    ("fabriclens_store_head_samples", "Samples in memory, not yet in blocks.", |s| s.head_samples),
    ("fabriclens_store_head_layouts", "Sets of series that share time stamps, in memory.", |s| s.head_layouts as u64),
    ("fabriclens_store_head_bytes", "Bytes of compressed rows in memory.", |s| s.head_bytes),
    ("fabriclens_store_wal_bytes", "Bytes of write-ahead log that are not yet in blocks.", |s| s.wal_bytes),
    ("fabriclens_store_blocks", "Block files.", |s| s.blocks as u64),
    ("fabriclens_store_block_bytes", "Bytes of block files.", |s| s.block_bytes),
    ("fabriclens_store_index_bytes", "Memory that the indexes of blocks in use take.", |s| s.index_bytes),
    ("fabriclens_store_block_samples", "Samples in block files.", |s| s.block_samples),
    ("fabriclens_store_damage", "Damaged files or records found since the start.", |s| s.damage.len() as u64),
    ("fabriclens_store_log_failing", "1 while samples cannot be made durable.", |s| u64::from(s.log_failure.is_some())),
    ("fabriclens_store_maintenance_failing", "1 while blocks cannot be written, merged or removed.", |s| {
        u64::from(s.maintenance_failure.is_some())
    }),
];

/// Selects one duration of the store's statistics.
pub(super) type StatsTime = fn(&Stats) -> Duration;

/// Counters of seconds read from the statistics of the store: name, help, value.
pub(super) const STORE_SECONDS: &[(&str, &str, StatsTime)] = &[
    (
        "fabriclens_store_append_held_seconds_total",
        "Time in which appends wrote with the lock of the log held, one at a time. Near 1 a second, more cores do not store more samples.",
        |s| s.append_held,
    ),
    (
        "fabriclens_store_append_wait_seconds_total",
        "Time in which appends waited for each other, for queries, or for the cut of the head.",
        |s| s.append_waited,
    ),
];

/// Declares the metrics that never change: start time and version.
pub(super) fn register_constants(registry: &Registry) -> Result<(), prometheus::Error> {
    let start = IntGauge::new("fabriclens_start_time_seconds", "Start of the process, Unix time.")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    start.set(i64::try_from(now).unwrap_or(i64::MAX));
    registry.register(Box::new(start))?;
    let build = IntGauge::with_opts(
        Opts::new("fabriclens_build_info", "1; the version is in the label.")
            .const_label("version", env!("CARGO_PKG_VERSION")),
    )?;
    build.set(1);
    registry.register(Box::new(build))
}
