//! Which job ran where. Sources (the HTTP API, job files, Slurm, Kubernetes, agents) report records of a job; the
//! [`Registry`] stores them and merges them into one [`Job`]. Attribution and reports read that view. This crate uses no
//! clock and no network.
//!
//! ```
//! use fabriclens_jobs::{JobKey, JobRecord, Limits, Registry, Source};
//!
//! let dir = tempfile::tempdir()?;
//! let store = fabriclens_store::Store::open(dir.path(), Default::default())?;
//! let registry = Registry::open(store.table("jobs"), Limits::default())?;
//! let key = JobKey { cluster: String::new(), id: "4711".into() };
//! let record = JobRecord {
//!     user: Some("ann".into()),
//!     hosts: [("gpu-01".to_owned(), Default::default())].into(),
//!     ..JobRecord::default()
//! };
//! registry.begin(Source::Http, &key, record, 1_000_000_000)?;
//! registry.end(Source::Http, &key, 61_000_000_000)?;
//!
//! let job = registry.find(&key)?;
//! assert_eq!((job.user.as_str(), job.start_ns, job.end_ns), ("ann", 1_000_000_000, Some(61_000_000_000)));
//! assert!(job.hosts.contains_key("gpu-01"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod claims;
mod disagreements;
mod end_detector;
mod host_names;
mod job_list;
pub mod kubernetes;
mod observe;
mod occupancy;
mod record;
mod registry;
mod sender;
mod sighting;
pub mod slurm;
mod view;

pub use end_detector::{AgentScan, EndDetector, LastSeen};
pub use fabriclens_model::hostlist;
pub use host_names::HostNames;
pub use job_list::{JobList, ListedJob, Unparsed};
pub use occupancy::{Attribution, Occupancy, overlap_ns};
pub use record::{HostAllocation, JobKey, JobRecord, RecordError, Source};
pub use registry::{Cursor, EndedRun, Filter, Page, Registry, RegistryError};
pub use sender::{Limits, Reporter};
pub use sighting::{OpenRun, SeenJob, Sighting};
pub use view::Job;

/// One second in nanoseconds.
pub(crate) const SECOND: i64 = 1_000_000_000;
