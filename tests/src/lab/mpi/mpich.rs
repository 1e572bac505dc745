//! MPICH: `mpiexec` prints the commands that start the ranks, one for each host.

use super::{Mpi, RANKS, VARIABLES};
use crate::lab::slurm;
use crate::lab::vm::Vm;
use anyhow::{Result, ensure};

/// MPICH, started by hydra.
pub const MPICH: Mpi = Mpi {
    name: "MPICH",
    compiler: "/usr/bin/mpicc.mpich",
    programs: &["/usr/bin/mpiexec.hydra", "/usr/bin/hydra_pmi_proxy"],
    others: &[],
    remedy: "apt-get install --no-install-recommends make gcc mpich libmpich-dev",
    start,
    starter: "mpiexec.hydra",
};

fn start(guests: [&Vm; 2], job: u32, command: &str, log: &str) -> Result<()> {
    let variables: String = VARIABLES.iter().map(|(name, value)| format!(" -genv {name} {value}")).collect();
    let mpiexec = format!(
        "mpiexec.hydra -launcher manual -iface fab0 -hosts 10.77.0.1:{RANKS},10.77.0.2:{RANKS} -n {}{variables} {command}",
        2 * RANKS
    );
    guests[0].sh(&format!("setsid {mpiexec} </dev/null >{log} 2>&1 &"))?;
    let printed = guests[0].sh(&format!("until grep -q HYDRA_LAUNCH_END {log}; do sleep 0.1; done; cat {log}"))?;
    let proxies: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("HYDRA_LAUNCH: ")).collect();
    ensure!(proxies.len() == guests.len(), "mpiexec prints {printed}");
    for (guest, proxy) in guests.into_iter().zip(proxies) {
        slurm::task(guest, job, "", proxy)?;
    }
    Ok(())
}
