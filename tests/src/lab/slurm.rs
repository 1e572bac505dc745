//! A real Slurm in guests, copied from this host; and commands that look to an agent like a task of Slurm.

use super::copied;
use super::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs to copy.
const PROGRAMS: &[&str] = &[
    "/usr/sbin/slurmctld",
    "/usr/sbin/slurmd",
    "/usr/sbin/slurmstepd",
    "/usr/bin/srun",
    "/usr/bin/squeue",
    "/usr/bin/sinfo",
    "/usr/bin/scancel",
];
/// Directory of Slurm's plugins and of its own library.
const PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm";
/// Plugins that must load: Slurm skips a plugin whose libraries are missing.
const NEEDED: &[&str] = &["cgroup_v2.so", "serializer_json.so", "select_cons_tres.so"];

/// Command that installs Slurm.
pub const REMEDY: &str = "apt-get install --no-install-recommends slurmctld slurmd slurm-client";

/// Whether Slurm is installed on this host.
#[must_use]
pub fn is_here() -> bool {
    PROGRAMS.iter().all(|program| Path::new(program).exists())
}

/// Two nodes: `vm1`, which also has the controller, and `vm2`. Without authentication, because the guests have no other users.
const CONFIG: &str = "\
ClusterName=lab
SlurmctldHost=vm1(10.77.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurm
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=vm1 NodeAddr=10.77.0.1 CPUs=4 RealMemory=100
NodeName=vm2 NodeAddr=10.77.0.2 CPUs=4 RealMemory=100
PartitionName=lab Nodes=ALL Default=YES State=UP
";
const GROUPS: &str = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainCores=no\nConstrainRAMSpace=no\n";

/// Script that creates the control groups that Slurm expects from systemd; runs before the agents start.
pub const TREE: &str = "mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; \
    mkdir -p /sys/fs/cgroup/system.slice; for at in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do \
    for one in cpuset cpu memory pids; do echo +$one >$at/cgroup.subtree_control; done; done";

/// Script that creates the control group of Slurm's tasks; runs before the agents start.
pub const SCOPE: &str = "mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; \
    mkdir -p /sys/fs/cgroup/system.slice/slurmstepd.scope";

/// Starts a command as Slurm would start a task of a job, with more variables (`A=b C=d`); its output goes to `/tmp/task.log`.
///
/// # Errors
/// When the guest does not answer.
pub fn task(guest: &Vm, job: u32, variables: &str, command: &str) -> Result<()> {
    let group = format!("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0");
    let start = format!("echo $$ >{group}/cgroup.procs; exec env SLURM_JOB_ID={job} {variables} {command}");
    // Before `setsid` has begun, it would end with this command.
    let begun = format!("until grep -q . {group}/cgroup.procs; do sleep 0.1; done");
    guest.sh(&format!("mkdir -p {group}; setsid sh -c '{start}' </dev/null >>/tmp/task.log 2>&1 & {begun}")).map(drop)
}

/// Copies Slurm into both guests, starts it and waits until both nodes are idle.
///
/// # Errors
/// When a file is missing, or Slurm does not come up.
pub fn start(folder: &Path, one: &Vm, two: &Vm) -> Result<()> {
    let (programs, plugins) = files()?;
    copied::copy(folder, &programs, &plugins, &[one, two])?;
    let users = "root:x:0:0:root:/root:/bin/sh\n";
    let hosts = "127.0.0.1 localhost\n10.77.0.1 vm1\n10.77.0.2 vm2\n";
    for guest in [one, two] {
        guest.sh("mkdir -p /etc/slurm /run/slurm /run/slurmd")?;
        for (file, text) in [("slurm/slurm.conf", CONFIG), ("slurm/cgroup.conf", GROUPS), ("passwd", users)] {
            guest.write(&format!("/etc/{file}"), text)?;
        }
        guest.write("/etc/group", "root:x:0:\n")?;
        guest.write("/etc/hosts", hosts)?;
        guest.write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")?;
    }
    one.sh("setsid slurmctld -D -c </dev/null >/dev/console 2>&1 &")?;
    for guest in [one, two] {
        guest.sh("setsid slurmd -D </dev/null >/dev/console 2>&1 &")?;
    }
    let idle = "until sinfo --noheader --format='%D %T' | grep -q '^2 idle'; do sleep 0.3; done";
    let done = one.exec(idle, Duration::from_secs(60))?;
    done.ok().map(drop).context("waiting until Slurm's nodes are idle")
}

/// The programs, with the plugins that must load, and all plugins.
fn files() -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut plugins = Vec::new();
    for entry in std::fs::read_dir(PLUGINS).with_context(|| format!("reading {PLUGINS}"))? {
        plugins.push(entry?.path());
    }
    let needed: Vec<PathBuf> = NEEDED.iter().map(|plugin| Path::new(PLUGINS).join(plugin)).collect();
    for plugin in &needed {
        ensure!(plugins.contains(plugin), "there is no {}; run: {REMEDY}", plugin.display());
    }
    Ok((PROGRAMS.iter().map(PathBuf::from).chain(needed).collect(), plugins))
}
