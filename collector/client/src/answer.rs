//! An answer of the Prometheus HTTP API, as the client reads it. Values stay the text that the server chose.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The whole answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) data: Data,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    infos: Vec<String>,
}

impl Answer {
    /// What the server remarks.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.infos)
    }
}

/// By kind of result.
#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub(super) enum Data {
    Scalar(Point),
    String(Point),
    Vector(Vec<Instant>),
    Matrix(Vec<Range>),
}

/// Seconds and value.
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
