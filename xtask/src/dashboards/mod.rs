//! `cargo xtask dashboards`: Grafana's dashboards and the alert rules, written from one source each.
//!
//! A dashboard is a file here and a row in [`all`]; what is committed under `dashboards/` is what these make.

mod ask;
pub mod common;
mod congestion;
mod host;
mod job;
mod json;
pub mod limits;
mod link_health;
mod overview;
mod own;
mod panel;
mod storm;
mod tcp;
#[cfg(test)]
pub(crate) mod tests;

use crate::alerts;
use crate::steps::root;
use anyhow::{Context, Result, bail};
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

/// Every file and what belongs in it, by its path in the repository.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut out = alerts::files();
    for one in all() {
        let text = serde_json::to_string_pretty(&json::dashboard(&one))?;
        out.push((PathBuf::from(format!("dashboards/grafana/{}.json", one.name)), text + "\n"));
    }
    Ok(out)
}

/// Writes or compares; or asks.
pub fn run(args: &Args) -> Result<()> {
    if let Some(url) = &args.ask {
        return ask::run(url, &all());
    }
    for (path, text) in files()? {
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
