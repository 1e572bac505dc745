//! docs/verdicts.md lists every threshold and detector.

use fabriclens_correlate::{Threshold, detectors};
use std::path::{Path, PathBuf};

/// Head of the table of thresholds.
const HEAD: &str = "| name | default | unit | what |\n|---|---|---|---|\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdicts.md")
}

fn page() -> String {
    std::fs::read_to_string(path()).unwrap()
}

fn row(limit: &Threshold) -> String {
    let tiny = limit.default != 0.0 && limit.default.abs() < 1e-3;
    let default = if tiny { format!("{:e}", limit.default) } else { limit.default.to_string() };
    format!("| `{}` | {default} | {} | {} |\n", limit.name, limit.unit, limit.help.trim())
}

#[test]
fn every_threshold_is_documented() {
    let table: String = detectors::thresholds().map(row).collect();
    let page = page();
    let begin = page.find(HEAD).unwrap() + HEAD.len();
    let end = begin + page[begin..].find("\n\n").unwrap() + 1;
    if fabriclens_testing::blesses() {
        std::fs::write(path(), format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        assert_eq!(page[begin..end], table, "the table of docs/verdicts.md; FABRICLENS_BLESS=1 writes it");
    }
}

#[test]
fn every_detector_is_documented() {
    let page = page();
    for detector in &detectors::ALL {
        let listed = page.lines().any(|l| l.starts_with('|') && l.contains(&format!("`{}`", detector.name)));
        assert!(listed, "{} is not listed", detector.name);
    }
}
