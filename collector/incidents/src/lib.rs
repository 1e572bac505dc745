//! Incidents in the collector. The detectors write them into the [`IncidentStore`], operators acknowledge, silence and
//! reclassify them, and both survive restarts. The API, series (`fabric_incident_*`), Alertmanager and webhooks publish
//! them.
//!
//! ```
//! use fabriclens_incidents::{Filter, IncidentStore};
//! use fabriclens_store::{Options, Store};
//! use std::time::Duration;
//!
//! let dir = tempfile::tempdir()?;
//! let store = Store::open(dir.path(), Options::default())?;
//! let incidents = IncidentStore::open(&store, Duration::from_secs(366 * 86_400))?;
//! assert!(incidents.list(&Filter { job: Some("4711".into()), ..Filter::default() }).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod changes;
mod kernel_event;
mod notify;
mod record;
pub mod series;
mod setting;
mod silence;
pub mod store;
mod view;

pub use crate::store::{Filter, IncidentStore, IncidentStoreError};
pub use changes::{Change, Changes, Missed};
pub use kernel_event::{KernelEvent, KernelLogCount};
pub use notify::notify;
pub use record::{Classification, HistoryEntry, OperatorNote, Record, State, kind_text, root_labels, root_text};
pub use setting::WrongSetting;
pub use silence::{Silence, SilenceMatcher};
pub use view::{IncidentView, Thread};
