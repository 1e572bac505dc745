//! `cargo xtask ebpf`: compiles the probes of `ebpf/probes` into `ebpf/objects`, which the agent carries.
//!
//! The objects are committed, so that building the agent needs no compiler for the kernel's virtual machine. `--check`
//! finds out without one whether they were made of the sources as they are.

use crate::steps::{must, root};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINKER: &str = "bpf-linker";
/// Later ones want a system LLVM.
const LINKER_VERSION: &str = "0.10.4";

/// Options of `ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Only tells whether the objects are those of the sources
    #[arg(long)]
    pub check: bool,
}

/// Builds, or checks.
///
/// # Errors
/// When the toolchain is missing (says how to get it), a probe does not compile, or an object is stale.
pub fn run(args: &Args) -> Result<()> {
    let dir = root().join("ebpf");
    let list = dir.join("objects/SOURCES");
    let now = sources(&dir)?;
    if args.check {
        let had = fs::read_to_string(&list).unwrap_or_default();
        ensure!(had == now, "ebpf/objects are not of these sources: run cargo xtask ebpf and commit ebpf/objects");
        return Ok(());
    }
    let linker = Command::new(LINKER).arg("--version").output();
    ensure!(
        linker.is_ok_and(|o| o.status.success()),
        "{LINKER} is missing. Run: rustup toolchain install nightly --component rust-src && cargo install {LINKER}@{LINKER_VERSION}"
    );
    let probes = dir.join("probes");
    let mut build = Command::new("cargo");
    // The toolchain that runs this command must not be the one that compiles the probes.
    build
        .args(["+nightly", "build", "--release", "--locked"])
        .current_dir(&probes)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO_TARGET_DIR");
    must(build)?;
    for name in names(&dir)? {
        let from = probes.join("target/bpfel-unknown-none/release").join(&name);
        let to = dir.join("objects").join(format!("{name}.o"));
        fs::copy(&from, &to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
        println!("      {name}: {} bytes", fs::metadata(&to)?.len());
    }
    fs::write(&list, now).with_context(|| format!("writing {}", list.display()))
}

/// Probes by name: the files of `src/bin`.
fn names(dir: &Path) -> Result<Vec<String>> {
    let files = files(&dir.join("probes/src/bin"))?;
    Ok(files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect())
}

/// A line for each source: checksum and path.
fn sources(dir: &Path) -> Result<String> {
    let mut all: Vec<PathBuf> =
        ["abi/Cargo.toml", "probes/Cargo.toml", "probes/Cargo.lock"].map(|f| dir.join(f)).to_vec();
    all.extend(files(&dir.join("abi/src"))?);
    all.extend(files(&dir.join("probes/src"))?);
    let mut text = String::new();
    for file in all {
        let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(dir).unwrap_or(&file).display();
        writeln!(text, "{:08x} {name}", crc32fast::hash(&content))?;
    }
    Ok(text)
}

/// Files below a directory, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}
