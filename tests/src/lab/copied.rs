//! Programs of this host, copied into guests. Both run the same Debian release, so most libraries that a program needs are in the guest
//! already; the others are copied too.

use super::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Libraries that every guest has.
const PRESENT: &[&str] = &["libc.so.6", "ld-linux-x86-64.so.2"];

/// Copies programs, the libraries that they need, and other files and directories into guests, under the same paths; packs them in
/// `folder`.
///
/// # Errors
/// When a file is missing, or a guest has no room.
pub fn copy(folder: &Path, programs: &[PathBuf], others: &[PathBuf], guests: &[&Vm]) -> Result<()> {
    let archive = pack(folder, programs, others)?;
    for guest in guests {
        guest.put(&archive, "/copied.tar", 0o644)?;
        guest.sh("tar -x -f /copied.tar -C / && rm /copied.tar")?;
    }
    Ok(())
}

fn pack(folder: &Path, programs: &[PathBuf], others: &[PathBuf]) -> Result<PathBuf> {
    let mut files: BTreeSet<PathBuf> = programs.iter().chain(others).cloned().collect();
    for program in programs {
        files.extend(libraries(program)?);
    }
    let archive = folder.join("copied.tar");
    // Follow links: Debian's alternatives point outside the archive.
    let done = Command::new("tar")
        .args(["--create", "--dereference", "--directory=/", "--file"])
        .arg(&archive)
        .args(files.iter().map(|file| file.strip_prefix("/").unwrap_or(file)))
        .output()
        .context("running tar")?;
    ensure!(done.status.success(), "tar failed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(archive)
}

fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let told = Command::new("ldd").arg(program).output().context("running ldd")?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let places = told.lines().filter_map(|line| line.split_once("=> ")?.1.split(" (").next()).map(PathBuf::from);
    let present = |path: &PathBuf| PRESENT.iter().any(|name| path.ends_with(name));
    Ok(places.filter(|path| path.is_absolute() && !present(path)).collect())
}
