//! The uplinks of a running agent, each with its spool: one, or one per collector if samples are duplicated.

use crate::http;
use crate::schedule::Engine;
use fabriclens_agent_uplink::config::{Collector, Spool as SpoolConfig};
use fabriclens_agent_uplink::{ConnectError, Counters, Uplink, authority};
use std::path::Path;
use std::sync::Arc;

/// Directory of the spool of a single uplink; it does not depend on the collector's name.
const ONLY: &str = "samples";

/// Creates all uplinks of a configuration; each also sends the counters of the others and of the HTTP server.
///
/// # Errors
/// [`ConnectError`] for a URL or PEM file that cannot be used.
pub fn uplinks(
    collector: &Collector,
    spool: &SpoolConfig,
    host: &str,
    engine: &Engine,
    own: &Arc<http::Counters>,
) -> Result<Vec<Uplink>, ConnectError> {
    let ways = collector.ways(host);
    let names: Vec<Option<&str>> = ways.iter().map(|w| Some(authority(&w.url)).filter(|_| ways.len() > 1)).collect();
    let folders: Vec<String> = names.iter().map(|name| folder(*name)).collect();
    let dir = spools(spool);
    if let Some(dir) = dir {
        warn_of_others(dir, &folders);
    }
    let mut uplinks = Vec::new();
    for (i, way) in ways.iter().enumerate() {
        tracing::info!(collector = way.url, others = ?way.others, host, "sending samples");
        let uplink = Uplink::new(way.clone(), host, engine.reader(i), names[i])?;
        let uplink = uplink.with_troubled_jobs(engine.troubled_jobs());
        uplinks.push(match dir {
            Some(dir) => uplink.with_spool(&dir.join(&folders[i]), spool),
            None => uplink,
        });
    }
    let all: Vec<Arc<Counters>> = uplinks.iter().map(Uplink::counters).collect();
    let with_all = |(i, uplink): (usize, Uplink)| {
        let others: Vec<_> = all.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, c)| Arc::clone(c)).collect();
        let own = Arc::clone(own);
        uplink.with_extra(move |resource, now| {
            let others = others.iter().map(|other| other.section(resource, now));
            others.chain([own.section(resource, now)]).collect()
        })
    };
    Ok(uplinks.into_iter().enumerate().map(with_all).collect())
}

/// Directory of an uplink's spool.
fn folder(name: Option<&str>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
    name.map_or_else(|| ONLY.to_owned(), |name| name.chars().map(plain).collect())
}

/// Directory of all spools; `None`, with a log message, if samples can wait in memory only.
fn spools(config: &SpoolConfig) -> Option<&Path> {
    let dir = config.dir.as_deref()?;
    if !config.asked && !dir.is_dir() {
        let dir = dir.display();
        tracing::info!(%dir, "spool directory missing; samples wait in memory only while no collector accepts them; create it, or set spool.dir");
        return None;
    }
    Some(dir)
}

/// Warns of spools that no uplink uses: their samples are not sent.
fn warn_of_others(dir: &Path, ours: &[String]) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_ours = ours.iter().any(|folder| entry.file_name() == folder.as_str());
        if !is_ours && path.join("cursor").exists() {
            let dir = path.display();
            tracing::warn!(%dir, "spool of an unconfigured collector; its samples are not sent; configure the collector again, or remove the directory");
        }
    }
}
