//! `cargo xtask ebpf`: compiles the probes of `ebpf/probes` into `ebpf/objects`, which the agent embeds.
//!
//! The objects are committed, so that the agent builds without a BPF toolchain. `--check` compares checksums of sources and
//! objects, and with the toolchain also builds again and compares the objects byte for byte. The checksum of a Rust source
//! leaves out comments and blank lines, so that comments can be edited without the toolchain.

use crate::steps::{checksums, files, must, root, target};
use crate::summary::skipped;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pinned for reproducible objects; the BPF target needs nightly.
const COMPILER: &str = "nightly-2026-05-20";
const LINKER: &str = "bpf-linker";
/// Newer versions need a system LLVM.
const LINKER_VERSION: &str = "0.10.4";

/// Options of `ebpf`.
#[derive(clap::Args)]
pub struct Args {
    /// Writes nothing; fails if the objects are not current
    #[arg(long)]
    pub check: bool,
}

/// Builds or checks the objects.
///
/// # Errors
/// When the toolchain cannot be installed, a probe does not compile, or an object is not current.
pub fn run(args: &Args) -> Result<()> {
    let dir = root().join("ebpf");
    let list = dir.join("objects/SOURCES");
    if args.check {
        let had = fs::read_to_string(&list).unwrap_or_default();
        ensure!(had == list_of(&dir)?, "ebpf/objects are not current; run cargo xtask ebpf and commit ebpf/objects");
        if !has_compiler() || !has_linker() {
            skipped(format!(
                "the objects are not built again to compare, for want of {COMPILER} and {LINKER}. Run: cargo xtask ebpf"
            ));
            return Ok(());
        }
        for (name, built) in build(&dir)? {
            let object = dir.join("objects").join(format!("{name}.o"));
            ensure!(
                fs::read(&object)? == fs::read(&built)?,
                "{} is not current; run cargo xtask ebpf",
                object.display()
            );
        }
        return Ok(());
    }
    if !has_compiler() {
        let mut rustup = Command::new("rustup");
        rustup.args(["toolchain", "install", COMPILER, "--profile", "minimal", "--component", "rust-src"]);
        must(rustup)?;
    }
    if !has_linker() {
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--locked", &format!("{LINKER}@{LINKER_VERSION}")]).current_dir("/");
        must(cargo)?;
    }
    for (name, built) in build(&dir)? {
        let to = dir.join("objects").join(format!("{name}.o"));
        fs::copy(&built, &to).with_context(|| format!("copying {} to {}", built.display(), to.display()))?;
        println!("      {name}: {} bytes", fs::metadata(&to)?.len());
    }
    fs::write(&list, list_of(&dir)?).with_context(|| format!("writing {}", list.display()))
}

fn has_compiler() -> bool {
    let installed = Command::new("rustup").args(["component", "list", "--installed", "--toolchain", COMPILER]).output();
    installed.is_ok_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).lines().any(|l| l == "rust-src"))
}

fn has_linker() -> bool {
    let installed = Command::new(LINKER).arg("--version").stderr(Stdio::null()).output();
    installed.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(LINKER_VERSION))
}

/// Compiles all probes; gives the name and object of each.
fn build(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let target = target()?.join("ebpf");
    let mut build = Command::new("cargo");
    // RUSTUP_TOOLCHAIN would override the toolchain of the probes.
    build
        .args([&format!("+{COMPILER}"), "build", "--release", "--locked"])
        .current_dir(dir.join("probes"))
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("CARGO_TARGET_DIR", &target);
    must(build)?;
    let built = |name: String| (name.clone(), target.join("bpfel-unknown-none/release").join(name));
    Ok(names(dir)?.into_iter().map(built).collect())
}

/// Names of the probes: the files of `src/bin`.
fn names(dir: &Path) -> Result<Vec<String>> {
    let files = files(&dir.join("probes/src/bin"))?;
    Ok(files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect())
}

/// Checksum and path of each source and object, a line each. Covers only the code of Rust sources.
fn list_of(dir: &Path) -> Result<String> {
    let mut all: Vec<PathBuf> =
        ["abi/Cargo.toml", "probes/Cargo.toml", "probes/Cargo.lock"].map(|f| dir.join(f)).to_vec();
    all.extend(files(&dir.join("abi/src"))?);
    all.extend(files(&dir.join("probes/src"))?);
    all.extend(files(&dir.join("objects"))?.into_iter().filter(|file| file.extension().is_some_and(|e| e == "o")));
    checksums(dir, &all, |file| {
        let content = fs::read(file)?;
        Ok(if file.extension().is_some_and(|e| e == "rs") { code_of(&content) } else { content })
    })
}

/// Removes blank lines and lines that consist of a `//` comment. Every other line is kept unchanged, including a comment
/// behind code. A line of a string literal that begins with `//` would be removed too; the probes have none.
fn code_of(source: &[u8]) -> Vec<u8> {
    let is_code = |line: &&[u8]| {
        let text = line.trim_ascii();
        !text.is_empty() && !text.starts_with(b"//")
    };
    source.split_inclusive(|byte| *byte == b'\n').filter(is_code).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums of a source tree whose `probes/src/lib.rs` is `source`.
    fn list_with(source: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        for path in ["abi/src", "probes/src", "objects"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        for path in ["abi/Cargo.toml", "probes/Cargo.toml", "probes/Cargo.lock"] {
            fs::write(dir.path().join(path), "").unwrap();
        }
        fs::write(dir.path().join("probes/src/lib.rs"), source).unwrap();
        list_of(dir.path()).unwrap()
    }

    #[test]
    fn checksums_cover_code_but_not_comments() {
        let recorded = list_with("//! Counts.\n\n/// A bin.\nfn bin() {\n    // The first.\n    at(\"//0\")\n}\n");
        let unchanged = "//! Counts packets.\n/// Number of the bin.\n///\nfn bin() {\n    at(\"//0\")\n\n}\n";
        assert_eq!(list_with(unchanged), recorded, "only comments and blank lines differ");
        for changed in
            ["fn bin() {\n    at(\"//1\")\n}\n", "fn bin() {\n}\n", "fn bin() {\n    at(\"//0\") // The first.\n}\n"]
        {
            assert_ne!(list_with(changed), recorded, "{changed}");
        }
    }
}
