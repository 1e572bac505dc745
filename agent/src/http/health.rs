//! Health of the agent: one word and its reasons.

use crate::schedule::{Outcome, SourceStatus};
use fabriclens_agent_uplink::Counters;
use fabriclens_base::escape;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;

/// `ok`, or `degraded` with reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Empty when all is well.
    pub reasons: Vec<String>,
    /// Sources that give data.
    pub data: usize,
    /// Sources that this host does not have.
    pub absent: usize,
    /// Per collector: points waiting, dropped and unaccounted, and the contents of the spool.
    pub uplinks: Vec<serde_json::Value>,
}

/// Derives the health from sources and uplinks. Failed and stalled sources are reasons; absent ones are not.
pub fn health(sources: &[SourceStatus], uplinks: &[Arc<Counters>]) -> Health {
    let mut health = Health::default();
    for s in sources {
        match &s.outcome {
            Outcome::Data { .. } => health.data += 1,
            Outcome::Absent(_) => health.absent += 1,
            Outcome::Error(why) => health.reasons.push(format!("{} of {}: {why}", s.sampler, s.target)),
            Outcome::Stalled(time) => {
                let secs = time.as_secs_f64();
                health.reasons.push(format!("{} of {}: a read has been stuck for {secs:.1} s", s.sampler, s.target));
            }
        }
    }
    for uplink in uplinks {
        health.add(uplink);
    }
    health
}

impl Health {
    fn add(&mut self, uplink: &Counters) {
        self.reasons.extend(uplink.problems());
        let (accounts, disk) = (uplink.accounts(), uplink.disk());
        let held = disk.held;
        let spool = disk.limit.map(
            |limit| json!({ "points": accounts.spooled, "bytes": held.bytes, "limit": limit, "aside": held.aside }),
        );
        self.uplinks.push(json!({
            "collector": uplink.name(), "acked": accounts.acked, "rejected": accounts.rejected, "dropped": accounts.dropped,
            "in_flight": accounts.in_flight, "unaccounted": accounts.unaccounted, "spool": spool,
        }));
    }

    /// `ok` or `degraded`.
    pub fn status(&self) -> &'static str {
        if self.reasons.is_empty() { "ok" } else { "degraded" }
    }

    /// JSON of `/healthz`; `ring` is the number of waiting and of dropped sections.
    pub fn json(&self, (waiting, dropped): (usize, u64), sandbox: Option<String>) -> serde_json::Value {
        let sandbox = sandbox.unwrap_or_else(|| "off".to_owned());
        let sources = json!({ "data": self.data, "absent": self.absent });
        let ring = json!({ "waiting": waiting, "dropped": dropped });
        json!({
            "status": self.status(), "reasons": self.reasons, "sources": sources, "ring": ring, "uplinks": self.uplinks,
            "sandbox": sandbox,
        })
    }

    /// HTML page at `/`.
    pub fn page(&self, host: &str) -> String {
        let mut items = String::new();
        for reason in &self.reasons {
            _ = write!(items, "<li>{}", escape::html(reason));
        }
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Fabriclens agent</title>\
             <style>body{{font:16px system-ui;margin:3em auto;max-width:45em;padding:0 1em}}</style>\
             <h1>Fabriclens agent on {}</h1><p>{}; {} sources give data, {} are not on this host.<ul>{items}</ul>\
             <p><a href=/metrics>/metrics</a> · <a href=/healthz>/healthz</a> · <a href=/readyz>/readyz</a></html>\n",
            escape::html(host),
            self.status(),
            self.data,
            self.absent
        )
    }
}
