//! Roots of `/proc`, `/sys` and `/run`, and the kernel calls that belong to them.
//!
//! Every path that the agent reads starts at one [`Roots`] value, so that a container mount, a recorded host and a test
//! tree use the same code. `main` creates it; discovery and every sampler get it.

use crate::pci_config::PciConfigs;
use fabriclens_kernel::{KernelCalls, live, recorded};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `SYSFS_MAGIC` of `linux/magic.h`: type that `statfs` reports for a real sysfs.
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// The roots of one host, live or recorded.
#[derive(Debug, Clone)]
pub struct Roots {
    base: PathBuf,
    sys: PathBuf,
    proc: PathBuf,
    run: PathBuf,
    /// `None` for the running kernel.
    calls: Option<Arc<dyn KernelCalls>>,
    recorded: bool,
    /// A netlink query of all RDMA ports is in progress.
    asking: Arc<AtomicBool>,
    pci_configs: Arc<PciConfigs>,
}

impl Roots {
    /// Roots of this host, or those below `root`: a bind mount of a host (`root/sys` is a real sysfs, kernel calls are
    /// made) or a recording (kernel calls are answered from files in `root`).
    pub fn new(root: Option<PathBuf>) -> Self {
        let base = root.unwrap_or_else(|| PathBuf::from("/"));
        let recorded = !is_sysfs(&base.join("sys"));
        let calls = recorded.then(|| Arc::new(recorded::RecordedKernel::new(base.clone())) as Arc<dyn KernelCalls>);
        Self::build(base, calls, recorded)
    }

    /// A tree whose kernel calls are answered by `calls`, for tests and simulators.
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
            pci_configs: Arc::default(),
        }
    }

    /// Directory that contains the others.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Path of sysfs.
    pub fn sys(&self) -> &Path {
        &self.sys
    }

    /// Path of procfs.
    pub fn proc(&self) -> &Path {
        &self.proc
    }

    /// Path of `/run`.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Netlink, ioctl and verbs calls, live or recorded. Each call opens new live sockets: a hanging device blocks its
    /// socket, so each device thread should keep one for itself.
    pub fn calls(&self) -> Arc<dyn KernelCalls> {
        match &self.calls {
            Some(calls) => Arc::clone(calls),
            None => Arc::new(live::LiveKernel::new(&self.proc)),
        }
    }

    /// True while a netlink query of all RDMA ports is in progress; no second one is started. If a driver hangs it may
    /// never return.
    pub fn asking(&self) -> &Arc<AtomicBool> {
        &self.asking
    }

    /// Configuration spaces of PCI functions.
    pub fn pci_configs(&self) -> &PciConfigs {
        &self.pci_configs
    }

    /// True for a recorded host, where no kernel call is made.
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
