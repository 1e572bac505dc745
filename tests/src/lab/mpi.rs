//! A program of MPI on two hosts, with the library that counts its operations (`deploy/mpi`): two ranks in each guest.

mod mpich;
mod open_mpi;

use super::copied;
use super::exec::Output;
use super::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/mpi");
/// Files of the program in the guests.
const AT: &str = "/mpi";
/// UCX's InfiniBand transports, which UCX loads at run time.
const UCX_VERBS: &str = "/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0";
/// Variables of each rank: messages by soft-RoCE, within a guest by shared memory, and operations are counted.
const VARIABLES: &[(&str, &str)] = &[
    ("UCX_TLS", "rc_verbs,ud_verbs,sm,self"),
    ("UCX_NET_DEVICES", "rxe0:1"),
    ("UCX_IB_GID_INDEX", "2"),
    ("LD_PRELOAD", "/mpi/libfabriclens-mpi.so"),
];
/// Gives a guest an IPv6 address, the GID of that index. UCX connects by datagrams, and none arrives over IPv4 by soft-RoCE.
const IPV6: &str = "echo 0 > /proc/sys/net/ipv6/conf/fab0/disable_ipv6; ip addr add fd77::$(hostname | tail -c 2)/64 dev fab0 nodad; \
                    until grep -q ^fd77: /sys/class/infiniband/rxe0/ports/1/gids/2; do sleep 0.1; done";

/// Ranks of a guest.
const RANKS: u32 = 2;

/// An MPI of Debian: what builds a program with it, what a guest needs of it, and how it starts ranks on two hosts.
pub struct Mpi {
    /// Name, as its makers write it.
    pub name: &'static str,
    compiler: &'static str,
    /// Programs and plugins, copied with the libraries that they need.
    programs: &'static [&'static str],
    /// Other directories, copied whole.
    others: &'static [&'static str],
    /// Command that installs it.
    pub remedy: &'static str,
    /// Starts a command in [`RANKS`] ranks of each guest, as tasks of a job of Slurm; what starts them logs to the file.
    start: fn(guests: [&Vm; 2], job: u32, command: &str, log: &str) -> Result<()>,
    /// The process that ends when the program has ended, in the first guest.
    starter: &'static str,
}

pub use mpich::MPICH;
pub use open_mpi::OPEN_MPI;

impl Mpi {
    /// Whether it is installed on this host.
    #[must_use]
    pub fn is_here(&self) -> bool {
        [self.compiler, "/usr/bin/make", UCX_VERBS]
            .iter()
            .chain(self.programs)
            .all(|program| Path::new(program).exists())
    }

    /// Builds the program and its library, and copies them and the MPI into the guests.
    ///
    /// # Errors
    /// When something does not build, or a guest has no room.
    pub fn install(&self, folder: &Path, guests: &[&Vm]) -> Result<()> {
        let build = folder.join("mpi");
        let mut make = Command::new("make");
        make.args(["-C", SOURCES, "all", "programs"]);
        make.args([format!("MPICC={}", self.compiler), format!("BUILD={}", build.display())]);
        let made = make.output().context("running make")?;
        ensure!(made.status.success(), "deploy/mpi does not build: {}", String::from_utf8_lossy(&made.stderr));
        let mut programs = vec![build.join("check"), UCX_VERBS.into()];
        programs.extend(self.programs.iter().map(PathBuf::from));
        let others: Vec<PathBuf> = self.others.iter().map(PathBuf::from).collect();
        copied::copy(folder, &programs, &others, guests)?;
        for guest in guests {
            guest.sh(&format!("mkdir -p {AT} /dev/shm; mount -t tmpfs none /dev/shm; {IPV6}"))?;
            guest.put(&build.join("check"), &format!("{AT}/check"), 0o755)?;
            guest.put(&build.join("libfabriclens-mpi.so"), &format!("{AT}/libfabriclens-mpi.so"), 0o644)?;
        }
        Ok(())
    }
}

/// A running program.
pub struct Program<'a> {
    mpi: &'static Mpi,
    guests: [&'a Vm; 2],
    mode: &'static str,
}

impl<'a> Program<'a> {
    /// Starts `check` in a mode, as a job of Slurm; waits until its ranks are ready.
    ///
    /// # Errors
    /// When a rank is not ready in time.
    pub fn start(
        mpi: &'static Mpi,
        guests: [&'a Vm; 2],
        job: u32,
        mode: &'static str,
        limit: Duration,
    ) -> Result<Self> {
        let program = Self { mpi, guests, mode };
        for guest in guests {
            guest.sh(&format!("mkdir -p {}", program.folder()))?;
        }
        let command = format!("{AT}/check {} {mode}", program.folder());
        (mpi.start)(guests, job, &command, &program.file("starter"))?;
        for guest in guests {
            let ready = program.file("*.ready");
            let script = format!("until [ $(ls {ready} 2>/dev/null | wc -l) = {RANKS} ]; do sleep 0.2; done");
            guest.exec(&script, limit).and_then(Output::ok).with_context(|| program.printed())?;
        }
        Ok(program)
    }

    /// What the ranks and what starts them have printed.
    fn printed(&self) -> String {
        let logs = format!("tail -n 20 {} /tmp/task.log; ps | grep -e mpi -e check", self.file("starter"));
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
        let gone = format!("while pidof {}; do sleep 0.2; done", self.mpi.starter);
        self.guests[0].exec(&gone, Duration::from_secs(60))?.ok().map(drop).context("the program does not end")
    }
}
