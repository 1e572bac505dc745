//! Debian packages that a command needs: installed for root, named with the exact command for everyone else.

use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Something outside cargo that a step needs.
pub struct Need {
    /// What it is for, in a sentence that starts with "without it".
    pub without: &'static str,
    /// Debian packages.
    pub packages: &'static [&'static str],
    /// Files that show that it is there.
    pub proof: &'static [&'static str],
}

/// Builds the collector's allocator.
pub const MAKE: Need =
    Need { without: "the collector cannot be built", packages: &["make"], proof: &["/usr/bin/make"] };
/// Compares PromQL answers with Prometheus' own, checks rule files and exposition.
pub const PROMETHEUS: Need = Need {
    without: "the comparison with Prometheus is skipped",
    packages: &["prometheus"],
    proof: &["/usr/bin/prometheus", "/usr/bin/promtool"],
};
/// Takes what the collector forwards, is its remote engine in tests, evaluates alert rules, and is a rival of `bench store`.
pub const VICTORIA_METRICS: Need = Need {
    without: "nothing is forwarded to or measured against VictoriaMetrics",
    packages: &["victoria-metrics"],
    proof: &["/usr/bin/victoria-metrics", "/usr/bin/vmalert"],
};
/// Is told of incidents in tests.
pub const ALERTMANAGER: Need = Need {
    without: "no Alertmanager is told of incidents",
    packages: &["prometheus-alertmanager"],
    proof: &["/usr/bin/prometheus-alertmanager"],
};
/// Network namespaces, and packets lost or marked on purpose: for `bench ebpf` and the tests of probes.
pub const NETWORK: Need = Need {
    without: "probes are not tested with traffic",
    packages: &["iproute2", "ethtool", "nftables"],
    proof: &["/bin/ip", "/usr/sbin/ethtool", "/usr/sbin/nft"],
};
/// A file system whose reads can be stopped, in place of a device that hangs.
pub const BINDFS: Need = Need { without: "no device hangs", packages: &["bindfs"], proof: &["/usr/bin/bindfs"] };
/// A clock that one process alone sees.
pub const FAKETIME: Need = Need { without: "no clock steps", packages: &["faketime"], proof: &["/usr/bin/faketime"] };
/// Asks, in the pages for people.
pub const CURL: Need = Need {
    without: "no command of the pages and no hook of Slurm is run",
    packages: &["curl", "openssl"],
    proof: &["/usr/bin/curl", "/usr/bin/openssl"],
};
/// Reads Alertmanager's answers.
pub const JQ: Need =
    Need { without: "the wiring of deploy/compose is not tried", packages: &["jq"], proof: &["/usr/bin/jq"] };
/// Those who read man pages and completions.
pub const MANUAL: Need = Need {
    without: "man pages and completions are checked by fewer of those who read them",
    packages: &["man-db", "zsh", "fish"],
    proof: &["/usr/bin/man", "/usr/bin/zsh", "/usr/bin/fish"],
};
/// Builds libFuzzer, which is C++.
pub const COMPILER: Need = Need { without: "nothing is fuzzed", packages: &["g++"], proof: &["/usr/bin/c++"] };
/// The rival of `bench agent`.
pub const NODE_EXPORTER: Need = Need {
    without: "there is no rival to measure against",
    packages: &["prometheus-node-exporter"],
    proof: &["/usr/bin/prometheus-node-exporter"],
};

/// Traffic of `bench ebpf`.
pub const IPERF3: Need =
    Need { without: "there is no traffic to measure with", packages: &["iperf3"], proof: &["/usr/bin/iperf3"] };
/// The rival of `bench ebpf`.
pub const BPFTRACE: Need =
    Need { without: "there is no rival to measure against", packages: &["bpftrace"], proof: &["/usr/bin/bpftrace"] };

/// Counts system calls in `bench agent`.
pub const STRACE: Need =
    Need { without: "system calls are not counted", packages: &["strace"], proof: &["/usr/bin/strace"] };

fn present(need: &Need) -> bool {
    need.proof.iter().all(|p| Path::new(p).exists())
}

/// Whether this process may install packages.
pub fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Makes `need` available; false = skip what needs it (said loudly).
pub fn ensure(need: &Need) -> Result<bool> {
    if present(need) {
        return Ok(true);
    }
    let packages = need.packages.join(" ");
    if !is_root() {
        println!(
            "SKIPPED: {packages} not installed, so {}. Run: sudo apt-get install --no-install-recommends {packages}",
            need.without
        );
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
    // Package lists may be missing or old on a fresh machine: refresh them once and try again. A service that cannot
    // start here (no init) makes apt-get fail although everything is in place, so the files decide.
    let mut installed = apt(&install)?.success();
    if !installed && !present(need) {
        installed = apt(&["update"])?.success() && apt(&install)?.success();
    }
    if !installed && !present(need) {
        bail!("apt-get could not install {packages}; install them by hand and run again");
    }
    Ok(present(need))
}

/// Mounts tracefs, which tests of the probes need and which systemd mounts on a host but a bare root has not; where that
/// cannot be done, those tests say that they are skipped.
pub fn tracefs() -> Result<()> {
    const AT: &str = "/sys/kernel/tracing";
    if is_root() && Path::new(AT).is_dir() && !Path::new(AT).join("events").exists() {
        let mounted = Command::new("mount").args(["-t", "tracefs", "tracefs", AT]).status()?.success();
        println!("  {} tracefs on {AT}", if mounted { "mounted" } else { "could not mount" });
    }
    Ok(())
}
