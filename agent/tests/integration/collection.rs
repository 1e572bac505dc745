//! One pass over every recorded host of the fixture collection: no sampler panics, and counters are read.

use crate::support::{adapt, failures, names, sample, series};
use std::path::{Path, PathBuf};

/// Directories that hold a `sys`, however deep.
fn snapshots(dir: &Path, found: &mut Vec<PathBuf>) {
    if dir.join("sys/class").is_dir() || dir.join("sys/bus").is_dir() {
        found.push(dir.to_path_buf());
        return;
    }
    for name in names(dir) {
        let path = dir.join(name);
        if path.is_dir() && !path.is_symlink() {
            snapshots(&path, found);
        }
    }
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_hosts_are_read() {
    let fixtures = fabriclens_testing::recordings();
    let mut found = Vec::new();
    for set in ["sysfs", "fakehca-mlx5", "rxe-debian-6.1"] {
        snapshots(&fixtures.join(set), &mut found);
    }
    assert!(found.len() >= 10, "{found:?}");
    for snapshot in found {
        let host = adapt(&snapshot);
        let (sections, statuses) = sample(host.path());
        let all = series(&sections);
        let of_ports = all.iter().filter(|(name, _)| !name.starts_with("host ")).count();
        println!("{}: {} series, {} of ports", snapshot.display(), all.len(), of_ports);
        assert!(failures(&statuses).is_empty(), "{}: {:#?}", snapshot.display(), failures(&statuses));
        let devices = names(&snapshot.join("sys/class/infiniband"));
        assert!(devices.is_empty() || of_ports > 0, "{}: no values", snapshot.display());
        if std::env::var_os("SHOW").is_some() {
            for status in &statuses {
                println!("  {:?}", status);
            }
            for (name, value) in &all {
                println!("  {name} {value}");
            }
        }
    }
}
