//! The metric catalog: one row per canonical metric, one row per vendor counter that feeds it.
//!
//! Everything else is derived from these tables: which counters the agent reads, the OpenTelemetry and Prometheus names,
//! `docs/metrics.md`, and the checks of dashboards and rules. A metric has the same name, unit and labels on every vendor.
//!
//! ```
//! use fabriclens_catalog::{CounterSource, DriverFamily, LinkLayer, bind};
//!
//! let mlx5 = DriverFamily::for_driver("mlx5_core");
//! let bound = bind(mlx5, LinkLayer::Ethernet, CounterSource::Ethtool, "rx_prio3_pause_duration").expect("a known counter");
//! assert_eq!(bound.metric.prometheus_name(), "fabric_pfc_pause_seconds_total");
//! assert_eq!(bound.labels, [("direction", "receive".to_owned()), ("priority", "3".to_owned())]);
//! // mlx5 counts microseconds; the metric is in seconds.
//! assert_eq!(bound.scale, 1e-6);
//! ```

mod bind;
mod collective;
pub mod counters;
mod family;
mod growth_limit;
pub mod kernel_log;
mod metric;
pub mod metrics;
mod name_index;
pub mod page;
mod source;
mod unit;
mod vendor_counter;

pub use bind::{BoundCounter, bind};
pub use collective::waits_for_all;
pub use family::{DriverFamily, LinkLayer, is_fast};
pub use growth_limit::GrowthLimit;
pub use metric::{Metric, MetricKind, Scope};
pub use source::CounterSource;
pub use unit::MetricUnit;
pub use vendor_counter::{FixedLabels, Overflow, VendorCounter};
