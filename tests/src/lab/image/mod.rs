//! The guest image: Debian's kernel, uncompressed, and a small root file system with its RDMA tools.
//!
//! Cached under `target/vm/<kernel>-<versions>`, so that it is built once per set of package versions. Building needs
//! neither root nor an installed kernel: packages are only downloaded and unpacked.

pub mod cpio;
pub mod fakehca;
pub mod modules;
pub mod packages;

use anyhow::{Context, Result, bail, ensure};
use cpio::Archive;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Raise when the recipe below changes, so that older caches are not used.
const RECIPE: u32 = 6;

/// Programs taken from the packages, by path.
const PROGRAMS: &[&str] = &[
    "bin/dash",
    "bin/ip",
    "sbin/tc",
    "sbin/ethtool",
    "usr/bin/rdma",
    "usr/sbin/rdma",
    "sbin/dcb",
    "usr/sbin/dcb",
    "bin/rdma",
    "sbin/rdma",
    "bin/ss",
    "usr/bin/nstat",
    "usr/sbin/nft",
    "usr/bin/iperf3",
    "usr/bin/rping",
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_asyncwatch",
    "usr/bin/ib_send_bw",
    "usr/bin/ib_write_bw",
    "usr/bin/ib_read_bw",
    "usr/bin/ib_send_lat",
];

/// Shared objects that are opened by name at run time, so that no program's list of libraries names them.
const OPENED: &[&str] = &["libgcc_s.so.1", "libibverbs.so.1", "librdmacm.so.1"];

/// The provider of soft-RoCE; the others would print a warning each without their hardware.
const PROVIDER: &str = "librxe-rdmav34.so";

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// busybox applets that would shadow the real program.
const NOT_BUSYBOX: &[&str] = &["ip", "tc", "sh", "ash", "busybox"];

/// Kernel and root file system of a guest.
#[derive(Clone, Debug)]
pub struct Image {
    /// Uncompressed ELF kernel: unpacking takes seconds under software emulation.
    pub kernel: PathBuf,
    /// Root file system without the test's own files.
    pub base: PathBuf,
    /// Unpacked packages: kernel headers for modules, libraries.
    pub root: PathBuf,
    /// Kernel release.
    pub release: String,
}

/// Builds the image in `cache`, unless it is there.
///
/// # Errors
/// When apt, the network or a tool fails; the message names the remedy.
pub fn build(cache: &Path) -> Result<Image> {
    let packages = packages::resolve()?;
    let home = cache.join(format!("{}-r{RECIPE}", packages.key));
    let image = Image {
        kernel: home.join("vmlinux"),
        base: home.join("base.cpio"),
        root: home.join("root"),
        release: packages.kernel.clone(),
    };
    if image.base.exists() {
        return Ok(image);
    }
    println!("      guest image: fetching {} and its tools", packages.kernel);
    let _ = fs::remove_dir_all(&home);
    packages.unpack(&image.root)?;
    unpack_kernel(&image).context("unpacking the kernel")?;
    let staging = home.join("base.cpio.new");
    write_base(&image, &staging).context("writing the guest's root file system")?;
    // The archives take most of the space and are not needed again.
    fs::remove_dir_all(image.root.join("lib/modules"))?;
    fs::rename(staging, &image.base)?;
    Ok(image)
}

/// The setup header of a bzImage says where the compressed kernel is; its last four bytes are the plain size.
fn unpack_kernel(image: &Image) -> Result<()> {
    let file = image.root.join(format!("boot/vmlinuz-{}", image.release));
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let word = |at: usize| -> Result<usize> {
        let bytes = bytes.get(at..at + 4).context("kernel image is cut short")?;
        Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    ensure!(bytes.get(0x202..0x206) == Some(b"HdrS"), "{} is no bzImage", file.display());
    let start = (usize::from(bytes[0x1f1]) + 1) * 512 + word(0x248)?;
    let end = start + word(0x24c)? - 4;
    let packed = image.kernel.with_extension("xz");
    fs::write(&packed, bytes.get(start..end).context("kernel payload is cut short")?)?;
    let done = run_unpacked(&image.root, "usr/bin/xz", &["-dc", &packed.to_string_lossy()])?;
    fs::write(&image.kernel, done)?;
    fs::remove_file(packed)?;
    Ok(())
}

fn write_base(image: &Image, to: &Path) -> Result<()> {
    let root = &image.root;
    let mut archive = Archive::new(std::io::BufWriter::new(fs::File::create(to)?));
    for folder in [
        "bin",
        "sbin",
        "lib",
        "lib/x86_64-linux-gnu",
        "lib64",
        "usr",
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        LIBRARIES,
        "usr/lib/x86_64-linux-gnu/libibverbs",
        "etc",
        "etc/libibverbs.d",
        "modules",
        "root",
    ] {
        archive.directory(folder)?;
    }
    archive.file("bin/busybox", 0o755, &fs::read(root.join("bin/busybox"))?)?;
    let applets = Command::new(root.join("bin/busybox")).arg("--list").output().context("running busybox")?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|name| !NOT_BUSYBOX.contains(name)) {
        archive.symlink(&format!("bin/{applet}"), "busybox")?;
    }
    archive.symlink("bin/sh", "dash")?;
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS.iter().filter(|program| root.join(program).exists()) {
        archive.file(program, 0o755, &fs::read(root.join(program))?)?;
        libraries.extend(needed(root, program)?);
    }
    for name in OPENED {
        libraries.extend(needed(root, &library(root, name)?)?);
        libraries.insert(library(root, name)?);
    }
    let provider = format!("{LIBRARIES}/libibverbs/{PROVIDER}");
    libraries.extend(needed(root, &provider)?);
    archive.file(&provider, 0o644, &fs::read(root.join(&provider))?)?;
    archive.file("etc/libibverbs.d/rxe.driver", 0o644, b"driver rxe\n")?;
    for library in &libraries {
        archive.file(library, 0o755, &fs::read(root.join(library))?)?;
    }
    archive.file("lib64/ld-linux-x86-64.so.2", 0o755, &fs::read(loader(root))?)?;
    let mut written = BTreeSet::new();
    for (list, files) in modules::order(root, &image.release)? {
        let mut names = String::new();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if written.insert(name.clone()) {
                archive.file(&format!("modules/{name}"), 0o644, &fs::read(&file)?)?;
            }
            names += &format!("{name}\n");
        }
        archive.file(&format!("modules/{list}.list"), 0o644, names.as_bytes())?;
    }
    archive.finish()?;
    Ok(())
}

fn loader(root: &Path) -> PathBuf {
    let usual = root.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
    if usual.exists() { usual } else { root.join(LIBRARIES).join("ld-linux-x86-64.so.2") }
}

fn library_path(root: &Path) -> String {
    format!("{}:{}", root.join("lib/x86_64-linux-gnu").display(), root.join(LIBRARIES).display())
}

fn library(root: &Path, name: &str) -> Result<String> {
    ["lib/x86_64-linux-gnu", LIBRARIES]
        .iter()
        .map(|folder| format!("{folder}/{name}"))
        .find(|path| root.join(path).exists())
        .with_context(|| format!("no package brought {name}"))
}

/// Libraries of a program, as the packages' own loader finds them: paths below `root`.
fn needed(root: &Path, program: &str) -> Result<Vec<String>> {
    let done = Command::new(loader(root))
        .arg("--inhibit-cache")
        .arg("--library-path")
        .arg(library_path(root))
        .arg("--list")
        .arg(root.join(program))
        .output()
        .context("running the packages' loader")?;
    let text = String::from_utf8_lossy(&done.stdout);
    ensure!(
        done.status.success() && !text.contains("not found"),
        "{program} lacks a library:\n{text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let root = root.to_string_lossy();
    let mut libraries = Vec::new();
    for line in text.lines() {
        let Some((name, place)) = line.trim().split_once(" => ") else { continue };
        let place = place.split(" (").next().unwrap_or_default();
        match place.strip_prefix(&*root) {
            Some(path) => libraries.push(path.trim_start_matches('/').to_owned()),
            None if name.contains("ld-linux") => {}
            None => bail!("{program} takes {name} from this host, not from the guest's packages"),
        }
    }
    Ok(libraries)
}

/// Runs a program of the unpacked packages with their own libraries and returns its output.
///
/// # Errors
/// When it cannot be started or fails; with its output.
pub fn run_unpacked(root: &Path, program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let done = Command::new(loader(root))
        .arg("--library-path")
        .arg(library_path(root))
        .arg(root.join(program))
        .args(arguments)
        .output()
        .with_context(|| format!("running {program}"))?;
    ensure!(done.status.success(), "{program} failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(done.stdout)
}
