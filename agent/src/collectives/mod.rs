//! `[collectives]`: asks the RAS services of the host's jobs for their communicators and ranks, and follows the files of NCCL's
//! Inspector and the counters of MPI operations.
//!
//! One thread of the engine finds the services and asks each on a thread that is restricted to that connection. Of a job, the host
//! of the lowest rank asks each period (more often while an incident touches the job) and the others rarely, because each question
//! reaches all processes of the job.

mod answer;
mod doctor;
mod inspector;
mod job_log;
mod logs;
mod mpi;
mod mpi_series;
mod question;
mod reader;
mod series;
mod services;
mod settings;
mod straggler;

pub use doctor::state;
pub use inspector::InspectorReader;
pub use logs::check_pattern;
pub use mpi::MpiReader;
pub use question::Enter;
pub use reader::{IN_TROUBLE, Reader};
pub use settings::Collectives;

/// Job of a file or of what stands in it, and its cluster; `None` where nothing tells.
type Job = Option<(fabriclens_agent_workload::Key, String)>;
