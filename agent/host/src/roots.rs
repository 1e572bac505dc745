//! Where `/proc`, `/sys` and `/run` are, and which kernel calls stand behind them.
//!
//! Every path that the agent reads hangs from one [`Roots`] value, so that a container mount, a recorded host and a
//! test tree all go through the same code. Built once by `main`; passed to discovery and to every sampler.

use fabriclens_kernel::{KernelCalls, live, recorded};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `SYSFS_MAGIC` of `linux/magic.h`: what `statfs` says of a real sysfs.
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// The roots of one host, live or recorded.
#[derive(Debug, Clone)]
pub struct Roots {
    base: PathBuf,
    sys: PathBuf,
    proc: PathBuf,
    run: PathBuf,
    /// `None` = the running kernel.
    calls: Option<Arc<dyn KernelCalls>>,
    recorded: bool,
    /// The kernel was asked for all RDMA ports and has not answered.
    asking: Arc<AtomicBool>,
}

impl Roots {
    /// The host's own roots, or those under `root`: a bind mount of a host (`root/sys` is a real sysfs, kernel calls
    /// are made) or a recording (kernel calls are answered from files in `root`).
    pub fn new(root: Option<PathBuf>) -> Self {
        let base = root.unwrap_or_else(|| PathBuf::from("/"));
        let recorded = !is_sysfs(&base.join("sys"));
        let calls = recorded.then(|| Arc::new(recorded::RecordedKernel::new(base.clone())) as Arc<dyn KernelCalls>);
        Self::build(base, calls, recorded)
    }

    /// A tree whose kernel calls are answered by `calls` (tests, simulators).
    pub fn with_calls(base: PathBuf, calls: Arc<dyn KernelCalls>) -> Self {
        Self::build(base, Some(calls), true)
    }

    fn build(base: PathBuf, calls: Option<Arc<dyn KernelCalls>>, recorded: bool) -> Self {
        Self {
            sys: base.join("sys"),
            proc: base.join("proc"),
            run: base.join("run"),
            base,
            calls,
            recorded,
            asking: Arc::default(),
        }
    }

    /// Directory that all others hang from.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// sysfs.
    pub fn sys(&self) -> &Path {
        &self.sys
    }

    /// procfs.
    pub fn proc(&self) -> &Path {
        &self.proc
    }

    /// Run-time state.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Netlink, ioctl and verbs, live or recorded. Live ones are new sockets each time: a device that hangs then
    /// delays nobody else, so take one for the thread of each device and keep it.
    pub fn calls(&self) -> Arc<dyn KernelCalls> {
        match &self.calls {
            Some(calls) => Arc::clone(calls),
            None => Arc::new(live::LiveKernel::new(&self.proc)),
        }
    }

    /// True while the kernel has not answered a question for all RDMA ports: where a driver hangs it may never do, and
    /// nobody asks again before.
    pub fn asking(&self) -> &Arc<AtomicBool> {
        &self.asking
    }

    /// True when nothing here is asked of the running kernel.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }
}

fn is_sysfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(SYSFS_MAGIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_live_and_a_directory_is_recorded() {
        assert!(!Roots::new(None).is_recorded());
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("sys")).unwrap();
        let roots = Roots::new(Some(tree.path().to_path_buf()));
        assert!(roots.is_recorded());
        assert_eq!(roots.sys(), tree.path().join("sys"));
    }
}
