//! Answers of the Prometheus HTTP API as the client reads them. Values stay strings as the server formatted them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A complete answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) data: Data,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    infos: Vec<String>,
}

impl Answer {
    /// Warnings and infos of the server.
    pub(super) fn notices(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.infos)
    }
}

/// Results by type.
#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub(super) enum Data {
    Scalar(Point),
    String(Point),
    Vector(Vec<Instant>),
    Matrix(Vec<Range>),
}

/// Unix seconds and value.
pub(super) type Point = (f64, String);

#[derive(Debug, Deserialize)]
pub(super) struct Instant {
    pub(super) metric: BTreeMap<String, String>,
    pub(super) value: Point,
}

#[derive(Debug, Deserialize)]
pub(super) struct Range {
    pub(super) metric: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) values: Vec<Point>,
}
