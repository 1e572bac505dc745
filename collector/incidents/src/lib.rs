//! Incidents in the collector: what the live detectors find is written into a [`Book`], which keeps it, and what people
//! say of it, over restarts; from there it goes out by the API, as series, to Alertmanager and to webhooks.

#![forbid(unsafe_code)]

mod changes;
mod notify;
mod record;
pub mod series;
mod silence;
pub mod store;
mod view;

pub use crate::store::{Book, BookError, Filter};
pub use changes::{Change, Changes, Missed};
pub use notify::notify;
pub use record::{Judged, Moment, Record, Said, State, kind_text, root_labels, root_text, severity_text};
pub use silence::{Match, Silence};
pub use view::{Shown, Thread};
