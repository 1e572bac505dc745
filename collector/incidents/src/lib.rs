//! Incidents in the collector. The detectors write them into the [`IncidentStore`], operators acknowledge, silence and
//! reclassify them, and both survive restarts. The API, series (`fabric_incident_*`), Alertmanager and webhooks publish
//! them.

#![forbid(unsafe_code)]

mod changes;
mod notify;
mod record;
pub mod series;
mod silence;
pub mod store;
mod view;

pub use crate::store::{Filter, IncidentStore, IncidentStoreError};
pub use changes::{Change, Changes, Missed};
pub use notify::notify;
pub use record::{
    Classification, Moment, OperatorNote, Record, State, kind_text, root_labels, root_text, severity_text,
};
pub use silence::{Silence, SilenceMatcher};
pub use view::{IncidentView, Thread};
