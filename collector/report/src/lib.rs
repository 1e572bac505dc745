//! The communication report of a job: what the network did for it and to it, worked out of its hosts' series and the
//! job's own rollups, for any job and time, as a value ([`Report`]) and as HTML, Markdown and JSON.
//!
//! [`build`] reads through a PromQL engine and the read trait, so it does not know where samples are kept; it is called
//! by the collector's HTTP API, on a thread that may block. No HTTP and no disk here.
#![forbid(unsafe_code)]

mod build;
pub mod model;
mod read;
mod render;

pub use build::{Input, Leaves, build};
pub use model::Report;
pub use render::{html, markdown};

/// The report as JSON.
pub fn json(report: &Report) -> String {
    // Maps of text, numbers and lists always have a form; a number that is none becomes null.
    serde_json::to_string(report).unwrap_or_default()
}

/// The published form of [`json`], as JSON Schema.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Report);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
