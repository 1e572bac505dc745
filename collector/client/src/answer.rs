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

/// A series of an instant query.
#[derive(Debug, Deserialize)]
#[serde(from = "Raw")]
pub(super) struct Instant {
    pub(super) metric: BTreeMap<String, String>,
    /// A number, or count and sum of a histogram as text.
    pub(super) value: Point,
}

/// A series of a range query.
#[derive(Debug, Deserialize)]
#[serde(from = "Raw")]
pub(super) struct Range {
    pub(super) metric: BTreeMap<String, String>,
    /// In order of time; each as in [`Instant`].
    pub(super) values: Vec<Point>,
}

/// A series as the server writes it: with numbers, histograms or both.
#[derive(Debug, Deserialize)]
struct Raw {
    metric: BTreeMap<String, String>,
    value: Option<Point>,
    histogram: Option<(f64, NativeHistogram)>,
    #[serde(default)]
    values: Vec<Point>,
    #[serde(default)]
    histograms: Vec<(f64, NativeHistogram)>,
}

/// A native histogram, without its buckets.
#[derive(Debug, Deserialize)]
struct NativeHistogram {
    count: String,
    sum: String,
}

fn point((time, NativeHistogram { count, sum }): (f64, NativeHistogram)) -> Point {
    (time, format!("histogram of {count}, sum {sum}"))
}

impl From<Raw> for Instant {
    fn from(raw: Raw) -> Self {
        let value = raw.value.or_else(|| raw.histogram.map(point)).unwrap_or_default();
        Self { metric: raw.metric, value }
    }
}

impl From<Raw> for Range {
    fn from(raw: Raw) -> Self {
        let mut values = raw.values;
        values.extend(raw.histograms.into_iter().map(point));
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { metric: raw.metric, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_told_by_count_and_sum() {
        let histogram = r#"{"count":"3","sum":"1.5","buckets":[[0,"1","2","3"]]}"#;
        let vector = format!(r#"{{"resultType":"vector","result":[{{"metric":{{}},"histogram":[10,{histogram}]}}]}}"#);
        let Data::Vector(list) = serde_json::from_str(&vector).unwrap() else { panic!("{vector}") };
        assert_eq!(list[0].value, (10.0, "histogram of 3, sum 1.5".to_owned()));
        let matrix = format!(
            r#"{{"resultType":"matrix","result":[{{"metric":{{}},"values":[[20,"7"]],"histograms":[[10,{histogram}]]}}]}}"#
        );
        let Data::Matrix(list) = serde_json::from_str(&matrix).unwrap() else { panic!("{matrix}") };
        assert_eq!(list[0].values.iter().map(|p| p.0).collect::<Vec<_>>(), [10.0, 20.0]);
    }
}
