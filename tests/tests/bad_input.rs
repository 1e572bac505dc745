//! `tests/BAD_INPUT.md` names tests that exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// Tests that a row names but no file has. A file's tests follow its path, each in backticks.
fn missing(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let mut file = None;
        for name in row.split('`').skip(1).step_by(2) {
            let is_test =
                name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if name.ends_with(".rs") {
                file = read(name);
                missing.extend(file.is_none().then(|| name.to_owned()));
            } else if is_test && file.as_ref().is_some_and(|text| !text.contains(&format!("fn {name}("))) {
                missing.push(name.to_owned());
            }
        }
    }
    missing
}

#[test]
fn every_named_test_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("tests/BAD_INPUT.md")).unwrap();
    // A row may name a scenario of `cargo xtask vm` after a file.
    let vm = |name: &String| root.join(format!("tests/src/vm/{name}.rs")).is_file();
    let mut missing = missing(&page, |file| fs::read_to_string(root.join(file)).ok());
    missing.retain(|name| !vm(name));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn renamed_tests_are_noticed() {
    let read = |file: &str| (file == "a.rs").then(|| "fn is_there() {}".to_owned());
    assert_eq!(missing("| x | y | `a.rs` `is_there`, `is_gone` |\n| x | y | `b.rs` |", read), ["is_gone", "b.rs"]);
}
