//! The metadata database for small, rarely changed data: jobs, incidents, topology, metric metadata. It is one file with a
//! copy beside it. Only `file.rs` knows the library that writes it.

mod damage;
mod database;
mod file;
mod metrics;
mod recovery;
mod sled;
mod table;

pub use database::MetadataDb;
pub use metrics::{METADATA_BYTES, Metadata, Metrics};
pub use table::{MetadataBatch, MetadataTable};

/// Name of the database in the data directory.
pub const FILE: &str = "meta.redb";
/// Name of its copy.
pub const COPY: &str = "meta.copy.redb";
/// Name of the directory in which releases up to 0.1 kept the database.
pub const SLED: &str = "meta";
