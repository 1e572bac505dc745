//! docs/verdicts.md lists every threshold and detector.

use fabriclens_correlate::{Threshold, detectors};
use std::path::Path;

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdicts.md")).unwrap()
}

fn row(limit: &Threshold) -> String {
    let tiny = limit.default != 0.0 && limit.default.abs() < 1e-3;
    let default = if tiny { format!("{:e}", limit.default) } else { limit.default.to_string() };
    format!("| `{}` | {default} | {} | {} |\n", limit.name, limit.unit, limit.help.trim())
}

#[test]
fn every_threshold_is_documented() {
    let table: String = detectors::thresholds().map(row).collect();
    assert!(page().contains(&table), "the table in docs/verdicts.md should be\n{table}");
}

#[test]
fn every_detector_is_documented() {
    let page = page();
    for detector in &detectors::ALL {
        let listed = page.lines().any(|l| l.starts_with('|') && l.contains(&format!("`{}`", detector.name)));
        assert!(listed, "{} is not listed", detector.name);
    }
}
