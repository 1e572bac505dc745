//! Settings of `[collectives]`, as the configuration gives them.

use fabriclens_agent_collectives::ras::{Limits, PORT};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of `[collectives]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collectives {
    /// Period of questions to a service.
    pub period: Duration,
    /// TCP port of the services.
    pub port: u16,
    /// Bounds of one exchange.
    pub limits: Limits,
    /// Whether files of the Inspector are followed.
    pub inspector: bool,
    /// Directories with such files, besides those that environments of jobs name.
    pub inspector_dirs: Vec<PathBuf>,
    /// Whether counters of MPI operations are read.
    pub mpi: bool,
    /// Directory in which the preload library has its files.
    pub mpi_dir: PathBuf,
    /// Patterns of logs of jobs; see [`super::check_pattern`].
    pub log_files: Vec<String>,
}

impl Default for Collectives {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(30),
            port: PORT,
            limits: Limits::default(),
            inspector: true,
            inspector_dirs: Vec::new(),
            mpi: true,
            mpi_dir: PathBuf::from("/dev/shm"),
            log_files: Vec::new(),
        }
    }
}
