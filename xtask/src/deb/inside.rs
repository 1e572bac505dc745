//! A minimal Debian under its own systemd in a `systemd-nspawn` container, isolated from this machine.

use crate::setup::{self, Need};
use crate::steps::{must, output, target};
use crate::summary::skipped;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CONTAINER: Need = Need {
    without: "packages are not tested in a clean root",
    packages: &["systemd-container", "debootstrap"],
    proof: &["/usr/bin/systemd-nspawn", "/usr/sbin/debootstrap"],
};

const SUITE: &str = "bookworm";
/// Additional packages: systemd for the units, openssl for certificates.
const INCLUDE: &str = "systemd,systemd-sysv,openssl";
/// Longest wait for a condition.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A root file system under `target/deb`, removed on drop.
pub struct Root {
    dir: PathBuf,
    /// The `systemd-nspawn` process while it runs.
    running: Option<Child>,
}

impl Root {
    /// Creates a minimal Debian; none with a message if this user or machine cannot.
    ///
    /// # Errors
    /// When debootstrap fails.
    pub fn new() -> Result<Option<Self>> {
        if !setup::is_root() {
            skipped("packages are not installed in a clean root, which needs root. Run: sudo cargo xtask deb --test");
            return Ok(None);
        }
        if !setup::ensure(&CONTAINER)? || !setup::ensure(&setup::NETWORK)? {
            return Ok(None);
        }
        let cache = target()?.join("deb").join(format!("{SUITE}-{}", INCLUDE.replace(',', "-")));
        if !cache.exists() {
            println!("  making a minimal Debian {SUITE} in {}", cache.display());
            let partial = cache.with_extension("partial");
            _ = fs::remove_dir_all(&partial);
            let mut debootstrap = Command::new("debootstrap");
            debootstrap.args(["--variant=minbase", &format!("--include={INCLUDE}"), SUITE]).arg(&partial);
            output(debootstrap).context("debootstrap failed; is there a network?")?;
            fs::rename(&partial, &cache)?;
        }
        let dir = cache.with_extension(std::process::id().to_string());
        let mut cp = Command::new("cp");
        cp.args(["-a", "--reflink=auto"]).args([&cache, &dir]);
        must(cp)?;
        Ok(Some(Self { dir, running: None }))
    }

    /// Path on this machine of a path inside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.join(inside.trim_start_matches('/'))
    }

    /// Container with its own network that may load BPF probes.
    fn container(&self) -> Command {
        // The network namespace is created here: with nspawn's own, sysfs would be incomplete.
        let mut nspawn = Command::new("unshare");
        nspawn.args(["--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh", "systemd-nspawn", "--quiet"]);
        nspawn.args(["--register=no", "--keep-unit", "--capability=all"]);
        nspawn.args(["--system-call-filter=bpf perf_event_open", "--machine"]);
        nspawn.arg(format!("fl{}", std::process::id())).arg("--directory").arg(&self.dir).stdin(Stdio::null());
        if Path::new("/sys/kernel/tracing/events").exists() {
            nspawn.arg("--bind-ro=/sys/kernel/tracing");
        }
        nspawn
    }

    /// Starts systemd; false with a message if this machine forbids containers.
    ///
    /// # Errors
    /// When systemd does not finish booting.
    pub fn boot(&mut self) -> Result<bool> {
        let log = self.dir.with_extension("log");
        let mut nspawn = self.container();
        nspawn.arg("--boot").stdout(fs::File::create(&log)?).stderr(fs::File::options().append(true).open(&log)?);
        self.running = Some(nspawn.spawn().context("starting systemd-nspawn")?);
        let begin = Instant::now();
        while !matches!(self.sh("systemctl is-system-running || true").as_deref(), Ok("running" | "degraded")) {
            if let Some(status) = self.running.as_mut().map(Child::try_wait).transpose()?.flatten() {
                let printed = fs::read_to_string(&log).unwrap_or_default();
                skipped(format!("units are not started; systemd-nspawn ended with {status}: {}", printed.trim()));
                self.running = None;
                return Ok(false);
            }
            ensure!(begin.elapsed() < TIMEOUT, "systemd does not finish booting; see {}", log.display());
            sleep(Duration::from_millis(300));
        }
        // The collector's unit needs user namespaces, which are not allowed in a chroot.
        if let Err(why) = self.sh("unshare --user true") {
            skipped(format!("units are not started; this machine's containers make no user namespaces: {why:#}"));
            self.stop();
            return Ok(false);
        }
        Ok(true)
    }

    /// Stops the container if it runs.
    fn stop(&mut self) {
        if let Some(mut nspawn) = self.running.take() {
            // Killing the container's PID 1 ends all its processes.
            _ = Command::new("kill").args(["-KILL", &first(&nspawn)]).stderr(Stdio::null()).status();
            _ = nspawn.kill();
            _ = nspawn.wait();
        }
    }

    /// Runs a shell script inside and gives its output, in the running container or else in a new one.
    ///
    /// # Errors
    /// When the script fails, with its output.
    pub fn sh(&self, script: &str) -> Result<String> {
        let mut enter = match &self.running {
            Some(nspawn) => {
                let mut enter = Command::new("nsenter");
                enter.args([
                    "--target",
                    &first(nspawn),
                    "--mount",
                    "--uts",
                    "--ipc",
                    "--net",
                    "--pid",
                    "--cgroup",
                    "--root",
                    "--wd",
                ]);
                enter.arg("--").env_clear();
                enter
            }
            None => {
                let mut once = self.container();
                once.args(["--pipe", "--"]);
                once
            }
        };
        enter.args(["/bin/sh", "-ec", script]).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        enter.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        output(enter).with_context(|| format!("in the clean root: {script}"))
    }

    /// Repeats a script until its output is right.
    ///
    /// # Errors
    /// After a timeout, with the last output.
    pub fn until(&self, script: &str, right: impl Fn(&str) -> bool) -> Result<String> {
        let begin = Instant::now();
        loop {
            let answer = self.sh(script);
            match answer {
                Ok(answer) if right(&answer) => return Ok(answer),
                other if begin.elapsed() > TIMEOUT => {
                    bail!("in the clean root, {script}: {}", other.unwrap_or_else(|e| format!("{e:#}")))
                }
                _ => sleep(Duration::from_millis(500)),
            }
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.stop();
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            println!("  could not remove {}: {error}", self.dir.display());
        }
    }
}

/// Child process of nspawn: a helper during set-up, then PID 1 of the container.
fn first(nspawn: &Child) -> String {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", nspawn.id())).unwrap_or_default();
    children.split(' ').next().unwrap_or_default().to_owned()
}
