//! `cargo xtask console`: builds the console from `console/` into `console/dist`, which the collector embeds.
//!
//! The built files are committed, so that the collector builds without Node. `--check` compares checksums of sources and built
//! files, and where Node and the console's libraries are installed, also builds again and compares.

mod browser;

use crate::steps::{checksums, files, must, root, target};
use crate::summary::skipped;
use anyhow::{Context, Result, ensure};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Libraries that are part of the built files; their license texts are shipped.
pub const BUNDLED: [&str; 2] = ["preact", "uplot"];

/// Options of `console`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Writes nothing; fails if the built files are not current
    #[arg(long)]
    pub check: bool,
    /// Runs the console's own tests, with Debian's chromium
    #[arg(long)]
    pub browser: bool,
    /// Takes the programs of those tests from this directory instead of building them
    #[arg(long, value_name = "DIR", requires = "browser")]
    pub programs: Option<PathBuf>,
}

/// Builds, checks or tests the console.
///
/// # Errors
/// When npm fails, the sources do not compile, a built file is not current, or a test fails.
pub fn run(args: Args) -> Result<()> {
    if args.browser {
        return browser::run(args.programs);
    }
    let dir = root().join("console");
    let dist = dir.join("dist");
    if !args.check {
        ensure!(has_npm(), "npm is missing; install Node 20.19 or later with npm (Debian: apt-get install nodejs npm)");
        install(&dir)?;
        let built = build(&dir)?;
        fs::remove_dir_all(&dist).ok();
        for (name, content) in &built {
            let to = dist.join(name);
            fs::create_dir_all(to.parent().unwrap_or(&dist))?;
            fs::write(&to, content).with_context(|| format!("writing {}", to.display()))?;
            println!("      {name}: {} bytes", content.len());
        }
        fs::write(dist.join("SOURCES"), list_of(&dir)?)?;
        return Ok(());
    }
    let recorded = fs::read_to_string(dist.join("SOURCES")).unwrap_or_default();
    ensure!(recorded == list_of(&dir)?, "console/dist is not current; run cargo xtask console and commit console/dist");
    if !has_npm() || !dir.join("node_modules").exists() {
        skipped(
            "the console is not built again to compare, for want of npm or its libraries. Run: cargo xtask console",
        );
        return Ok(());
    }
    for (name, content) in build(&dir)? {
        let committed = fs::read(dist.join(&name)).with_context(|| format!("reading console/dist/{name}"))?;
        ensure!(
            plain(&name, committed)? == plain(&name, content)?,
            "console/dist/{name} is not current; run cargo xtask console"
        );
    }
    Ok(())
}

/// Whether npm is installed.
pub fn has_npm() -> bool {
    let version = Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// An `npm` command in a directory.
pub fn npm(dir: &Path, args: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(args).current_dir(dir).stdin(Stdio::null());
    npm
}

/// Installs the libraries of the lock file, unless they are there.
///
/// # Errors
/// When npm cannot download them.
pub fn install(dir: &Path) -> Result<()> {
    let modified = |path: PathBuf| fs::metadata(path).and_then(|of| of.modified()).ok();
    let installed = modified(dir.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= modified(dir.join("package-lock.json")) {
        return Ok(());
    }
    must(npm(dir, &["ci", "--no-progress", "--fetch-retries", "1", "--fetch-timeout", "60000"]))
}

/// Compiles the console; gives the name and content of each file of `dist`.
fn build(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let out = target()?.join("console");
    fs::remove_dir_all(&out).ok();
    let mut build = npm(dir, &["run", "--silent", "build", "--", "--outDir"]);
    build.arg(&out).args(["--emptyOutDir", "--logLevel", "warn"]);
    must(build)?;
    let mut all = Vec::new();
    let page = fs::read_to_string(out.join("index.html"))?;
    let mut table = String::from("//! Written by `cargo xtask console`.\n\nuse super::file::File;\n\n");
    writeln!(table, "/// The page.\npub(crate) const PAGE: &str = include_str!(\"index.html\");\n")?;
    let tag = crc32fast::hash(page.as_bytes());
    writeln!(table, "/// Its entity tag.\npub(crate) const PAGE_ETAG: &str = \"\\\"{tag:08x}\\\"\";\n")?;
    writeln!(table, "/// Its scripts and styles.\npub(crate) const ASSETS: &[File] = &[")?;
    for file in files(&out.join("assets"))? {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file name of the console")?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&fs::read(&file)?)?;
        writeln!(table, "    File {{ name: \"{name}\", gzip: include_bytes!(\"assets/{name}.gz\") }},")?;
        all.push((format!("assets/{name}.gz"), gzip.finish()?));
    }
    table += "];\n";
    all.push(("files.rs".to_owned(), table.into_bytes()));
    all.push(("index.html".to_owned(), page.into_bytes()));
    all.push(("LICENSES".to_owned(), licenses(dir)?.into_bytes()));
    Ok(all)
}

/// What a file of `dist` decompresses to: other versions of the compressor may write other bytes.
fn plain(name: &str, content: Vec<u8>) -> Result<Vec<u8>> {
    if !name.ends_with(".gz") {
        return Ok(content);
    }
    let mut plain = Vec::new();
    GzDecoder::new(&content[..]).read_to_end(&mut plain).with_context(|| format!("reading {name}"))?;
    Ok(plain)
}

/// Names, versions and license texts of the libraries that are part of the built files.
fn licenses(dir: &Path) -> Result<String> {
    let mut text = String::new();
    for name in BUNDLED {
        let of = dir.join("node_modules").join(name);
        let package: serde_json::Value = serde_json::from_slice(&fs::read(of.join("package.json"))?)?;
        let license = fs::read_to_string(of.join("LICENSE")).with_context(|| format!("the license of {name}"))?;
        let (version, id) = (package["version"].as_str(), package["license"].as_str());
        let (version, id) = version.zip(id).with_context(|| format!("version and license of {name}"))?;
        write!(text, "{name} {version} ({id})\n\n{}\n\n", license.trim())?;
    }
    Ok(text)
}

/// Checksum and path of each source and built file, a line each.
fn list_of(dir: &Path) -> Result<String> {
    let single = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
    let mut all: Vec<PathBuf> = single.map(|file| dir.join(file)).to_vec();
    let is_test = |file: &PathBuf| file.to_string_lossy().contains(".test.");
    all.extend(files(&dir.join("src"))?.into_iter().filter(|file| !is_test(file)));
    let is_list = |file: &PathBuf| file.ends_with("dist/SOURCES");
    all.extend(files(&dir.join("dist"))?.into_iter().filter(|file| !is_list(file)));
    checksums(dir, &all, |file| fs::read(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_sources_and_built_files_but_no_tests() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = dir.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for path in ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"] {
            write(path, "");
        }
        write("src/main.tsx", "one");
        write("dist/index.html", "page");
        let recorded = list_of(dir.path()).unwrap();
        for unrelated in ["src/main.test.ts", "dist/SOURCES", "tests/browser/run.ts"] {
            write(unrelated, "x");
            assert_eq!(list_of(dir.path()).unwrap(), recorded, "{unrelated}");
        }
        for covered in ["src/main.tsx", "dist/index.html", "package-lock.json"] {
            let before = list_of(dir.path()).unwrap();
            write(covered, "changed");
            assert_ne!(list_of(dir.path()).unwrap(), before, "{covered}");
        }
    }

    #[test]
    fn compressed_files_are_compared_by_content() {
        let pack = |level| {
            let mut gzip = GzEncoder::new(Vec::new(), level);
            gzip.write_all(b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").unwrap();
            gzip.finish().unwrap()
        };
        let (best, none) = (pack(Compression::best()), pack(Compression::none()));
        assert_ne!(best, none);
        assert_eq!(plain("a.js.gz", best).unwrap(), plain("a.js.gz", none).unwrap());
    }
}
