//! Which job ran where: what each source says of a job, merged into one view, and kept in `sled`. The collector's HTTP
//! interface and its directory of files are sources; attribution and reports read the view. No clock and no network here.
#![forbid(unsafe_code)]

mod facts;
mod registry;
mod view;

pub use facts::{Facts, FactsError, Key, Place, Source};
pub use registry::{Filter, Registry, RegistryError};
pub use view::{Job, running_on};
