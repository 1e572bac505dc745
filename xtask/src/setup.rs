//! Debian packages that commands need: root installs them, other users are told the exact command.

use crate::summary::skipped;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian packages that a step needs.
pub struct Need {
    /// Consequence without them.
    pub without: &'static str,
    /// Package names.
    pub packages: &'static [&'static str],
    /// Files that exist if they are installed.
    pub proof: &'static [&'static str],
}

/// Needed to build the collector's allocator.
pub const MAKE: Need =
    Need { without: "the collector cannot be built", packages: &["make"], proof: &["/usr/bin/make"] };
/// Reference for PromQL, rule files and the exposition format.
pub const PROMETHEUS: Need = Need {
    without: "the comparison with Prometheus is skipped",
    packages: &["prometheus"],
    proof: &["/usr/bin/prometheus", "/usr/bin/promtool"],
};
/// Receiver of forwarded samples, remote query engine and rule evaluator in tests, and compared with in `bench store`.
pub const VICTORIA_METRICS: Need = Need {
    without: "VictoriaMetrics is not tested or compared with",
    packages: &["victoria-metrics"],
    proof: &["/usr/bin/victoria-metrics", "/usr/bin/vmalert"],
};
/// Receiver of incidents in tests.
pub const ALERTMANAGER: Need = Need {
    without: "notifications to Alertmanager are not tested",
    packages: &["prometheus-alertmanager"],
    proof: &["/usr/bin/prometheus-alertmanager"],
};
/// Network namespaces and packet loss or marks, for `bench ebpf` and the tests of probes.
pub const NETWORK: Need = Need {
    without: "probes are not tested with traffic",
    packages: &["iproute2", "ethtool", "nftables"],
    proof: &["/bin/ip", "/usr/sbin/ethtool", "/usr/sbin/nft"],
};
/// A file system whose reads can be stopped, like a device that hangs.
pub const BINDFS: Need =
    Need { without: "the fault device-blocks is skipped", packages: &["bindfs"], proof: &["/usr/bin/bindfs"] };
/// A clock for one process.
pub const FAKETIME: Need =
    Need { without: "clock faults are skipped", packages: &["faketime"], proof: &["/usr/bin/faketime"] };
/// Used by the commands of the pages.
pub const CURL: Need = Need {
    without: "commands of the pages and Slurm hooks are not run",
    packages: &["curl", "openssl"],
    proof: &["/usr/bin/curl", "/usr/bin/openssl"],
};
/// The browser of the console's tests.
pub const CHROMIUM: Need =
    Need { without: "the console is not tested in a browser", packages: &["chromium"], proof: &["/usr/bin/chromium"] };
/// Parses JSON in the compose test.
pub const JQ: Need =
    Need { without: "the wiring of deploy/compose is not tried", packages: &["jq"], proof: &["/usr/bin/jq"] };
/// Readers of man pages and completions.
pub const MANUAL: Need = Need {
    without: "man pages and completions are not tested with every program",
    packages: &["man-db", "zsh", "fish"],
    proof: &["/usr/bin/man", "/usr/bin/zsh", "/usr/bin/fish"],
};
/// A simulated InfiniBand subnet, its subnet manager, and second opinions on it.
pub const IBSIM: Need = Need {
    without: "reading an InfiniBand subnet is not tested",
    packages: &["ibsim-utils", "opensm", "infiniband-diags"],
    proof: &["/usr/bin/ibsim", "/usr/sbin/opensm", "/usr/sbin/ibtracert", "/usr/sbin/perfquery"],
};
/// Open MPI and MPICH, side by side.
pub const MPI: Need = Need {
    without: "the library that counts MPI operations is not tested",
    packages: &["gcc", "libc6-dev", "make", "openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev"],
    proof: &["/usr/bin/mpicc.openmpi", "/usr/bin/mpirun.openmpi", "/usr/bin/mpicc.mpich", "/usr/bin/mpirun.mpich"],
};
/// Needed to build libFuzzer (C++).
pub const COMPILER: Need = Need { without: "fuzzing is not possible", packages: &["g++"], proof: &["/usr/bin/c++"] };
/// Compared with in `bench agent`.
pub const NODE_EXPORTER: Need = Need {
    without: "there is no program to compare with",
    packages: &["prometheus-node-exporter"],
    proof: &["/usr/bin/prometheus-node-exporter"],
};

/// Traffic generator of `bench ebpf`.
pub const IPERF3: Need =
    Need { without: "there is no traffic to measure with", packages: &["iperf3"], proof: &["/usr/bin/iperf3"] };
/// Compared with in `bench ebpf`.
pub const BPFTRACE: Need =
    Need { without: "there is no program to compare with", packages: &["bpftrace"], proof: &["/usr/bin/bpftrace"] };

/// System call counts in `bench agent`.
pub const STRACE: Need =
    Need { without: "system calls are not counted", packages: &["strace"], proof: &["/usr/bin/strace"] };

fn present(need: &Need) -> bool {
    need.proof.iter().all(|p| Path::new(p).exists())
}

/// Whether this process may install packages.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Installs `need` if it is missing; false if it cannot be installed, which is reported.
///
/// # Errors
/// When apt-get fails.
pub fn ensure(need: &Need) -> Result<bool> {
    if present(need) {
        return Ok(true);
    }
    let packages = need.packages.join(" ");
    if !is_root() {
        skipped(format!(
            "{packages} not installed, so {}. Run: sudo apt-get install --no-install-recommends {packages}",
            need.without
        ));
        return Ok(false);
    }
    println!("  installing {packages}");
    let apt = |args: &[&str]| {
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=120"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
    };
    let mut install = vec!["install", "--no-install-recommends"];
    install.extend(need.packages);
    // Package lists may be missing or old on a fresh machine: refresh them once and retry. A service that cannot start (no
    // init) makes apt-get fail although the files are installed, so the files decide.
    let mut installed = apt(&install)?.success();
    if !installed && !present(need) {
        installed = apt(&["update"])?.success() && apt(&install)?.success();
    }
    if !installed && !present(need) {
        bail!("apt-get could not install {packages}; install them by hand and run again");
    }
    Ok(present(need))
}

/// Mounts tracefs, which the probes' tests need and which is missing without systemd. If it fails, those tests are skipped.
pub fn tracefs() -> Result<()> {
    const AT: &str = "/sys/kernel/tracing";
    if is_root() && Path::new(AT).is_dir() && !Path::new(AT).join("events").exists() {
        let mounted = Command::new("mount").args(["-t", "tracefs", "tracefs", AT]).status()?.success();
        println!("  {} tracefs on {AT}", if mounted { "mounted" } else { "could not mount" });
    }
    Ok(())
}
