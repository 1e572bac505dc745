//! `cargo xtask deb`: the Debian packages `fabriclens-agent` and `fabriclens`.
//!
//! debhelper builds them from `deploy/debian`: it writes the maintainer scripts for systemd, finds library dependencies, splits
//! debug symbols and compresses man pages. This module lays out the tree that it packs. The packages are reproducible for the
//! same sources, toolchain and Debian release: timestamps are those of the commit, and local paths are remapped.

mod clean_root;
mod inside;

use crate::programs::MANUAL;
use crate::setup::{self, Need};
use crate::steps::{VERSION, cargo, copy, must, output, root, target};
use crate::third_party;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Needed to build and check packages.
pub const DEBHELPER: Need = Need {
    without: "packages are not built",
    packages: &["debhelper", "lintian"],
    proof: &["/usr/bin/dh", "/usr/bin/dpkg-shlibdeps", "/usr/bin/lintian"],
};

/// The packages; each has a program of the same name.
pub const PACKAGES: &[&str] = &["fabriclens-agent", "fabriclens"];

/// Options of `deb`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Cargo profile of the programs
    #[arg(long, default_value = "release")]
    pub profile: String,
    /// Packs the programs of this directory instead of building them
    #[arg(long, value_name = "DIR", conflicts_with = "reproducible")]
    pub programs: Option<PathBuf>,
    /// Builds in a separate target directory with remapped paths
    #[arg(long)]
    pub reproducible: bool,
    /// Installs, upgrades and purges them in a clean root, with systemd
    #[arg(long)]
    pub test: bool,
    /// Takes packages from this directory instead of building them, for example those of a release
    #[arg(long, value_name = "DIR")]
    pub packages: Option<PathBuf>,
}

/// Builds, checks and, with `--test`, installs the packages.
///
/// # Errors
/// When a package does not build or a check fails.
pub fn run(args: &Args) -> Result<()> {
    if !setup::ensure(&DEBHELPER)? {
        return Ok(());
    }
    let packages = match &args.packages {
        Some(dir) => packages_of(dir)?,
        None => build(args)?,
    };
    for package in &packages {
        println!("  {} ({} KiB)", package.display(), fs::metadata(package)?.len() >> 10);
    }
    lint(&packages)?;
    if args.test { clean_root::test(&packages) } else { Ok(()) }
}

/// Builds into `target/deb`; gives the packages with those of debug symbols.
///
/// # Errors
/// When a package does not build.
pub fn build(args: &Args) -> Result<Vec<PathBuf>> {
    let to = target()?.join("deb");
    let tree = to.join("tree");
    for old in [&tree, &to.join("packages")] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("removing {}", old.display()))?;
        }
    }
    fs::create_dir_all(tree.join("bin"))?;
    let built = args.programs.clone().map_or_else(|| compile(args), Ok)?;
    for package in PACKAGES {
        fs::copy(built.join(package), tree.join("bin").join(package))?;
        let licences = tree.join("licences").join(package);
        fs::create_dir_all(&licences)?;
        fs::write(licences.join("THIRD-PARTY-LICENCES"), third_party::licences(package)?)?;
        copy(&root().join(format!("deploy/systemd/{package}.service")), &tree.join("debian"))?;
    }
    let mut manual = match &args.programs {
        Some(dir) => Command::new(dir.join(MANUAL)),
        None => cargo(&["run", "--quiet", "--locked", "-p", MANUAL, "--"]),
    };
    manual.arg(&tree);
    must(manual)?;
    for (from, into) in [
        ("deploy/debian", ""),
        ("deploy/config", ""),
        ("deploy/slurm", ""),
        ("deploy/mail", ""),
        ("dashboards/grafana", "dashboards"),
        ("dashboards/alerts", "dashboards"),
        ("dashboards/provisioning", "dashboards"),
        ("docs", ""),
    ] {
        copy(&root().join(from), &tree.join(into))?;
    }
    fs::write(tree.join("debian/changelog"), changelog(&tree)?)?;
    let mut rules = Command::new("debian/rules");
    rules.arg("binary").current_dir(&tree).env("DEB_RULES_REQUIRES_ROOT", "no").env("DH_QUIET", "1");
    rules.env("SOURCE_DATE_EPOCH", epoch()?).env("LC_ALL", "C.UTF-8");
    must(rules)?;
    let packages = to.join("packages");
    fs::create_dir_all(&packages)?;
    for package in packages_of(&to)? {
        fs::rename(&package, packages.join(package.file_name().unwrap_or_default()))?;
    }
    packages_of(&packages)
}

fn packages_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut files: Vec<PathBuf> = files.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "deb"));
    files.sort();
    Ok(files)
}

/// Compiles both programs; gives their directory.
fn compile(args: &Args) -> Result<PathBuf> {
    let mut to = target()?;
    let mut build = cargo(&["build", "--quiet", "--locked", "--profile", &args.profile]);
    for package in PACKAGES {
        build.args(["-p", package]);
    }
    if args.reproducible {
        let homes = [
            (home("CARGO_HOME", ".cargo")?, "/usr/share/cargo"),
            (home("RUSTUP_HOME", ".rustup")?, "/usr/share/rustup"),
            (root().canonicalize()?, "/usr/src/fabriclens"),
        ];
        to = to.join("reproducible");
        fs::create_dir_all(&to)?;
        let built = (to.canonicalize()?, "/usr/src/fabriclens/target");
        let pairs: Vec<_> = homes.iter().chain([&built]).map(|(from, to)| format!("{}={to}", from.display())).collect();
        let rust: Vec<_> = pairs.iter().map(|pair| format!("--remap-path-prefix={pair}")).collect();
        let c: Vec<_> = pairs.iter().map(|pair| format!("-ffile-prefix-map={pair}")).collect();
        build.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f")).env("CFLAGS", c.join(" "));
        build.env("CARGO_TARGET_DIR", &to).env("SOURCE_DATE_EPOCH", epoch()?);
    }
    must(build)?;
    Ok(to.join(if args.profile == "dev" { "debug" } else { &args.profile }))
}

fn home(variable: &str, default: &str) -> Result<PathBuf> {
    let set = std::env::var_os(variable).map(PathBuf::from);
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(default));
    set.or_else(default).with_context(|| format!("set HOME or {variable}"))
}

/// Build timestamp in Unix seconds: `SOURCE_DATE_EPOCH`, or that of the commit.
///
/// # Errors
/// Outside of a git checkout without `SOURCE_DATE_EPOCH`.
pub fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root());
    output(git).context("not a git checkout; set SOURCE_DATE_EPOCH")
}

/// Debian changelog with the version only; CHANGELOG.md has the changes.
fn changelog(tree: &Path) -> Result<String> {
    let control = fs::read_to_string(tree.join("debian/control"))?;
    let maintainer =
        control.lines().find_map(|l| l.strip_prefix("Maintainer: ")).context("no Maintainer in control")?;
    let mut date = Command::new("date");
    date.args(["-R", "-u", "-d", &format!("@{}", epoch()?)]).env("LC_ALL", "C");
    let (version, date) = (VERSION, output(date)?);
    Ok(format!(
        "fabriclens ({version}) unstable; urgency=medium\n\n  * Version {version}.\n\n -- {maintainer}  {date}\n"
    ))
}

/// Whether a package is one of debhelper's debug symbol packages.
pub fn is_symbols(package: &Path) -> bool {
    package.to_string_lossy().contains("-dbgsym_")
}

/// Runs lintian. `deploy/debian/*.lintian-overrides` has the accepted findings with reasons.
///
/// # Errors
/// When lintian finds an error or warning.
pub fn lint(packages: &[PathBuf]) -> Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--allow-root", "--tag-display-limit", "0"]);
    lintian.args(packages.iter().filter(|package| !is_symbols(package)));
    must(lintian).context("lintian rejects a package; `lintian --info` explains each line")?;
    ensure!(packages.len() >= PACKAGES.len(), "debhelper built only {packages:?}");
    Ok(())
}
