//! A program of MPICH on two hosts, with the library that counts its operations (`deploy/mpi`): two ranks in each guest.

use super::copied;
use super::exec::Output;
use super::slurm;
use super::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/mpi");
/// What builds it.
const BUILDERS: [&str; 2] = ["/usr/bin/make", "/usr/bin/mpicc.mpich"];
/// What guests need: what starts it, what starts its ranks in a guest, and UCX's InfiniBand transports, which UCX loads at run time.
const NEEDED: [&str; 3] =
    ["/usr/bin/mpiexec.hydra", "/usr/bin/hydra_pmi_proxy", "/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0"];
/// Files of the program in the guests.
const AT: &str = "/mpi";
/// Messages by soft-RoCE, within a guest by shared memory.
const UCX: &str = "-genv UCX_TLS rc_verbs,ud_verbs,sm,self -genv UCX_NET_DEVICES rxe0:1 -genv UCX_IB_GID_INDEX 2";
/// Gives a guest an IPv6 address, the GID of that index. UCX connects by datagrams, and none arrives over IPv4 by soft-RoCE.
const IPV6: &str = "echo 0 > /proc/sys/net/ipv6/conf/fab0/disable_ipv6; ip addr add fd77::$(hostname | tail -c 2)/64 dev fab0 nodad; \
                    until grep -q ^fd77: /sys/class/infiniband/rxe0/ports/1/gids/2; do sleep 0.1; done";

/// Command that installs what is needed.
pub const REMEDY: &str = "apt-get install --no-install-recommends make gcc mpich libmpich-dev";

/// Ranks of a guest.
const RANKS: u32 = 2;

/// Whether MPICH is installed on this host.
#[must_use]
pub fn is_here() -> bool {
    BUILDERS.iter().chain(&NEEDED).all(|program| Path::new(program).exists())
}

/// Builds the program and its library, and copies them and MPICH into the guests.
///
/// # Errors
/// When something does not build, or a guest has no room.
pub fn install(folder: &Path, guests: &[&Vm]) -> Result<()> {
    let build = folder.join("mpi");
    let mut make = Command::new("make");
    make.args(["-C", SOURCES, "all", "programs", "MPICC=mpicc.mpich"]).arg(format!("BUILD={}", build.display()));
    let made = make.output().context("running make")?;
    ensure!(made.status.success(), "deploy/mpi does not build: {}", String::from_utf8_lossy(&made.stderr));
    let programs = [&[build.join("check")][..], &NEEDED.map(PathBuf::from)].concat();
    copied::copy(folder, &programs, &[], guests)?;
    for guest in guests {
        guest.sh(&format!("mkdir -p {AT} /dev/shm; mount -t tmpfs none /dev/shm; {IPV6}"))?;
        guest.put(&build.join("check"), &format!("{AT}/check"), 0o755)?;
        guest.put(&build.join("libfabriclens-mpi.so"), &format!("{AT}/libfabriclens-mpi.so"), 0o644)?;
    }
    Ok(())
}

/// A running program.
pub struct Program<'a> {
    guests: [&'a Vm; 2],
    mode: &'static str,
}

impl<'a> Program<'a> {
    /// Starts `check` in a mode, as a job of Slurm; waits until its ranks are ready.
    ///
    /// # Errors
    /// When a rank is not ready in time.
    pub fn start(guests: [&'a Vm; 2], job: u32, mode: &'static str, limit: Duration) -> Result<Self> {
        let program = Self { guests, mode };
        let (log, run) = (program.file("mpiexec"), format!("{AT}/check {} {mode}", program.folder()));
        for guest in guests {
            guest.sh(&format!("mkdir -p {}", program.folder()))?;
        }
        let mpiexec = format!(
            "mpiexec.hydra -launcher manual -iface fab0 -hosts 10.77.0.1:{RANKS},10.77.0.2:{RANKS} -n {} {UCX} \
             -genv LD_PRELOAD {AT}/libfabriclens-mpi.so {run}",
            2 * RANKS
        );
        guests[0].sh(&format!("setsid {mpiexec} </dev/null >{log} 2>&1 &"))?;
        // It prints the commands that start the ranks, one for each host.
        let printed = guests[0].sh(&format!("until grep -q HYDRA_LAUNCH_END {log}; do sleep 0.1; done; cat {log}"))?;
        let proxies: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("HYDRA_LAUNCH: ")).collect();
        ensure!(proxies.len() == guests.len(), "mpiexec prints {printed}");
        for (guest, proxy) in guests.into_iter().zip(proxies) {
            slurm::task(guest, job, "", proxy)?;
        }
        for guest in guests {
            let ready = program.file("*.ready");
            let script = format!("until [ $(ls {ready} 2>/dev/null | wc -l) = {RANKS} ]; do sleep 0.2; done");
            guest.exec(&script, limit).and_then(Output::ok).with_context(|| program.printed())?;
        }
        Ok(program)
    }

    /// What mpiexec and the ranks have printed.
    fn printed(&self) -> String {
        let logs = format!("tail -n 20 {} /tmp/task.log; ps | grep -e mpi -e check", self.file("mpiexec"));
        self.guests.map(|guest| guest.sh(&logs).unwrap_or_default()).join("\n")
    }

    fn folder(&self) -> String {
        format!("{AT}/{}", self.mode)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder())
    }

    /// What the ranks of a guest know that they have called: lines `operation group calls bytes smallest-size-of-the-class`.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn expected(&self, guest: usize) -> Result<String> {
        self.guests[guest].sh(&format!("cat {}/*.expected", self.folder()))
    }

    /// Sends a signal to a rank.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, rank: u32, name: &str) -> Result<()> {
        let guest = self.guests[usize::try_from(rank / RANKS)?];
        guest.sh(&format!("kill -{name} $(cat {})", self.file(&format!("{rank}.ready")))).map(drop)
    }

    /// Lets it end.
    ///
    /// # Errors
    /// When it does not.
    pub fn stop(self) -> Result<()> {
        for guest in self.guests {
            guest.sh(&format!("touch {}", self.file("stop")))?;
        }
        let gone = "while pidof mpiexec.hydra; do sleep 0.2; done";
        self.guests[0].exec(gone, Duration::from_secs(60))?.ok().map(drop).context("the program does not end")
    }
}
