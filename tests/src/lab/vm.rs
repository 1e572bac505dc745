//! One guest under QEMU: start, commands, and the end when dropped.

use super::config::Config;
use super::exec::{Channel, Output};
use super::image::Image;
use super::qmp;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The emulator. KVM is never used: nested virtualization hangs on many hosts, and tests must not depend on it.
pub const QEMU: &str = "qemu-system-x86_64";

/// A running guest.
#[derive(Debug)]
pub struct Vm {
    /// Host name in the guest.
    pub name: String,
    channel: Channel,
    child: Child,
    folder: PathBuf,
    /// Uptime in seconds when the guest was ready.
    pub booted: f64,
}

impl Vm {
    /// Starts QEMU in `folder` (its sockets and logs); does not wait for the guest.
    ///
    /// # Errors
    /// When QEMU cannot be started.
    pub fn spawn(image: &Image, initrd: &Path, folder: &Path, config: &Config) -> Result<Self> {
        let folder = folder.join(&config.name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let port = free_port()?;
        let path = |name: &str| folder.join(name).display().to_string();
        let mut qemu = Command::new(QEMU);
        qemu.args(["-accel", "tcg,tb-size=128", "-M", if config.cards > 0 { "q35" } else { "pc" }])
            .args(["-cpu", "qemu64", "-smp", "1", "-m", &config.memory.to_string()])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(initrd)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 quiet panic=-1 tsc=unstable no_timer_check {} lab.name={} lab.modules={}",
                config.kernel_arguments(),
                config.name,
                config.modules
            ))
            .args(["-serial", &format!("file:{}", path("console.log"))])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", path("qmp.sock"))])
            .args([
                "-netdev",
                &format!("user,id=mgmt,ipv6=off,hostfwd=tcp:127.0.0.1:{port}-:{}", fabriclens_guest::PORT),
            ])
            .args([
                "-device",
                &format!("virtio-net-pci,netdev=mgmt,mac=52:54:00:00:00:{:02x},romfile=", config.number),
            ]);
        qemu.args(config.devices());
        let errors = fs::File::create(folder.join("qemu.err"))?;
        let child = qemu
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("starting {QEMU}"))?;
        let channel = Channel(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Ok(Self { name: config.name.clone(), channel, child, folder, booted: 0.0 })
    }

    /// Waits until the guest answers, then sets its clock.
    ///
    /// # Errors
    /// When QEMU exits or `limit` passes; the error shows the last lines of the guest's console.
    pub fn wait(&mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            let console = fs::read(self.folder.join("console.log")).unwrap_or_default();
            let console = String::from_utf8_lossy(&console);
            let ready = console.split_once(fabriclens_guest::READY).and_then(|(_, tail)| tail.split_once('\n'));
            if let Some((line, _)) = ready {
                self.booted = line.trim().trim_start_matches("uptime=").parse().unwrap_or(0.0);
                return self.channel.set_clock(Duration::from_secs(10));
            }
            if let Some(status) = self.child.try_wait()? {
                let errors = fs::read_to_string(self.folder.join("qemu.err")).unwrap_or_default();
                bail!("guest {}: QEMU ended with {status}: {errors}{}", self.name, tail(&console));
            }
            if Instant::now() > end {
                bail!("guest {}: not ready after {limit:?}; its console ends with:\n{}", self.name, tail(&console));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a shell script and returns its status and output.
    ///
    /// # Errors
    /// When the guest does not answer within `limit`.
    pub fn exec(&self, script: &str, limit: Duration) -> Result<Output> {
        self.channel.exec(script, limit).with_context(|| format!("guest {}", self.name))
    }

    /// Runs a shell script that must succeed within 30 s; its standard output, trimmed.
    ///
    /// # Errors
    /// When it fails, with what it printed.
    pub fn sh(&self, script: &str) -> Result<String> {
        let done = self.exec(script, Duration::from_secs(30))?;
        done.ok().map(|out| out.trim().to_owned()).with_context(|| format!("guest {}: {script}", self.name))
    }

    /// Copies a file into the guest.
    ///
    /// # Errors
    /// When the file cannot be read here or written there.
    pub fn put(&self, file: &Path, to: &str, mode: u32) -> Result<()> {
        self.channel.put(file, to, mode, Duration::from_secs(60))
    }

    /// Writes a text file in the guest.
    ///
    /// # Errors
    /// When the guest cannot write it.
    pub fn write(&self, to: &str, text: &str) -> Result<()> {
        self.channel.put_bytes(text.as_bytes(), to, 0o644, Duration::from_secs(10))
    }

    /// Pulls (`false`) or plugs (`true`) the cable of the fabric card.
    ///
    /// # Errors
    /// When QEMU refuses.
    pub fn set_link(&self, up: bool) -> Result<()> {
        qmp::run(&self.folder.join("qmp.sock"), "set_link", json!({"name": "card0", "up": up})).map(drop)
    }

    /// Largest memory of QEMU so far, MiB.
    ///
    /// # Errors
    /// When QEMU has exited.
    pub fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        Ok(kib.with_context(|| format!("guest {}: QEMU has no memory", self.name))?.trim().parse::<u64>()? / 1024)
    }

    /// The guest's console so far.
    #[must_use]
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("console.log")).unwrap_or_default()).into_owned()
    }

    /// The guest's wall clock, nanoseconds since 1970.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn now_ns(&self) -> Result<u64> {
        self.channel.now_ns(Duration::from_secs(10)).with_context(|| format!("guest {}", self.name))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP port that is free now on loopback.
///
/// # Errors
/// When the system has none left.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(2000);
    (start..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}
