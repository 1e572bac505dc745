//! The collector's embedded time series database: durable before it acknowledges, shaped for fabric telemetry.
//!
//! Series that are sampled together are appended as [`RowGroup`]s: logged, synced, compressed in memory, flushed to
//! checksummed block files, and merged and expired in the background. `FORMAT.md` specifies every byte on disk. The
//! crate knows nothing of PromQL or jobs.
//!
//! ```
//! use fabriclens_model::{Labels, Matcher, Read};
//! use fabriclens_store::{Options, RowGroup, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! # let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis() as i64;
//! let store = Store::open(path, Options::default())?;
//! let series = [Labels::new([("__name__", "up"), ("host", "gpu-01")])];
//! let appended = store.append(&[RowGroup { series: series.into(), times: vec![now], values: vec![1.0] }])?;
//! assert_eq!(appended.accepted, 1);
//!
//! let found = store.select(&[Matcher::equal("__name__", "up")], now - 1000, now)?;
//! assert_eq!(found[0].values, [1.0]);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod append;
mod append_times;
mod block;
mod block_series;
mod block_set;
mod block_writer;
mod changed_times;
pub mod codec;
mod dir;
mod error;
mod flush;
pub mod fuzzing;
mod head;
mod head_selection;
mod head_walk;
pub mod io;
mod label_ranges;
mod maintenance;
mod matching;
mod merge;
mod metadata;
mod notifier;
mod options;
mod positions;
mod read;
mod retention;
mod retention_clock;
mod rollup;
mod rows;
mod sample_limit;
mod select;
mod selection;
mod series_builder;
mod shared;
mod snapshot;
mod stats;
mod store;
mod wal;

pub use append::{Written, filter_times};
pub use error::{AppendError, OpenError, StoreError};
pub use fabriclens_model::RowGroup;
pub use head::memory::HeadMemory;
pub use metadata::{METADATA_BYTES, Metadata, MetadataBatch, MetadataTable};
pub use options::{Clock, Options, SeriesLimits};
pub use rows::{Appended, Refused};
pub use stats::{Cardinality, Stats};
pub use store::Store;
pub use wal::record as log_record;
pub use wal::replay::Damage;
