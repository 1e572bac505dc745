//! MPI programs with the preload library `deploy/mpi`, built and run for a test.

use crate::eventually;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/mpi");
/// Ranks of a program.
pub const RANKS: u32 = 4;

/// An MPI of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI.
    Open,
    /// MPICH.
    Mpich,
}

impl Mpi {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Open, Self::Mpich];
    /// Programs of both.
    pub const PROGRAMS: &[&str] = &["make", "cc", "mpicc.openmpi", "mpirun.openmpi", "mpicc.mpich", "mpirun.mpich"];
    /// Debian packages with them.
    pub const PACKAGES: &str = "make gcc openmpi-bin libopenmpi-dev mpich libmpich-dev";

    fn suffix(self) -> &'static str {
        match self {
            Self::Open => "openmpi",
            Self::Mpich => "mpich",
        }
    }
}

/// The library and its programs, built with one MPI.
pub struct MpiBuild {
    mpi: Mpi,
    directory: PathBuf,
}

impl MpiBuild {
    /// Builds them in a directory.
    ///
    /// # Panics
    /// If they cannot be built.
    pub fn new(mpi: Mpi, directory: &Path) -> Self {
        let mut make = Command::new("make");
        make.args(["-C", SOURCES, "all", "programs", &format!("MPICC=mpicc.{}", mpi.suffix())]);
        make.arg(format!("BUILD={}", directory.display()));
        let built = make.output().expect("make");
        let printed = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success() && !printed.contains("warning"), "{mpi:?}: {printed}");
        Self { mpi, directory: directory.to_owned() }
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.directory.join("libfabriclens-mpi.so")
    }

    /// Starts `check` with [`RANKS`] ranks over loopback, preloaded with a library, in an empty directory; waits until all ranks are
    /// ready.
    ///
    /// # Panics
    /// If it does not start, or a rank is not ready in time.
    pub fn start(&self, library: &Path, counters: &Path, directory: &Path, mode: &str) -> MpiProgram {
        let mut run = Command::new(format!("mpirun.{}", self.mpi.suffix()));
        run.args(["-n", &RANKS.to_string()]);
        let variables = [
            ("LD_PRELOAD", library.as_os_str()),
            ("FABRICLENS_MPI_DIR", counters.as_os_str()),
            ("FABRICLENS_MPI_VERBOSE", OsStr::new("1")),
        ];
        match self.mpi {
            Mpi::Open => {
                run.args(["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,tcp"]);
                run.args(["--mca", "btl_tcp_if_include", "lo", "--mca", "mpi_yield_when_idle", "1"]);
                for (name, value) in variables {
                    run.arg("-x").arg([OsStr::new(name), value].join(OsStr::new("=")));
                }
            }
            Mpi::Mpich => {
                run.args(["-genv", "FI_PROVIDER", "tcp", "-genv", "MPIR_CVAR_NOLOCAL", "1"]);
                for (name, value) in variables {
                    run.arg("-genv").arg(name).arg(value);
                }
            }
        }
        run.arg(self.directory.join("check")).arg(directory).arg(mode);
        run.stdin(Stdio::null()).stdout(Stdio::null());
        run.stderr(std::fs::File::create(directory.join("stderr")).expect("file for errors"));
        let program = MpiProgram { child: run.spawn().expect("mpirun"), directory: directory.to_owned() };
        let ready = || (0..RANKS).all(|rank| program.file(&format!("{rank}.ready")).exists());
        eventually("the ranks are ready", Duration::from_secs(60), ready);
        program
    }
}

/// A running program.
pub struct MpiProgram {
    child: Child,
    directory: PathBuf,
}

impl MpiProgram {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Process of a rank.
    pub fn pid(&self, rank: u32) -> u32 {
        self.read(&format!("{rank}.ready")).trim().parse().expect("a process id")
    }

    /// What a rank knows that it has called: lines `operation group calls bytes smallest-size-of-the-class`.
    pub fn expected(&self, rank: u32) -> Vec<String> {
        self.read(&format!("{rank}.expected")).lines().map(Into::into).collect()
    }

    /// What it has written to standard error.
    pub fn errors(&self) -> String {
        self.read("stderr")
    }

    /// Lets it end.
    ///
    /// # Panics
    /// If it ends with an error.
    pub fn stop(mut self) -> String {
        std::fs::write(self.file("stop"), "").expect("stop");
        let status = self.child.wait().expect("mpirun");
        let errors = self.errors();
        assert!(status.success(), "{status}: {errors}");
        errors
    }
}

impl Drop for MpiProgram {
    fn drop(&mut self) {
        // After a test that has failed; mpirun ends its ranks.
        if let Some(pid) = self.child.try_wait().is_ok_and(|ended| ended.is_none()).then(|| self.child.id()) {
            _ = Command::new("kill").arg(pid.to_string()).status();
            _ = self.child.wait();
        }
    }
}
