//! Collectives of jobs, read from the series that agents send: communicators with their ranks by state, ranks that hold back
//! others, and for how long no rank has launched an operation.
//!
//! One host of a job asks its communication library. What it was told last counts until the host is told something else, or
//! is silent for [`FRESH_MS`]. Everything read is bounded. A rank's host is the address that the library knows; [`HostAddresses`]
//! finds the host of the job that has it, and never guesses.
//!
//! ```
//! use fabriclens_collectives::CollectivesReader;
//! use fabriclens_model::Memory;
//!
//! let reader = CollectivesReader { read: &Memory::default(), at_ms: 0 };
//! assert!(reader.jobs_with_stragglers()?.is_empty());
//! # Ok::<(), fabriclens_model::ReadError>(())
//! ```

#![forbid(unsafe_code)]

mod hosts;
mod model;
mod mpi;
mod read;

pub use hosts::HostAddresses;
pub use model::{Communicator, FRESH_MS, JobCollectives, JobName, MPI_COMM_WORLD, Straggler, StragglerReason};
pub use read::CollectivesReader;
