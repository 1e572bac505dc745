//! Records a host: what discovery and samplers read, as a directory that `--root` replays.
//!
//! `capture` is a support bundle and a test fixture in one. The sysfs part keeps the kernel's own layout (class links
//! and the device directories they point to); kernel calls are written as the text that their tools print. What could
//! not be read is listed in `manifest.json`, with the reason.

mod allowed;
mod calls;
mod error;
mod out;
mod scrub;
mod sysfs;
mod workload;

pub use error::CaptureError;

use crate::health::OS_RELEASE;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_agent_host::roots::Roots;
use fabriclens_base::owned;
use out::RecordingWriter;
use scrub::Scrub;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Facts of the running kernel, below `/proc/sys/kernel`.
const KERNEL: [&str; 4] = ["arch", "ostype", "osrelease", "random/boot_id"];

/// Options of a capture.
#[derive(Debug, Clone)]
pub struct Options {
    /// New or empty directory.
    pub dir: PathBuf,
    /// Number of recordings, into `0`, `1`, …; `None`: one recording into the directory itself.
    pub ticks: Option<u32>,
    /// Time between the starts of two ticks.
    pub interval: Duration,
    /// Replace identities of the site.
    pub scrub: bool,
    /// Name of the host.
    pub host: String,
    /// Devices and netdevs to leave out, as globs.
    pub exclude_devices: Vec<String>,
}

/// Result of a capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The directory.
    pub dir: PathBuf,
    /// Files written.
    pub files: usize,
    /// Bytes written.
    pub bytes: u64,
    /// Files and calls that could not be read.
    pub skipped: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, files, bytes, skipped } = self;
        let (dir, kib) = (dir.display(), bytes.div_ceil(1024));
        write!(f, "{files} files, {kib} KiB in {dir}; {skipped} not readable, see manifest.json there. ")?;
        write!(f, "Replay: fabriclens-agent once --root {dir}")
    }
}

/// Records the host into `options.dir`.
///
/// # Errors
/// [`CaptureError`]. Files that cannot be *read* are no error; the manifest lists them.
pub fn capture(roots: &Arc<Roots>, options: &Options) -> Result<Summary, CaptureError> {
    let occupied = std::fs::read_dir(&options.dir).is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return Err(CaptureError::NotEmpty(options.dir.clone()));
    }
    let usable = std::fs::create_dir_all(&options.dir).and_then(|()| owned::check_dir(&options.dir));
    usable.map_err(|source| CaptureError::Directory { path: options.dir.clone(), source })?;
    let scrub = options.scrub.then(|| scrub_of(roots, options));
    let mut summary = Summary { dir: options.dir.clone(), ..Summary::default() };
    let Some(ticks) = options.ticks else {
        one(roots, options, &options.dir, scrub.as_ref(), &mut summary)?;
        return Ok(summary);
    };
    for tick in 0..ticks {
        let begin = Instant::now();
        one(roots, options, &options.dir.join(tick.to_string()), scrub.as_ref(), &mut summary)?;
        if tick + 1 < ticks {
            std::thread::sleep(options.interval.saturating_sub(begin.elapsed()));
        }
    }
    summary.dir = options.dir.join("0");
    Ok(summary)
}

/// Replacements for this host, with the names of its devices.
fn scrub_of(roots: &Arc<Roots>, options: &Options) -> Scrub {
    let mut scrub = Scrub::new(&options.host);
    let inventory = discover(roots, &options.exclude_devices, None);
    inventory.devices.iter().for_each(|device| scrub.device(&device.name));
    let of_ports = inventory.devices.iter().flat_map(|d| &d.ports).filter_map(|p| p.netdev.as_ref());
    for netdev in of_ports.chain(&inventory.netdevs) {
        scrub.device(&netdev.name);
        netdev.master.iter().for_each(|master| scrub.device(master));
    }
    scrub
}

fn one(
    roots: &Arc<Roots>,
    options: &Options,
    dir: &Path,
    scrub: Option<&Scrub>,
    summary: &mut Summary,
) -> Result<(), CaptureError> {
    let time_ns = Clock::new().now();
    let inventory = discover(roots, &options.exclude_devices, None);
    let mut out = RecordingWriter::new(dir, scrub, summary.files, summary.bytes);
    // Hosts without any device are recorded, too.
    out.dir(Path::new("sys"))?;
    sysfs::record(roots, &inventory, &mut out)?;
    let pids = calls::record(&roots.calls(), &inventory, &mut out)?;
    workload::record(roots, &pids, &mut out)?;
    interrupts(roots, &inventory, &mut out)?;
    proc_files(roots, &options.host, &mut out)?;
    let host = scrub.map_or_else(|| options.host.clone(), |s| s.host().to_owned());
    out.manifest(&host, time_ns)?;
    (summary.files, summary.bytes) = (out.files(), out.bytes());
    summary.skipped += out.skipped();
    Ok(())
}

/// Records which CPUs handle the interrupts of RDMA devices.
fn interrupts(roots: &Roots, inventory: &Inventory, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    const ONLINE: &str = "devices/system/cpu/online";
    let directories = inventory.devices.iter().filter_map(|device| device.pci_dir.as_ref());
    let entries = directories.flat_map(|dir| std::fs::read_dir(dir.join("msi_irqs")).into_iter().flatten().flatten());
    let numbers: BTreeSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for file in ["effective_affinity_list", "smp_affinity_list"] {
        for path in numbers.iter().map(|number| Path::new("irq").join(number.to_string()).join(file)) {
            let from = roots.proc().join(&path);
            if from.exists() {
                out.copy(&from, &Path::new("proc").join(path))?;
            }
        }
    }
    let online = roots.sys().join(ONLINE);
    if online.exists() { out.copy(&online, &Path::new("sys").join(ONLINE)) } else { Ok(()) }
}

fn proc_files(roots: &Roots, host: &str, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    // In a container only process 1 is in the host's network namespace.
    let host_net = roots.proc().join("1/net");
    let net = if host_net.join("snmp").exists() { host_net } else { roots.proc().join("net") };
    for name in ["snmp", "netstat"] {
        out.copy(&net.join(name), &Path::new("proc/net").join(name))?;
    }
    for name in KERNEL {
        let from = roots.proc().join("sys/kernel").join(name);
        // The id of a boot identifies the host as long as it runs.
        if from.exists() && !(out.scrubs() && name.ends_with("boot_id")) {
            out.copy(&from, &Path::new("proc/sys/kernel").join(name))?;
        }
    }
    for name in OS_RELEASE.map(|name| roots.base().join(name)) {
        if name.exists() {
            out.copy(&name, Path::new(OS_RELEASE[0]))?;
            break;
        }
    }
    out.text(Path::new("proc/sys/kernel/hostname"), &format!("{host}\n"))
}
