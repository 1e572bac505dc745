//! Third-party crates of a program and their licenses, as cargo resolves them.

use crate::steps::{cargo, output, root};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate of `cargo metadata`.
#[derive(Clone, Debug, Deserialize)]
pub struct Crate {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub repository: Option<String>,
    pub authors: Vec<String>,
    /// None for our own crates.
    pub source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None for a linked dependency; `build` and `dev` are not linked.
    kind: Option<String>,
}

/// Crates of a program and the dependencies of each, by id; with the program itself.
#[derive(Default)]
pub struct Contents {
    pub crates: BTreeMap<String, Crate>,
    pub needs: BTreeMap<String, Vec<String>>,
}

impl Crate {
    /// SPDX expression of the license; old manifests have `A/B`.
    pub fn license(&self) -> String {
        let stated = self.license.as_deref().unwrap_or("none stated");
        stated.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
    }

    fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// License, notice and copyright files of the crate.
    fn texts(&self) -> Result<Vec<String>> {
        const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        let mut texts = Vec::new();
        let mut files: Vec<PathBuf> =
            fs::read_dir(self.dir())?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        files.sort();
        for file in files.into_iter().filter(|f| f.is_file()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if NAMES.iter().any(|n| name.starts_with(n)) {
                texts.push(String::from_utf8_lossy(&fs::read(&file)?).replace("\r\n", "\n").trim().to_owned());
            }
        }
        Ok(texts)
    }
}

/// Crates that are linked into a package on this platform.
///
/// # Errors
/// When cargo cannot resolve the dependencies.
fn linked(manifest: &Path, package: &str) -> Result<Contents> {
    let host = host()?;
    let mut metadata = cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", &host]);
    metadata.arg("--manifest-path").arg(manifest);
    let metadata: Metadata = serde_json::from_str(&output(metadata)?).context("reading cargo metadata")?;
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in metadata.resolve.nodes {
        let linked = node.deps.into_iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none()));
        edges.insert(node.id, linked.map(|d| d.pkg).collect());
    }
    // `cargo metadata` has the features of the whole workspace with tests; `cargo tree` those of this package.
    let mut tree =
        cargo(&["tree", "--locked", "--prefix", "none", "--edges", "normal", "--format", "{p}", "-p", package]);
    tree.arg("--manifest-path").arg(manifest);
    let tree = output(tree)?;
    let named = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let linked: BTreeSet<String> = tree.lines().map(named).collect();
    let of_this = |c: &Crate| linked.contains(&format!("{} v{}", c.name, c.version));
    let crates = metadata.packages.into_iter().filter(of_this);
    let mut crates: BTreeMap<String, Crate> = crates.map(|c| (c.id.clone(), c)).collect();
    let first = crates.values().find(|c| c.name == package && c.source.is_none()).context("no such package")?;
    let mut contents = Contents::default();
    let mut waiting = vec![first.id.clone()];
    while let Some(id) = waiting.pop() {
        let Some(found) = crates.remove(&id) else { continue };
        let mut needs = edges.remove(&id).unwrap_or_default();
        needs.retain(|id| crates.contains_key(id) || contents.crates.contains_key(id));
        waiting.extend(needs.iter().cloned());
        contents.needs.insert(id.clone(), needs);
        contents.crates.insert(id, found);
    }
    Ok(contents)
}

/// Crates of a program; the agent also has those of its probes, which are a separate workspace.
///
/// # Errors
/// When cargo cannot resolve the dependencies.
pub fn contents(package: &str) -> Result<Contents> {
    let mut all = linked(&root().join("Cargo.toml"), package)?;
    if package == "fabriclens-agent" {
        let probes = linked(&root().join("ebpf/probes/Cargo.toml"), "fabriclens-probes")?;
        all.crates.extend(probes.crates);
        all.needs.extend(probes.needs);
    }
    Ok(all)
}

/// Text of THIRD-PARTY-LICENCES: crates with their licenses, then each license text with its crates.
///
/// # Errors
/// When cargo cannot resolve the dependencies, or a crate states no license.
pub fn licences(package: &str) -> Result<String> {
    let contents = contents(package)?;
    let others: Vec<&Crate> = contents.crates.values().filter(|c| c.source.is_some()).collect();
    let names: BTreeSet<String> = others.iter().map(|c| line(c)).collect();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for other in &others {
        ensure!(other.license.is_some(), "{} {} states no license", other.name, other.version);
        let mut license_texts = other.texts()?;
        if license_texts.is_empty() {
            license_texts.push(stated(other));
        }
        for text in license_texts {
            texts.entry(text).or_default().insert(format!("{} {}", other.name, other.version));
        }
    }
    let mut out = format!(
        "{package} is licensed under the Apache License, version 2.0. It is linked from these libraries, and from the\n\
         standard library of Rust (MIT OR Apache-2.0, https://github.com/rust-lang/rust):\n\n"
    );
    for name in names {
        writeln!(out, "  {name}")?;
    }
    for (text, crates) in texts {
        let crates: Vec<String> = crates.into_iter().collect();
        write!(out, "\n{}\n{}\n\n{text}\n", "=".repeat(78), crates.join(", "))?;
    }
    if contents.crates.values().any(|c| c.name == "fabriclens-console") {
        let console = fs::read_to_string(root().join("console/dist/LICENSES")).context("licenses of the console")?;
        write!(out, "\n{}\nThe console, which is part of it, contains:\n\n{}\n", "=".repeat(78), console.trim())?;
    }
    Ok(out)
}

fn line(c: &Crate) -> String {
    format!("{} {} ({}) {}", c.name, c.version, c.license(), c.repository.as_deref().unwrap_or(""))
        .trim_end()
        .to_owned()
}

fn stated(c: &Crate) -> String {
    let by = if c.authors.is_empty() { String::new() } else { format!(" Authors: {}.", c.authors.join(", ")) };
    format!("Licensed under {}; no text came with it.{by}", c.license())
}

/// Host platform of the compiler.
fn host() -> Result<String> {
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(["--print", "host-tuple"]);
    output(rustc)
}
