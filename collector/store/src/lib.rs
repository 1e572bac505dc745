//! The embedded time series store of the collector: durable before the ack, shaped for fabric telemetry.
//!
//! Rows of series that are read together are appended as [`RowGroup`]s, logged and synced, kept compressed in memory,
//! and turned into checksummed block files that are merged and removed in the background. It knows no PromQL and no
//! jobs. Every byte on disk is drawn in `FORMAT.md`.
#![forbid(unsafe_code)]

mod aging;
mod block;
mod blocks;
pub mod codec;
mod dir;
mod error;
pub mod fuzzing;
mod head;
pub mod io;
mod join;
mod maintain;
mod merge;
mod metadata;
mod options;
mod read;
mod retain;
mod rollup;
mod rows;
mod select;
mod snapshot;
mod stats;
mod store;
mod wal;
mod witness;

pub use error::{AppendError, OpenError, StoreError};
pub use metadata::Metadata;
pub use options::{Clock, Options, SeriesLimits};
pub use rows::{Appended, RowGroup};
pub use stats::{Cardinality, Stats};
pub use store::{Store, Written, keep};
pub use wal::record as log_record;
pub use wal::replay::Damage;
