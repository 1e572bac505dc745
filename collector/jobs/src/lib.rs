//! Which job ran where: what each source says of a job, merged into one view, and kept in `sled`. The collector's HTTP
//! interface, its directory of files and its questions to Slurm are sources; attribution and reports read the view. No
//! clock and no network here.
#![forbid(unsafe_code)]

mod facts;
pub mod hostlist;
mod occupancy;
mod registry;
pub mod slurm;
mod view;

pub use facts::{Facts, FactsError, Key, Place, Source};
pub use occupancy::{Grade, Occupancy, overlap_ns};
pub use registry::{Filter, Registry, RegistryError};
pub use view::Job;
