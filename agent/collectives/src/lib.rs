//! Collectives of a job as its communication library reports them: which communicators exist, which process and GPU each
//! rank is, how many operations each rank has launched, and which ranks do not answer.
//!
//! - [`ras`] asks the RAS service of NCCL, a text protocol on a TCP port of each host of a job. It only reads: it never sends a
//!   command that changes a job.
//! - [`progress`] compares several answers, because one answer is taken at slightly different times on each rank.
//! - [`inspector`] follows the files that NCCL's Inspector plugin writes: time and bus bandwidth of each operation.
//! - [`mpi`] reads the counters of MPI operations that the preload library `deploy/mpi` writes.
//! - [`log`] reads log lines of NCCL and RCCL.
//! - [`listeners`] finds the sockets on which the service may be reached.
//!
//! Every answer is foreign input: bytes, time, communicators and ranks are bounded ([`ras::Limits`]).
//!
//! ```
//! use fabriclens_agent_collectives::ras::{Limits, parse_json};
//!
//! let answer = br#"{"nccl_version": "2.29.1", "communicators": [], "ras": {"timeouts_count": 0}}"#;
//! let snapshot = parse_json(&answer[..], &Limits::default()).unwrap();
//! assert!(snapshot.communicators.is_empty());
//! ```

#![forbid(unsafe_code)]

mod growing;
pub mod inspector;
pub mod listeners;
pub mod log;
pub mod model;
pub mod mpi;
pub mod progress;
pub mod ras;

pub use growing::Budget;
