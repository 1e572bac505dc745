//! Jobs on this host, identified by their cgroups, or by the environment of a process if the cgroup does not tell. Used
//! by the samplers `workload`, `queue_pairs` and `tcp_peers`, and by `capture`.
//!
//! The kernel is the only source: no hook in a scheduler and no request to one. The cost of each sample is bounded, see
//! [`tree`] and [`scan`].
//!
//! ```
//! use fabriclens_agent_workload::cgroup::of_path;
//!
//! let path = of_path("/system.slice/slurmstepd.scope/job_4711/step_0").unwrap();
//! assert_eq!((path.scheduler, &*path.job), ("slurm", "4711"));
//! assert!(of_path("/system.slice/sshd.service").is_none());
//! ```

pub mod cgroup;
pub mod details;
pub mod environ;
pub mod jobs;
pub mod mounts;
pub mod rules;
pub mod scan;
pub mod tree;
pub mod users;

pub use jobs::{Details, Jobs, Key};
