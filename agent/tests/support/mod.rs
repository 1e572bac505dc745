//! Recorded hosts for tests: those of the repository, and those of a fixture collection whose layouts differ.

pub mod agent;
pub mod fake;
pub mod lspci;
pub mod otlp;
pub mod procfs;

use fabriclens_agent::schedule::{Outcome, Settings, SourceStatus, once};
use fabriclens_agent_host::roots::Roots;
use fabriclens_wire::{Section, Value};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recorded host of the repository.
pub fn host(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/hosts").join(name)
}

/// A directory in the layout of a recorded host, made of `sys`, `proc` and the loose text files of a snapshot
/// (`ethtool-S.<netdev>.txt`, `rdma-statistic.json`, `dcb-pfc.<netdev>.json` …).
pub fn adapt(snapshot: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["sys", "proc"] {
        if snapshot.join(name).is_dir() {
            copy(&snapshot.join(name), &dir.path().join(name));
        }
    }
    for folder in ["ethtool", "rdma", "dcb"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let netdevs = names(&snapshot.join("sys/class/net"));
    for entry in fs::read_dir(snapshot).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
        for target in targets(name, &netdevs) {
            fs::copy(&path, dir.path().join(target)).unwrap();
        }
    }
    dir
}

/// Copies a tree. Collections keep symlinks as files that hold the target's path; here they are links again.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
            continue;
        }
        let Ok(content) = fs::read(&from) else { continue };
        match std::str::from_utf8(&content) {
            Ok(target) if target.starts_with("../") && !target.trim().contains('\n') && !name.ends_with(".symlink") => {
                symlink(target.trim(), &to).unwrap();
            }
            _ => fs::write(&to, content).unwrap(),
        }
    }
}

fn targets(name: &str, netdevs: &[String]) -> Vec<String> {
    let per_netdev = |prefix: &str, folder: &str, suffix: &str| -> Vec<String> {
        let Some(rest) = name.strip_prefix(prefix) else { return Vec::new() };
        match rest.strip_prefix('.').and_then(|r| r.rsplit_once('.')) {
            Some((netdev, _)) => vec![format!("{folder}/{netdev}.{suffix}")],
            // One file without a name: the snapshot's only real netdev.
            None => netdevs.iter().filter(|n| *n != "lo").take(1).map(|n| format!("{folder}/{n}.{suffix}")).collect(),
        }
    };
    match name {
        "rdma-statistic.json" => vec!["rdma/statistic.json".into()],
        "rdma-link.json" => vec!["rdma/link.json".into()],
        "rdma-dev.json" => vec!["rdma/dev.json".into()],
        "rdma-res-qp.json" => vec!["rdma/res-qp.json".into()],
        _ if name.starts_with("ethtool-S") || name.starts_with("ethtool_-S") => {
            per_netdev(&name[..name.find("-S").unwrap() + 2], "ethtool", "S.txt")
        }
        _ if name.starts_with("ethtool-i") || name.starts_with("ethtool_-i") => {
            per_netdev(&name[..name.find("-i").unwrap() + 2], "ethtool", "i.txt")
        }
        _ if name.starts_with("dcb-pfc") && name.ends_with(".json") => per_netdev("dcb-pfc", "dcb", "json"),
        _ => Vec::new(),
    }
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// One pass over a recorded host.
pub fn sample(root: &Path) -> (Vec<Section>, Vec<SourceStatus>) {
    let settings = Settings { host: "h".into(), ..Settings::default() };
    once(Arc::new(Roots::new(Some(root.to_path_buf()))), &settings)
}

/// `metric{labels}` of a target → value, for those that have one.
pub fn series(sections: &[Section]) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for section in sections {
        let device = section.resource.device.as_deref().unwrap_or("host");
        let port = section.resource.port.map(|p| format!("/{p}")).unwrap_or_default();
        for (column, value) in section.columns.iter().zip(&section.values) {
            let labels: Vec<String> = column.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
            let value = match value {
                Value::Int(v) => *v as f64,
                Value::Float(v) => *v,
                // Histograms are tested with their samplers.
                Value::Absent | Value::Stale | Value::Histogram(_) => continue,
            };
            found.push((format!("{device}{port} {}{{{}}}", column.metric.name, labels.join(",")), value));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Value of exactly that series.
pub fn value(series: &[(String, f64)], name: &str) -> Option<f64> {
    let mut found = series.iter().filter(|(n, _)| n == name);
    let value = found.next().map(|(_, v)| *v);
    assert!(found.next().is_none(), "{name} appears twice");
    value
}

/// One line per source that is neither data nor absent.
pub fn failures(statuses: &[SourceStatus]) -> Vec<String> {
    let failed = |s: &&SourceStatus| matches!(s.outcome, Outcome::Error(_) | Outcome::Stalled(_));
    statuses.iter().filter(failed).map(|s| format!("{} {}: {:?}", s.sampler, s.target, s.outcome)).collect()
}
