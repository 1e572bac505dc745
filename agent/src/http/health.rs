//! The truth about the agent in one word and its reasons.

use crate::schedule::{Outcome, SourceStatus};
use crate::uplink::State;
use serde_json::json;
use std::fmt::Write as _;

/// `ok`, or `degraded` with reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Empty when all is well.
    pub reasons: Vec<String>,
    /// Sources that give data.
    pub data: usize,
    /// Sources that this host does not have.
    pub absent: usize,
}

/// Judges sources and uplink. What a host does not have is no reason; what fails or stalls is.
pub fn health(sources: &[SourceStatus], uplink: Option<State>) -> Health {
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
    if let Some(State::Down { since, error }) = uplink {
        let secs = since.elapsed().as_secs();
        health.reasons.push(format!("the collector has been away for {secs} s: {error}"));
    }
    health
}

impl Health {
    /// `ok` or `degraded`.
    pub fn status(&self) -> &'static str {
        if self.reasons.is_empty() { "ok" } else { "degraded" }
    }

    /// For `/healthz`; `ring` holds sections that wait, and sections dropped.
    pub fn json(&self, (waiting, dropped): (usize, u64), sandbox: Option<String>) -> serde_json::Value {
        let sandbox = sandbox.unwrap_or_else(|| "off".to_owned());
        let sources = json!({ "data": self.data, "absent": self.absent });
        let ring = json!({ "waiting": waiting, "dropped": dropped });
        json!({ "status": self.status(), "reasons": self.reasons, "sources": sources, "ring": ring, "sandbox": sandbox })
    }

    /// The page at `/`.
    pub fn page(&self, host: &str) -> String {
        let mut items = String::new();
        for reason in &self.reasons {
            _ = write!(items, "<li>{}", escape(reason));
        }
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8><title>Fabriclens agent</title>\
             <style>body{{font:16px system-ui;margin:3em auto;max-width:45em;padding:0 1em}}</style>\
             <h1>Fabriclens agent on {}</h1><p>{}; {} sources give data, {} are not on this host.<ul>{items}</ul>\
             <p><a href=/metrics>/metrics</a> · <a href=/healthz>/healthz</a> · <a href=/readyz>/readyz</a></html>\n",
            escape(host),
            self.status(),
            self.data,
            self.absent
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
