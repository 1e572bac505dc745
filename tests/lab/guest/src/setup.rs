//! Prepares a guest for the first command: file systems, modules, and network cards with known names.

use rustix::mount::MountFlags;
use std::fs::{self, File};
use std::io;
use std::process::Command;

/// (device, mount point, type): in order.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", "proc"),
    ("sys", "/sys", "sysfs"),
    ("dev", "/dev", "devtmpfs"),
    ("tmp", "/tmp", "tmpfs"),
    ("run", "/run", "tmpfs"),
    ("shm", "/dev/shm", "tmpfs"),
    ("debug", "/sys/kernel/debug", "debugfs"),
    ("tracing", "/sys/kernel/tracing", "tracefs"),
];

/// Cards with this prefix are fabric cards; the next two bytes are the rail and the guest's number.
const FABRIC_MAC: &str = "52:54:00:77:";

/// Mounts all of [`MOUNTS`]. A missing file system type is ignored; the program that needs it will fail.
pub fn mounts() -> io::Result<()> {
    for (device, at, kind) in MOUNTS {
        fs::create_dir_all(at).or_else(|error| {
            // Directories in /sys cannot be created; if one is missing, the mount fails.
            if at.starts_with("/sys") { Ok(()) } else { Err(error) }
        })?;
        if let Err(error) = rustix::mount::mount(*device, *at, *kind, MountFlags::empty(), None) {
            crate::say(&format!("mount {at}: {error}"));
        }
    }
    Ok(())
}

/// Modules, host name, loopback and cards.
pub fn run() -> io::Result<()> {
    let cmdline = fs::read_to_string("/proc/cmdline")?;
    let word = |key: &str| cmdline.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let name = word("lab.name").unwrap_or("guest");
    rustix::system::sethostname(name.as_bytes())?;
    load_modules(word("lab.modules").unwrap_or("base"))?;
    // No stray neighbor discovery on the fabric: tests compare packet counts exactly.
    for which in ["all", "default"] {
        fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1")?;
    }
    shell("ip link set lo up");
    for card in fs::read_dir("/sys/class/net")? {
        let card = card?;
        let mac = fs::read_to_string(card.path().join("address"))?;
        name_card(&card.file_name().to_string_lossy(), mac.trim());
    }
    Ok(())
}

/// Loads `/modules/<list>.list`: file names of `/modules`, dependencies first.
fn load_modules(list: &str) -> io::Result<()> {
    for file in fs::read_to_string(format!("/modules/{list}.list"))?.lines() {
        let module = File::open(format!("/modules/{file}"))?;
        match rustix::system::finit_module(&module, c"", 0) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => crate::say(&format!("module {file}: {error}")),
        }
    }
    Ok(())
}

fn name_card(card: &str, mac: &str) {
    if let Some(tail) = mac.strip_prefix(FABRIC_MAC) {
        let mut parts = tail.split(':').map(|part| u8::from_str_radix(part, 16).unwrap_or(0));
        let (rail, guest) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let net = 77 + u32::from(rail);
        shell(&format!(
            "ip link set {card} name fab{rail} && ip link set fab{rail} up && \
             ip addr add 10.{net}.0.{guest}/24 dev fab{rail}"
        ));
    } else if mac.starts_with("52:54:00:") {
        shell(&format!(
            "ip link set {card} name mgmt0 && ip link set mgmt0 up && \
             ip addr add 10.0.2.15/24 dev mgmt0 && ip route add default via 10.0.2.2"
        ));
    }
}

fn shell(script: &str) {
    let done = Command::new("/bin/sh").arg("-c").arg(script).env("PATH", crate::serve::PATH).status();
    match done {
        Ok(status) if status.success() => {}
        other => crate::say(&format!("{script}: {other:?}")),
    }
}
