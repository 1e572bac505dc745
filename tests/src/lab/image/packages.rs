//! Debian packages for the guest: resolved by apt, downloaded and unpacked into the cache, never installed on this host.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of the guest; apt resolves their dependencies.
const USERLAND: &[&str] = &[
    "busybox-static",
    "dash",
    "ethtool",
    "ibverbs-providers",
    "ibverbs-utils",
    "iperf3",
    "iproute2",
    "nftables",
    "perftest",
    "rdmacm-utils",
    "xz-utils",
];

/// Exact packages of one guest image.
#[derive(Debug)]
pub struct Packages {
    /// Kernel release, for instance `6.1.0-56-amd64`.
    pub kernel: String,
    names: Vec<String>,
    /// Changes whenever apt would choose another version of any package.
    pub key: String,
}

/// Resolves the packages of the newest guest with apt, and fetches its lists again if those do not suffice: an installed
/// package may be newer than they are.
///
/// # Errors
/// When apt is missing or knows no kernel; the message names the remedy.
pub fn resolve() -> Result<Packages> {
    known().or_else(|error| if apt("apt-get", &["update"]).is_ok() { known() } else { Err(error) })
}

/// Resolves the packages without network access.
fn known() -> Result<Packages> {
    let depends = apt("apt-cache", &["depends", "linux-image-amd64"])?;
    let kernel = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
        .context("apt knows no package linux-image-amd64; run: apt-get update")?
        .to_owned();
    let series: String = kernel.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut arguments = vec![
        "depends",
        "--recurse",
        "--no-recommends",
        "--no-suggests",
        "--no-conflicts",
        "--no-breaks",
        "--no-replaces",
        "--no-enhances",
    ];
    arguments.extend(USERLAND);
    let kbuild = format!("linux-kbuild-{series}");
    arguments.push(&kbuild);
    let mut names: Vec<String> = apt("apt-cache", &arguments)?
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .map(|line| line.trim_end_matches(":amd64").to_owned())
        .filter(|name| name.starts_with("lib") || name.starts_with("zlib") || USERLAND.contains(&name.as_str()))
        .collect();
    names.extend([
        format!("linux-image-{kernel}"),
        format!("linux-headers-{kernel}"),
        format!("linux-headers-{}-common", kernel.trim_end_matches("-amd64")),
        kbuild,
    ]);
    names.sort();
    names.dedup();
    let mut arguments = vec!["download", "--print-uris"];
    arguments.extend(names.iter().map(String::as_str));
    let versions = apt("apt-get", &arguments)?;
    let mut hasher = DefaultHasher::new();
    versions.lines().filter_map(|line| line.split_ascii_whitespace().nth(1)).for_each(|file| file.hash(&mut hasher));
    let key = format!("{kernel}-{:016x}", hasher.finish());
    Ok(Packages { kernel, names, key })
}

impl Packages {
    /// Downloads all packages and unpacks them into `root`.
    ///
    /// # Errors
    /// When a download or an archive fails; the message names it.
    pub fn unpack(&self, root: &Path) -> Result<()> {
        let folder = root.with_extension("debs");
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(root)?;
        let status = Command::new("apt-get")
            .args(["download", "-q", "-o", "APT::Sandbox::User=root"])
            .args(&self.names)
            .current_dir(&folder)
            .output()
            .context("running apt-get download")?;
        ensure!(
            status.status.success(),
            "apt-get download failed: {}\nIs the network there? Are the lists fresh (apt-get update)?",
            String::from_utf8_lossy(&status.stderr).trim()
        );
        let mut archives: Vec<PathBuf> =
            fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        archives.sort();
        for archive in archives.iter().filter(|path| path.extension().is_some_and(|end| end == "deb")) {
            let status =
                Command::new("dpkg-deb").arg("-x").arg(archive).arg(root).status().context("running dpkg-deb")?;
            ensure!(status.success(), "dpkg-deb -x {} failed", archive.display());
        }
        fs::remove_dir_all(&folder).context("removing the downloaded archives")
    }
}

fn apt(program: &str, arguments: &[&str]) -> Result<String> {
    let done = match Command::new(program).args(arguments).env("LC_ALL", "C").output() {
        Ok(done) => done,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("{program} not found: the guest is built from Debian packages, so this host must be Debian")
        }
        Err(error) => return Err(error).with_context(|| format!("running {program}")),
    };
    ensure!(
        done.status.success(),
        "{program} {} failed: {}; run: apt-get update",
        arguments.first().unwrap_or(&""),
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
