//! Canonical metrics and their Prometheus names.

use crate::unit::MetricUnit;

/// Kind of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Monotonic and cumulative; `_total` in Prometheus.
    Counter,
    /// A value that can rise and fall.
    Gauge,
    /// An `_info` series: constant 1, with the facts in its labels.
    Info,
    /// A distribution: `_bucket`, `_sum` and `_count` in Prometheus.
    Histogram,
}

/// Entity that a series describes; decides its identity labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `host`
    Host,
    /// `host`, `device`
    Device,
    /// `host`, `device`, `port`. A netdev without RDMA is its own `device` and has no `port`.
    Port,
}

/// A canonical metric: the only place where its name, unit and help text are written.
#[derive(Debug)]
pub struct Metric {
    /// OpenTelemetry name, for instance `fabric.pfc.frames`.
    pub name: &'static str,
    /// Unit of the exported value.
    pub unit: MetricUnit,
    /// Kind of series.
    pub kind: MetricKind,
    /// Entity that it describes.
    pub scope: Scope,
    /// Labels in addition to the identity labels, sorted.
    pub labels: &'static [&'static str],
    /// Help text, at least one sentence.
    pub help: &'static str,
}

impl Metric {
    /// Prometheus name by OpenTelemetry's translation rules: dots become underscores, the unit is appended unless the
    /// name already contains it, and counters end in `_total`.
    ///
    /// ```
    /// use fabriclens_catalog::metrics::pfc;
    ///
    /// assert_eq!(pfc::PFC_FRAMES.name, "fabric.pfc.frames");
    /// assert_eq!(pfc::PFC_FRAMES.prometheus_name(), "fabric_pfc_frames_total");
    /// assert_eq!(pfc::PFC_PAUSE.prometheus_name(), "fabric_pfc_pause_seconds_total");
    /// ```
    pub fn prometheus_name(&self) -> String {
        let mut name = self.name.replace(['.', '-'], "_");
        if let Some(suffix) = self.unit.suffix()
            && !(suffix == "ratio" && self.kind == MetricKind::Counter)
            && !name.split('_').any(|part| part == suffix)
        {
            name.push('_');
            name.push_str(suffix);
        }
        if self.kind == MetricKind::Counter && !name.ends_with("_total") {
            name.push_str("_total");
        }
        name
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.name == other.name
    }
}
impl Eq for Metric {}
impl std::hash::Hash for Metric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
