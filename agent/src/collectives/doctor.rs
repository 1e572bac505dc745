//! `doctor`: whether this host can read collectives as configured.

use super::services::find;
use super::settings::Collectives;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_workload::Jobs;
use std::path::Path;

/// State as a sentence. Looks for services and asks none.
pub fn state(config: &Collectives, proc: &Path, jobs: &Jobs) -> String {
    let found = find(proc, jobs, config.port);
    let (services, port, period) = (found.services.len(), config.port, config.period.as_secs());
    let mut parts = vec![format!(
        "asks the RAS services of jobs on port {port}, each at most every {period} s; {services} found now, {} processes of jobs",
        found.processes.len()
    )];
    if config.mpi {
        let directory = config.mpi_dir.display();
        parts.push(format!(
            "reads counters of MPI operations in {directory}, where processes have libfabriclens-mpi.so"
        ));
    }
    if !capabilities::may_look() {
        parts.push(
            "without CAP_SYS_PTRACE a socket is taken for a job's if a process of the job runs as its user".to_owned(),
        );
    }
    if !capabilities::may_enter() {
        parts.push(
            "jobs in network namespaces of their own (pods) are not read: entering them needs CAP_SYS_ADMIN and CAP_SYS_PTRACE".to_owned(),
        );
    }
    parts.join("; ")
}
