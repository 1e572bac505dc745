//! `cargo xtask dashboards`: Grafana's dashboards and the alert rules, written from one source each.
//!
//! A dashboard is a file here and a row in [`all`]; what is committed under `dashboards/` is what these make.

mod ask;
pub mod common;
mod congestion;
mod demo;
mod host;
mod job;
mod json;
pub mod limits;
mod link_health;
mod overview;
mod own;
mod panel;
#[cfg(test)]
mod published;
mod storm;
mod tcp;
#[cfg(test)]
pub(crate) mod tests;

use crate::alerts;
use crate::steps::root;
use anyhow::{Context, Result, bail, ensure};
use panel::Dashboard;
use std::path::PathBuf;

/// Options of `dashboards`.
#[derive(clap::Args)]
pub struct Args {
    /// Writes nothing; fails if what is committed is not what the source makes
    #[arg(long)]
    check: bool,
    /// Asks this server (Prometheus' HTTP API) every panel's question and tells which have no answer
    #[arg(long, value_name = "URL", conflicts_with = "check")]
    ask: Option<String>,
    /// Lets the links of alerts lead to the pages of docs/runbooks at this address
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with = "ask")]
    runbooks: Option<String>,
}

/// Of a page below which others are.
fn address(text: &str) -> Result<String> {
    ensure!(text.starts_with("https://") || text.starts_with("http://"), "it begins with https:// or http://");
    ensure!(!text.contains(|c: char| c.is_whitespace() || c == '"'), "blanks and quotes are no part of an address");
    Ok(text.trim_end_matches('/').to_owned())
}

/// Every dashboard, in the order in which one goes through them.
pub fn all() -> Vec<Dashboard> {
    vec![
        overview::dashboard(),
        congestion::dashboard(),
        link_health::dashboard(),
        host::dashboard(),
        job::dashboard(),
        tcp::dashboard(),
        storm::dashboard(),
        own::dashboard(),
    ]
}

/// What panels and alerts say that one should do, a paragraph each.
pub fn advice() -> String {
    let panels = all().into_iter().flat_map(|one| one.rows).flat_map(|row| row.panels).map(|panel| panel.says);
    let alerts = alerts::groups().into_iter().flat_map(|group| group.2).map(|alert| alert.says);
    panels.chain(alerts).collect::<Vec<_>>().join("\n\n")
}

/// Every file and what belongs in it, by its path in the repository; links to runbooks begin with an address.
fn files(runbooks: &str) -> Result<Vec<(PathBuf, String)>> {
    let mut out = alerts::files();
    out.iter_mut().for_each(|(_, text)| *text = text.replace(alerts::RUNBOOKS, runbooks));
    for one in all() {
        let text = serde_json::to_string_pretty(&json::dashboard(&one))?;
        out.push((PathBuf::from(format!("dashboards/grafana/{}.json", one.name)), text + "\n"));
    }
    Ok(out)
}

/// Asks the demo's collector everything; an error names what it should show and does not.
pub fn ask_demo(url: &str) -> Result<()> {
    demo::held(url, &all())
}

/// Writes or compares; or asks.
pub fn run(args: &Args) -> Result<()> {
    if let Some(url) = &args.ask {
        return ask::run(url, &all(), true).map(drop);
    }
    for (path, text) in files(args.runbooks.as_deref().unwrap_or(alerts::RUNBOOKS))? {
        let at = root().join(&path);
        if std::fs::read_to_string(&at).is_ok_and(|is| is == text) {
            continue;
        }
        if args.check {
            bail!("{} is not what its source makes: run cargo xtask dashboards", path.display());
        }
        if let Some(dir) = at.parent() {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        }
        std::fs::write(&at, text).with_context(|| format!("write {}", at.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
