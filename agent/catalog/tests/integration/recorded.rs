//! Names as recorded hosts print them: what binds, and the golden list of what is left out on purpose.
//! Reads recorded `ethtool -S` outputs and `hw_counters` folders under `FABRICLENS_FIXTURES`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fabriclens_catalog::{CounterSource, DriverFamily, LinkLayer, bind};

/// Part of a recording's folder name → driver.
const DRIVERS: [(&str, &str); 11] = [
    ("mlx5", "mlx5_core"),
    ("mlx4", "mlx4_en"),
    ("bnxt", "bnxt_en"),
    ("ainic", "ionic"),
    ("i40e", "i40e"),
    ("iavf", "iavf"),
    ("-ice", "ice"),
    ("-ena", "ena"),
    ("h100", "mlx5_core"),
    ("cx4lx", "mlx5_core"),
    ("qib", "qib"),
];

#[test]
#[ignore = "needs: recordings"]
fn recorded_names_bind_or_are_left_out_on_purpose() {
    let dir = fabriclens_testing::recordings();
    let (mut bound, mut left_out) = (0, BTreeSet::new());
    for file in files(&dir.join("ethtool")).into_iter().chain(files(&dir.join("sysfs"))) {
        let path = file.to_string_lossy().into_owned();
        let Some((_, driver)) = DRIVERS.iter().find(|(part, _)| path.contains(part)) else { continue };
        let family = DriverFamily::for_driver(driver).unwrap();
        for (source, name) in names(&file) {
            match bind(Some(family), LinkLayer::Ethernet, source, &name) {
                Some(_) => bound += 1,
                None => _ = left_out.insert(format!("{} {} {}", family.name, source.label(), numbers_away(&name))),
            }
        }
    }
    assert!(bound > 1_500, "only {bound} names bound");
    println!("{bound} names bound, {} left out", left_out.len());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/left_out_names.txt");
    if fabriclens_testing::blesses() {
        let lines: Vec<&str> = left_out.iter().map(String::as_str).collect();
        std::fs::write(&golden, lines.join("\n") + "\n").unwrap();
    }
    let listed = std::fs::read_to_string(&golden).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let news: Vec<&String> = left_out.difference(&listed).collect();
    assert!(news.is_empty(), "neither bound nor listed in tests/golden/left_out_names.txt:\n{news:#?}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => out.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => out.push(entry.path()),
            _ => {}
        }
    }
    out
}

/// The counter names a recorded file stands for or holds.
fn names(file: &Path) -> Vec<(CounterSource, String)> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = file.to_string_lossy();
    if path.contains("/hw_counters/") {
        return vec![(CounterSource::HwCounters, name)];
    }
    if path.contains("/net/") && path.contains("/statistics/") {
        return vec![(CounterSource::NetStatistics, name)];
    }
    if name != "ethtool_-S.txt" {
        return Vec::new();
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.rsplit_once(": "));
    lines
        .filter(|(_, v)| v.trim().parse::<u64>().is_ok())
        .map(|(n, _)| (CounterSource::Ethtool, n.trim().to_owned()))
        .collect()
}

/// `rx12_cache_full` → `rx#_cache_full`, so that one line stands for all queues.
fn numbers_away(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}
