//! Probes of what tests need. An error says what is missing and how to get it.

use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// All of these programs are on the path; `packages` has them.
pub fn programs(names: &[&str], packages: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    match names.iter().find(|name| !there(name)) {
        None => Ok(()),
        Some(name) => bail!("{name} is not installed; apt-get install {packages}"),
    }
}

/// The path exists.
pub fn exists(path: &Path, remedy: &str) -> Result<()> {
    ensure!(path.exists(), "{} does not exist; {remedy}", path.display());
    Ok(())
}

/// The kernel is at least this version.
pub fn kernel(major: u32, minor: u32) -> Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the kernel's version")?;
    let mut numbers = release.split(['.', '-']).map_while(|n| n.trim().parse::<u32>().ok());
    let running = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ensure!(running >= (major, minor), "Linux {} is older than {major}.{minor}", release.trim());
    Ok(())
}

/// The kernel log can be opened.
pub fn kernel_log() -> Result<()> {
    std::fs::File::open("/dev/kmsg").map(drop).context("/dev/kmsg cannot be read; run as root")
}

/// A command that shows an ability succeeds.
fn able(program: &str, args: &[&str], remedy: &str) -> Result<()> {
    let done = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let done = done.with_context(|| format!("{program} is not installed"))?;
    let printed = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "`{program} {}` fails: {}; {remedy}", args.join(" "), printed.trim());
    Ok(())
}

/// A file system can be mounted.
pub fn mount() -> Result<()> {
    able("unshare", &["--mount", "--", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], "run as root")
}

/// A user may make network namespaces of its own, with interfaces.
pub fn user_namespaces() -> Result<()> {
    able("unshare", &["-rn", "ip", "link"], "allow user namespaces")
}

/// Named network namespaces with virtual interfaces.
pub fn network_namespaces() -> Result<()> {
    let name = format!("fabriclens-probe-{}", std::process::id());
    let made = able("ip", &["netns", "add", &name], "run as root");
    let used = made.and_then(|()| able("ip", &["-n", &name, "link"], "run as root"));
    _ = able("ip", &["netns", "del", &name], "");
    used
}

/// Control groups of version 2, in which this user may make one.
pub fn cgroup2() -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts.lines().filter_map(|line| line.split_once(' ')).find(|(_, rest)| rest.contains(" cgroup2 "));
    let at =
        mount.and_then(|(_, rest)| rest.split(' ').next()).context("no control groups of version 2 are mounted")?;
    let dir = Path::new(at).join(format!("fabriclens-probe-{}", std::process::id()));
    std::fs::create_dir(&dir).with_context(|| format!("making {}; run as root", dir.display()))?;
    Ok(std::fs::remove_dir(&dir)?)
}

/// BPF programs can be loaded and attached, and get traffic that is lost and marked on purpose.
pub fn bpf() -> Result<()> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    ensure!(capabilities & CAP_SYS_ADMIN != 0, "loading BPF programs needs root");
    exists("/sys/kernel/tracing/events".as_ref(), "mount -t tracefs tracefs /sys/kernel/tracing")?;
    programs(&["ip", "ethtool", "nft"], "iproute2 ethtool nftables")?;
    cgroup2()?;
    network_namespaces()
}

/// Python has pygnmi, a gNMI client.
pub fn pygnmi() -> Result<()> {
    able("python3", &["-c", "import pygnmi"], "pip install pygnmi")
}
