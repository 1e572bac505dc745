//! Builds the fake HCA module (`tests/lab/fakehca`) against the headers of the guest's kernel.

use super::Image;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the module, which is built if its sources or the kernel changed.
///
/// # Errors
/// When make or gcc is missing or the sources do not compile; with the compiler's output.
pub fn build(image: &Image) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/fakehca");
    let mut files: Vec<PathBuf> = fs::read_dir(&sources)
        .with_context(|| format!("reading {}", sources.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "c" || end == "h") || file.ends_with("Makefile"));
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        fs::read(file)?.hash(&mut hasher);
    }
    let home = image.root.with_file_name(format!("fakehca-{:016x}", hasher.finish()));
    let module = home.join("fakehca.ko");
    if module.exists() {
        return Ok(module);
    }
    fs::create_dir_all(&home)?;
    for file in &files {
        fs::copy(file, home.join(file.file_name().unwrap_or_default()))?;
    }
    let headers = relocate_headers(image)?;
    let done = Command::new("make")
        .arg("-C")
        .arg(&headers)
        .arg(format!("M={}", home.display()))
        .arg("modules")
        .env("LD_LIBRARY_PATH", super::library_path(&image.root))
        .output()
        .context("running make (on Debian: apt-get install make gcc)")?;
    if !done.status.success() {
        let _ = fs::remove_file(&module);
    }
    ensure!(
        done.status.success(),
        "building the fake HCA failed:\n{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(module)
}

/// Debian's headers name each other by absolute paths below /usr/src; here they lie in the cache.
fn relocate_headers(image: &Image) -> Result<PathBuf> {
    let folder = image.root.join("usr/src").join(format!("linux-headers-{}", image.release));
    let makefile = folder.join("Makefile");
    let text = fs::read_to_string(&makefile).with_context(|| format!("reading {}", makefile.display()))?;
    let here = image.root.join("usr/src").display().to_string();
    // The cache may have been moved, so any prefix of /usr/src/ is replaced.
    let moved = text.lines().map(|line| match line.split_once("/usr/src/") {
        Some((_, tail)) => format!("include {here}/{tail}\n"),
        None => format!("{line}\n"),
    });
    fs::write(&makefile, moved.collect::<String>())?;
    Ok(folder)
}
