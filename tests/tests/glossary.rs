//! `docs/glossary.md` names types and metrics that exist, explains each term briefly, and is sorted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Longest definition, in words.
const LONGEST: usize = 12;
/// Directories with the sources of the product.
const SOURCES: &[&str] = &["agent", "base", "collector", "ebpf"];

/// A row of the page's table.
struct Row<'a> {
    term: &'a str,
    meaning: &'a str,
    /// Types and metrics, without backticks.
    carried_by: Vec<&'a str>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let row = |line| {
        let cells: Vec<&str> = str::trim_matches(line, '|').split('|').map(str::trim).collect();
        let [term, meaning, carried_by] = cells[..] else { panic!("a row has three cells: {line}") };
        Row { term, meaning, carried_by: carried_by.split('`').skip(1).step_by(2).collect() }
    };
    page.lines().skip_while(|line| !line.starts_with("|---")).skip(1).map(row).collect()
}

/// All Rust sources below a directory, one after the other.
fn sources(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// Whether the sources or the reference page declare this type, function or metric.
fn exists(name: &str, sources: &str, metrics: &str) -> bool {
    if name.starts_with("fabric") {
        return metrics.contains(&format!("### `{name}`\n")) || sources.contains(&format!("\"{name}\""));
    }
    ["struct", "enum", "trait", "fn"].iter().any(|kind| {
        let declaration = format!("{kind} {name}");
        sources.match_indices(&declaration).any(|(at, _)| {
            let next = sources[at + declaration.len()..].chars().next();
            next.is_some_and(|c| !c.is_alphanumeric() && c != '_')
        })
    })
}

#[test]
fn every_type_and_metric_exists() {
    let page = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let metrics = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let sources: String = SOURCES.iter().map(|dir| sources(&root().join(dir))).collect();
    for row in rows(&page) {
        assert!(!row.carried_by.is_empty(), "{}: no type or metric", row.term);
        for name in row.carried_by {
            assert!(exists(name, &sources, &metrics), "{}: there is no {name}", row.term);
        }
    }
}

#[test]
fn definitions_are_short_and_terms_sorted() {
    let page = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 50, "only {} terms", rows.len());
    for row in &rows {
        let words = row.meaning.split_whitespace().count();
        assert!((3..=LONGEST).contains(&words), "{}: {words} words", row.term);
    }
    assert!(rows.is_sorted_by_key(|row| row.term.to_lowercase()), "the terms are not sorted");
}

#[test]
fn missing_names_are_noticed() {
    let (sources, metrics) = ("pub struct Spoolers;\nconst A: &str = \"fabric_a\";\n", "### `fabric_b`\n");
    assert!(exists("Spoolers", sources, metrics) && !exists("Spool", sources, metrics));
    assert!(exists("fabric_a", sources, metrics) && exists("fabric_b", sources, metrics));
    assert!(!exists("fabric_c", sources, metrics));
}
