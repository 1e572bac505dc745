//! What the agent's `/metrics` says in JSON: series with the time of each value.

use serde::Deserialize;
use std::collections::BTreeMap;

/// All series and sources at one time.
#[derive(Debug, Default, Deserialize)]
pub struct Reading {
    /// Newest value of each series.
    pub series: Vec<Series>,
    /// State of each source.
    pub sources: Vec<Source>,
}

/// A series.
#[derive(Clone, Debug, Deserialize)]
pub struct Series {
    /// Metric.
    pub name: String,
    /// `counter`, `gauge`, `info` or `histogram`.
    #[serde(rename = "type")]
    kind: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// A number; integers beyond 2^53, infinities and histograms are none.
    value: serde_json::Value,
    /// When it was read, Unix nanoseconds.
    time_ns: u64,
}

/// A source of counters.
#[derive(Debug, Deserialize)]
pub struct Source {
    /// Name.
    pub sampler: String,
    /// Device, port or interface.
    pub target: String,
    /// `data`, `absent`, `error` or `stalled`.
    pub outcome: String,
    /// Why.
    pub detail: Option<String>,
    /// Values of the last read.
    pub counters: Option<u64>,
    /// Duration of the last read, seconds.
    pub read_seconds: Option<f64>,
}

impl Series {
    /// The value, if it is a number.
    pub fn number(&self) -> Option<f64> {
        self.value.as_f64()
    }

    /// The value as text.
    pub fn text(&self) -> String {
        match &self.value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Object(_) => "histogram".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether both were read at the same time.
    pub fn is_as_old_as(&self, other: &Self) -> bool {
        self.time_ns == other.time_ns
    }

    /// A label; empty if it has none of this name.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// Name of the RDMA port, such as `mlx5_0/1`.
    pub fn port(&self) -> Option<String> {
        Some(format!("{}/{}", self.labels.get("device")?, self.labels.get("port")?))
    }

    /// Growth per second since an earlier value. None if the counter restarted, or was not read in between.
    pub fn rate(&self, earlier: &Self) -> Option<f64> {
        let seconds = self.time_ns.checked_sub(earlier.time_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        let growth = match (self.value.as_u64(), earlier.value.as_u64()) {
            (Some(now), Some(before)) => now.checked_sub(before)? as f64,
            _ => self.number()? - earlier.number()?,
        };
        (growth >= 0.0).then_some(growth / seconds)
    }

    /// Whether it counts.
    pub fn is_counter(&self) -> bool {
        self.kind == "counter"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn series(value: serde_json::Value, time_ns: u64) -> Series {
        let text = json!({"name": "x", "type": "counter", "labels": {"device": "a", "port": "1"}, "value": value, "time_ns": time_ns});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn rates_are_those_between_the_times_of_reading() {
        let before = series(json!(u64::MAX - 10), 1_000_000_000);
        assert_eq!(series(json!(u64::MAX), 3_000_000_000).rate(&before), Some(5.0));
        assert_eq!(series(json!(2.5), 2_000_000_000).rate(&series(json!(1), 0)), Some(0.75));
        assert_eq!(series(json!(7), 2_000_000_000).port().as_deref(), Some("a/1"));
    }

    #[test]
    fn a_counter_that_restarted_or_was_not_read_has_no_rate() {
        let before = series(json!(10), 1_000_000_000);
        assert_eq!(series(json!(3), 2_000_000_000).rate(&before), None);
        assert_eq!(series(json!(10), 1_000_000_000).rate(&before), None);
        assert_eq!(series(json!("NaN"), 2_000_000_000).rate(&before), None);
    }
}
