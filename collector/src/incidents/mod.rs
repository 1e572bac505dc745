//! Incidents in the collector: what the live detectors find is written into a [`Book`], which keeps it, and what people
//! say of it, over restarts; from there it goes out by the API, as series, to Alertmanager and to webhooks.

pub mod book;
mod changes;
mod eyes;
mod flows;
mod late;
pub mod live;
mod notify;
mod record;
pub mod series;
mod silence;
mod view;

pub use book::{Book, BookError, Filter};
pub use changes::{Change, Changes, Missed};
pub use notify::notify;
pub use record::{Judged, Moment, Record, Said, State, kind_text, root_labels, root_text, severity_text};
pub use silence::{Match, Silence};
pub use view::{Shown, Thread};
