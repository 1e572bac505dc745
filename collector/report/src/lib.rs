//! The communication report of a job: its traffic, the congestion it suffered and caused, and the time that the network
//! cost it, computed from the series of its hosts and from its rollups.
//!
//! The collector's HTTP API calls [`build()`] on a blocking thread and renders the [`Report`] as HTML, Markdown or JSON.
//! The crate reads samples through the `Read` trait and a PromQL engine; it does no HTTP and no disk access.
//!
//! ```
//! use fabriclens_report::model::{Figure, Grade, Part, Unit};
//!
//! // Parts of different grades are never added up.
//! let part = |grade, value| Part { grade, value, of: 4 };
//! let sent = Figure { unit: Unit::Bytes, parts: vec![part(Grade::Exclusive, 7e9), part(Grade::Shared, 2e9)] };
//! assert_eq!(sent.part(Grade::Exclusive), Some(7e9));
//! assert_eq!(sent.largest(), Some(7e9));
//! assert_eq!(Figure::none(Unit::Bytes).largest(), None, "not measured, which is not zero");
//! assert!(fabriclens_report::schema().contains("Figure"));
//! ```
#![forbid(unsafe_code)]

mod build;
pub mod model;
mod read;
mod render;

pub use build::{Digest, Input, KnownPaths, Leaves, Link, LinkEnd, PathLookup, build, digest};
pub use model::Report;
pub use render::{html, markdown};

/// The report as JSON.
pub fn json(report: &Report) -> String {
    // The types serialize without errors; a number that is not finite becomes null.
    serde_json::to_string(report).unwrap_or_default()
}

/// JSON Schema of [`json`], as published in `docs/report.schema.json`.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Report);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
