//! Open MPI: `mpirun` starts the ranks of its own host, and passes a remote shell the command that starts those of the other.

use super::{AT, Mpi, RANKS, VARIABLES};
use crate::lab::slurm;
use crate::lab::vm::Vm;
use anyhow::Result;

/// Open MPI, whose messages go by UCX.
pub const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI",
    compiler: "/usr/bin/mpicc.openmpi",
    programs: &[
        "/usr/bin/orterun",
        "/usr/bin/orted",
        "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_pml_ucx.so",
        "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_pmix_ext3x.so",
    ],
    others: &[
        "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3",
        "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix",
        "/usr/share/openmpi",
    ],
    remedy: "apt-get install --no-install-recommends make gcc openmpi-bin libopenmpi-dev",
    start,
    starter: "orterun",
};

/// Settings of Open MPI. By default it uses UCX on Mellanox devices only, and complains of plugins whose libraries the guests do not have.
const SETTINGS: &[(&str, &str)] = &[
    ("plm", "rsh"),
    ("ras", "^slurm"),
    ("oob_tcp_if_include", "fab0"),
    ("pml", "ucx"),
    ("opal_common_ucx_devices", "any"),
    ("opal_common_ucx_tls", "any"),
    ("mca_base_component_show_load_errors", "0"),
    ("mpi_yield_when_idle", "1"),
];

fn start(guests: [&Vm; 2], job: u32, command: &str, log: &str) -> Result<()> {
    let (shell, passed) = (format!("{AT}/remote-shell"), format!("{AT}/passed"));
    for guest in guests {
        // Daemons look for it too.
        guest.write(&shell, &format!("#!/bin/sh\nshift\necho \"$*\" >{passed}.new\nmv {passed}.new {passed}\n"))?;
        guest.sh(&format!("chmod 755 {shell}; rm -f {passed}"))?;
    }
    let settings: String = SETTINGS.iter().map(|(name, value)| format!(" --mca {name} {value}")).collect();
    let variables: String = VARIABLES.iter().map(|(name, value)| format!(" -x {name}={value}")).collect();
    let mpirun = format!(
        "orterun --allow-run-as-root --bind-to none --host 10.77.0.1:{RANKS},10.77.0.2:{RANKS} -n {} \
         --mca plm_rsh_agent {shell}{settings}{variables} {command} >{log} 2>&1",
        2 * RANKS
    );
    slurm::task(guests[0], job, "", &mpirun)?;
    let daemon = guests[0].sh(&format!("until [ -e {passed} ]; do sleep 0.1; done; cat {passed}"))?;
    guests[1].write(&format!("{AT}/daemon"), &daemon)?;
    slurm::task(guests[1], job, "", &format!("sh {AT}/daemon"))
}
