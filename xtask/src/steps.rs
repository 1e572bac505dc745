//! Helpers to run commands.

use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// A `cargo` command in the repository's root.
pub fn cargo(args: &[&str]) -> Command {
    let mut c = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    c.args(args).current_dir(root());
    // Cargo sets these variables for xtask's own package. Build scripts that read them (ring's) would run again, and all
    // that depends on them would be compiled again, alternating with a cargo that is called directly.
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        c.env_remove(name);
    }
    c
}

/// Cargo's target directory.
///
/// # Errors
/// When `cargo metadata` fails.
pub fn target() -> Result<PathBuf> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).context("reading cargo metadata")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo metadata names no target directory")
}

/// A free port of 127.0.0.1.
pub fn local_port() -> Result<u16> {
    fabriclens_testing::free_port().context("no port of 127.0.0.1 is free")
}

/// Version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Copies a file or directory into a directory, under the same name.
pub fn copy(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let mut cp = Command::new("cp");
    cp.arg("-rT").arg(from).arg(into.join(from.file_name().unwrap_or_default()));
    must(cp)
}

/// A command with arguments.
pub fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// A command that the kernel ends with a signal (`TERM`, `KILL`) when this process ends (`setpriv` of util-linux).
pub fn tied(signal: &str, program: &Path) -> Command {
    let mut command = command("setpriv", &["--pdeathsig", signal, "--"]);
    command.arg(program);
    command
}

/// Runs a command and gives its trimmed output; an error has its output.
pub fn output(mut command: Command) -> Result<String> {
    let done = command.output().with_context(|| format!("start {command:?}"))?;
    if !done.status.success() {
        let printed = [done.stdout, done.stderr].concat();
        bail!("{command:?} ended with {}: {}", done.status, String::from_utf8_lossy(&printed).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Runs a program; an error has its output.
pub fn call(program: &str, args: &[&str]) -> Result<()> {
    output(command(program, args)).map(drop)
}

/// Runs a command; an error names it.
pub fn must(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// `unshare` with new mount, network and process namespaces; the appended program is process 1 in them.
pub fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

/// Whether this user may create such namespaces.
pub fn may_unshare() -> bool {
    let able = unshare().args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).stderr(Stdio::null()).status();
    able.is_ok_and(|s| s.success())
}

/// All files below a directory, sorted.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
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

/// CRC-32 and path below `dir` of each file, a line each. `read` gives the content that the checksum covers.
pub fn checksums(dir: &Path, files: &[PathBuf], read: impl Fn(&Path) -> io::Result<Vec<u8>>) -> Result<String> {
    let mut text = String::new();
    for file in files {
        let content = read(file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(dir).unwrap_or(file).display();
        writeln!(text, "{:08x} {name}", crc32fast::hash(&content))?;
    }
    Ok(text)
}
