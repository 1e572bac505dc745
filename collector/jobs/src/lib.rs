//! Which job ran where: what each source says of a job, merged into one view, and kept in `sled`. The collector's HTTP
//! interface, its directory of files, its questions to Slurm and Kubernetes and what agents see are sources; attribution
//! and reports read the view. No clock and no network here.
#![forbid(unsafe_code)]

mod agents;
mod differ;
mod facts;
pub mod kubernetes;
mod listed;
mod observe;
mod occupancy;
mod registry;
pub mod slurm;
mod view;
mod watch;

pub use agents::Agents;
pub use fabriclens_model::hostlist;
pub use facts::{Facts, FactsError, Key, Place, Source};
pub use listed::{List, Listed, Odd};
pub use observe::{Observed, Seen};
pub use occupancy::{Grade, Occupancy, overlap_ns};
pub use registry::{Filter, Registry, RegistryError};
pub use view::Job;

pub use watch::{LastSeen, Look, Sighting, Watch};

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;
