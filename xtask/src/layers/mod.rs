//! `cargo xtask layers`: refuses circles between the files of a crate, so that each file knows only what is below it.
//!
//! Edges are `use crate::`, `use super::`, `use self::` and `use child::` declarations outside of tests.

mod graph;
mod source;

use crate::steps::root;
use anyhow::{Context, Result, bail};
use graph::{Graph, circles, edges};
use source::ModulePath;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Modules whose table lists their own children: crate, module, and the table.
const REGISTRIES: &[(&str, &str, &str)] = &[];

/// Crates that still have circles, with the number of files in them. A crate may not get worse, and an entry that is
/// too high must be lowered.
const ALLOWED: &[(&str, usize)] = &[];

/// Options of `layers`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Workspace to check [default: this one]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Lists the circles of every crate, allowed ones too
    #[arg(long)]
    list: bool,
}

/// Circles of one crate.
struct Report {
    name: String,
    graph: Graph,
    circles: Vec<Vec<PathBuf>>,
}

/// Checks every crate of the workspace.
///
/// # Errors
/// When a crate has more files in circles than [`ALLOWED`] says, or fewer.
pub fn run(args: &Args) -> Result<()> {
    let root = args.root.clone().unwrap_or_else(root);
    let reports = members(&root)?.into_iter().map(|member| check(&root.join(&member), &member));
    let reports = reports.collect::<Result<Vec<Report>>>()?;
    if args.list {
        reports.iter().for_each(|report| print!("{}", describe(report)));
    }
    let problems = compare(&reports, ALLOWED);
    if !problems.is_empty() {
        bail!("circles between files (xtask/src/layers):\n{}", problems.join("\n"));
    }
    let files: usize = reports.iter().map(|report| report.graph.len()).sum();
    println!(
        "{files} files of {} crates, {} of them in circles that are still allowed",
        reports.len(),
        in_circles(&reports)
    );
    Ok(())
}

fn in_circles(reports: &[Report]) -> usize {
    reports.iter().flat_map(|report| &report.circles).map(Vec::len).sum()
}

/// One message for each crate whose count differs from its row, and for each row without a crate.
fn compare(reports: &[Report], allowed: &[(&str, usize)]) -> Vec<String> {
    let mut problems = Vec::new();
    for report in reports {
        let name = &report.name;
        let count = in_circles(std::slice::from_ref(report));
        let limit = allowed.iter().find(|(krate, _)| krate == name).map_or(0, |(_, limit)| *limit);
        if count > limit {
            problems.push(format!("{name}: {count} files in circles, {limit} allowed\n{}", describe(report)));
        } else if count < limit {
            problems.push(format!("{name}: {count} files in circles; lower its row in ALLOWED from {limit}"));
        }
    }
    let stale = allowed.iter().filter(|(krate, _)| !reports.iter().any(|report| report.name == *krate));
    problems.extend(stale.map(|(krate, _)| format!("{krate}: no such crate; remove its row from ALLOWED")));
    problems
}

/// Directories of the workspace's crates.
fn members(root: &Path) -> Result<Vec<String>> {
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let members = manifest["workspace"]["members"].as_array().context("the workspace has no members")?;
    Ok(members.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

fn check(dir: &Path, name: &str) -> Result<Report> {
    let modules = source::read(&dir.join("src"))?;
    let registries: Vec<ModulePath> = REGISTRIES
        .iter()
        .filter(|(owner, ..)| *owner == name)
        .map(|(_, module, _)| module.split("::").map(str::to_owned).collect())
        .collect();
    let graph = edges(&modules, &registries);
    Ok(Report { name: name.to_owned(), circles: circles(&graph), graph })
}

/// Each circle with the imports that close it.
fn describe(report: &Report) -> String {
    let mut out = String::new();
    for circle in &report.circles {
        let _ = writeln!(out, "  {}: {} files", report.name, circle.len());
        for file in circle {
            let inside: Vec<_> = report.graph[file].iter().filter(|to| circle.contains(to)).collect();
            let inside: Vec<_> = inside.iter().map(|to| to.display().to_string()).collect();
            let _ = writeln!(out, "    {} imports {}", file.display(), inside.join(", "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A crate of these files; gives what is found in it.
    fn krate(files: &[(&str, &str)]) -> Report {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(dir.path(), "example").unwrap()
    }

    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let report = krate(files);
        report.circles.iter().flatten().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn a_circle_of_three_files_is_found() {
        let report = krate(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::c::{self, C}; pub struct B;"),
            ("c.rs", "pub fn c() { use crate::a::A; } pub struct C;"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(report.circles, [["a.rs", "b.rs", "c.rs"].map(PathBuf::from)]);
        assert!(describe(&report).contains("b.rs imports c.rs"), "{}", describe(&report));
    }

    #[test]
    fn a_reexport_is_an_edge_to_the_child_only() {
        let files = |child: &'static str| {
            [
                ("lib.rs", "mod a;"),
                ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::*;"),
                ("a/b.rs", child),
                ("a/c.rs", "use super::B; pub struct C;"),
            ]
        };
        assert!(circle(&files("pub struct B;")).is_empty());
        assert_eq!(circle(&files("use super::C; pub struct B;")), ["a/b.rs", "a/c.rs"]);
    }

    #[test]
    fn a_parent_and_its_child_can_form_a_circle() {
        let files = |import: &'static str| [("lib.rs", import), ("a.rs", "use crate::Shared; pub struct A;")];
        assert!(circle(&files("mod a; pub use a::A; pub struct Shared;")).is_empty());
        assert_eq!(circle(&files("mod a; use a::A; pub struct Shared;")), ["a.rs", "lib.rs"]);
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A; #[cfg(test)] mod tests;"),
            ("a/tests.rs", "use crate::a::A;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;"),
        ];
        assert!(circle(&files).is_empty());
    }

    #[test]
    fn the_allow_list_must_be_exact() {
        let reports = [krate(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ])];
        assert!(compare(&reports, &[("example", 2)]).is_empty());
        for (allowed, says) in [
            (&[][..], "2 files in circles, 0 allowed"),
            (&[("example", 3)], "lower its row"),
            (&[("example", 2), ("gone", 1)], "no such crate"),
        ] {
            let problems = compare(&reports, allowed);
            assert!(problems.len() == 1 && problems[0].contains(says), "{problems:?}");
        }
    }
}
