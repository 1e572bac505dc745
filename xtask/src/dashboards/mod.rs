//! `cargo xtask dashboards`: writes Grafana dashboards and alert rules from their sources.
//!
//! A dashboard is a file here and a row in [`all`]. The files in `dashboards/` are generated and committed.

mod buffers;
pub mod common;
mod congestion;
mod coverage;
mod demo;
mod host;
mod job;
mod json;
mod link_health;
mod overview;
mod own;
mod panel;
#[cfg(test)]
mod schema;
mod storm;
mod switch;
mod tcp;
#[cfg(test)]
pub(crate) mod tests;
pub mod thresholds;

use crate::alerts;
use crate::steps::root;
use anyhow::{Context, Result, bail, ensure};
use panel::Dashboard;
use std::path::PathBuf;

/// Options of `dashboards`.
#[derive(clap::Args)]
pub struct Args {
    /// Writes nothing; fails if a committed file is not current
    #[arg(long)]
    check: bool,
    /// Runs every query on this server (Prometheus' HTTP API) and lists those without a result
    #[arg(long, value_name = "URL", conflicts_with = "check")]
    ask: Option<String>,
    /// Base URL of the runbook links in alerts
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with = "ask")]
    runbooks: Option<String>,
}

/// Parses a base URL.
fn address(text: &str) -> Result<String> {
    ensure!(text.starts_with("https://") || text.starts_with("http://"), "it must start with https:// or http://");
    ensure!(!text.contains(|c: char| c.is_whitespace() || c == '"'), "it must not have blanks or quotes");
    Ok(text.trim_end_matches('/').to_owned())
}

/// Every dashboard, in the order of use.
pub fn all() -> Vec<Dashboard> {
    vec![
        overview::dashboard(),
        congestion::dashboard(),
        link_health::dashboard(),
        host::dashboard(),
        job::dashboard(),
        tcp::dashboard(),
        storm::dashboard(),
        switch::dashboard(),
        buffers::dashboard(),
        own::dashboard(),
    ]
}

/// Descriptions of all panels and alerts, a paragraph each.
pub fn advice() -> String {
    let panels = all().into_iter().flat_map(|one| one.rows).flat_map(|row| row.panels).map(|panel| panel.description);
    let alerts = alerts::groups().into_iter().flat_map(|group| group.2).map(|alert| alert.description);
    panels.chain(alerts).collect::<Vec<_>>().join("\n\n")
}

/// Every generated file: path in the repository and content, with `runbooks` as the base URL of runbooks.
fn files(runbooks: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut out = alerts::files();
    out.iter_mut().for_each(|(_, text)| *text = text.replace(alerts::RUNBOOKS, runbooks));
    for one in all() {
        let text = serde_json::to_string_pretty(&json::dashboard(&one))?;
        out.push((PathBuf::from(format!("dashboards/grafana/{}.json", one.name)), text + "\n"));
    }
    Ok(out)
}

/// Runs every query on the demo's collector.
///
/// # Errors
/// When a query that must have a result has none.
pub fn check_demo(url: &str) -> Result<()> {
    demo::check(url, &all())
}

/// Writes the files, compares them, or runs the queries.
///
/// # Errors
/// When a file cannot be written or is not current, or a query fails.
pub fn run(args: &Args) -> Result<()> {
    if let Some(url) = &args.ask {
        return coverage::run(url, &all(), true).map(drop);
    }
    for (path, text) in files(args.runbooks.as_deref().unwrap_or(alerts::RUNBOOKS))? {
        let at = root().join(&path);
        if std::fs::read_to_string(&at).is_ok_and(|is| is == text) {
            continue;
        }
        if args.check {
            bail!("{} is not current; run cargo xtask dashboards", path.display());
        }
        if let Some(dir) = at.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        }
        std::fs::write(&at, text).with_context(|| format!("write {}", at.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
