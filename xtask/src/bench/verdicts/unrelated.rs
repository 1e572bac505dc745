//! Adds an unrelated simulation as another part of the same fabric. No job has hosts in both parts, no cable joins them.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::Path;

/// Offset of its node numbers.
const NODES: i64 = 1_000;
/// Prefix of its job names.
const JOBS: &str = "beside-";

/// Merges the simulation of `other` into `dir`; both have the same columns and sample times.
///
/// # Errors
/// When a file cannot be read or written.
pub fn merge(dir: &Path, other: &Path) -> Result<()> {
    both(dir, other, "topology.json", &["hosts", "switches", "links"], |entry| {
        for key in ["id", "leaf", "a", "b"] {
            if let Some(node) = entry[key].as_i64() {
                entry[key] = (node + NODES).into();
            }
        }
    })?;
    both(dir, other, "jobs.json", &["jobs"], |job| {
        job["id"] = format!("{JOBS}{}", job["id"].as_str().unwrap_or_default()).into();
        for host in job["hosts"].as_array_mut().into_iter().flatten() {
            *host = (host.as_i64().unwrap_or_default() + NODES).into();
        }
    })?;
    let (path, old) = (dir.join("ports.csv.gz"), dir.join("alone.csv.gz"));
    std::fs::rename(&path, &old)?;
    let (mut own, mut unrelated) = (lines(&old)?, lines(&other.join("ports.csv.gz"))?);
    let mut output = GzEncoder::new(File::create(&path)?, Compression::fast());
    let head = own.next().context("no columns")??;
    unrelated.next().context("no columns")??;
    writeln!(output, "{head}")?;
    let (mut own, mut unrelated) = (own.peekable(), unrelated.peekable());
    let tick = |line: Option<&std::io::Result<String>>| {
        line.and_then(|line| line.as_ref().ok()?.split(',').next()?.parse::<i64>().ok()).unwrap_or(i64::MAX)
    };
    loop {
        if tick(own.peek()) <= tick(unrelated.peek()) {
            let Some(line) = own.next() else { break };
            writeln!(output, "{}", line?)?;
        } else if let Some(line) = unrelated.next() {
            let line = line?;
            let mut cells = line.splitn(3, ',');
            let mut cell = || cells.next().context("a line has too few columns");
            let (tick, node, rest) = (cell()?, cell()?.parse::<i64>()?, cell()?);
            writeln!(output, "{tick},{},{rest}", node + NODES)?;
        }
    }
    output.finish()?;
    std::fs::remove_file(&old).context("remove the unmerged file")
}

/// Whether an incident belongs to the unrelated part, by its location or the location of its first evidence.
pub fn contains(root: &Value, evidence_at: &str) -> bool {
    let node = |text: &str| text.parse::<i64>().is_ok_and(|node| node >= NODES) || text.starts_with(JOBS);
    let root = ["node", "a", "job"].iter().filter_map(|key| root[*key].as_str()).any(node);
    root || evidence_at.split(' ').next().is_some_and(node)
}

fn both(dir: &Path, other: &Path, file: &str, lists: &[&str], rename: impl Fn(&mut Value)) -> Result<()> {
    let read = |dir: &Path| -> Result<Value> { Ok(serde_json::from_slice(&std::fs::read(dir.join(file))?)?) };
    let (mut own, mut unrelated) = (read(dir)?, read(other)?);
    for list in lists {
        let more = unrelated[*list].as_array_mut().with_context(|| format!("{file} has no {list}"))?;
        more.iter_mut().for_each(&rename);
        own[*list].as_array_mut().with_context(|| format!("{file} has no {list}"))?.append(more);
    }
    std::fs::write(dir.join(file), own.to_string()).with_context(|| format!("write {file}"))
}

fn lines(path: &Path) -> Result<Lines<BufReader<MultiGzDecoder<File>>>> {
    let input = File::open(path).with_context(|| format!("read {}", path.display()))?;
    Ok(BufReader::new(MultiGzDecoder::new(input)).lines())
}
