//! Turns paths and values of a stream into series of the catalog, by the table of foreign names.

use std::collections::HashMap;

use fabriclens_catalog::Metric;
use fabriclens_foreign::{Conversion, Meaning, Source, Value, canonical, meaning};
use fabriclens_model::{Labels, stale};

use crate::leaf::{Leaf, Receiver, Scalar};
use crate::outbox::Row;
use crate::output::Output;
use crate::path_budget::StreamPaths;

/// Most paths of one stream. A switch of 512 ports with 120 counters each has 61,440.
const PATHS: usize = 200_000;
/// Memory of a path besides its own length, and of one whose series is stored besides twice its length, bytes.
const PATH_BYTES: usize = 128;
const SERIES_BYTES: usize = 512;

/// Paths of a stream, and the samples of the message that is being read.
pub(crate) struct Series {
    output: Output,
    source: &'static Source,
    known: HashMap<Box<str>, Known>,
    /// Most paths that are known, and their memory.
    most: usize,
    memory: StreamPaths,
    /// Path and keys of the leaf that is being looked up.
    key: String,
    rows: Vec<Row>,
}

/// What a path is.
enum Known {
    Stored { labels: Labels, metric: &'static Metric, conversion: Conversion },
    LeftOut,
    Unknown,
}

impl Known {
    /// Memory with its path, bytes.
    fn bytes(&self, path: &str) -> usize {
        match self {
            Self::Stored { .. } => SERIES_BYTES + 2 * path.len(),
            Self::LeftOut | Self::Unknown => PATH_BYTES + path.len(),
        }
    }
}

impl Series {
    pub(crate) fn new(output: Output, source: &'static Source) -> Self {
        let memory = output.paths.stream();
        Self { output, source, known: HashMap::new(), most: PATHS, memory, key: String::new(), rows: Vec::new() }
    }

    fn look_up(&self, leaf: &Leaf<'_>) -> Known {
        let attributes: Vec<(&str, &str)> = leaf.keys.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        match meaning(self.source, leaf.name, &attributes[..]) {
            Meaning::Series(series) => Known::Stored {
                labels: self.output.labels(series.metric, series.port.as_deref(), &series.labels),
                metric: series.metric,
                conversion: series.conversion,
            },
            Meaning::LeftOut(_) => Known::LeftOut,
            Meaning::Unknown => {
                self.output.counters.unknown(leaf.name);
                Known::Unknown
            }
        }
    }

    fn add(&mut self, time_ms: i64, labels: Labels, value: f64) {
        let same_time = self.rows.iter().position(|row| row.time_ms == time_ms);
        let at = same_time.unwrap_or_else(|| {
            self.rows.push(Row { time_ms, ..Row::default() });
            self.rows.len() - 1
        });
        self.rows[at].series.push(labels);
        self.rows[at].values.push(value);
    }
}

impl Receiver for Series {
    fn leaf(&mut self, leaf: Leaf<'_>) {
        write_key(&mut self.key, leaf.name, leaf.keys);
        if !self.known.contains_key(self.key.as_str()) {
            if self.known.len() >= self.most {
                return self.output.counters.dropped("paths", 1);
            }
            let known = self.look_up(&leaf);
            if !self.memory.take(known.bytes(&self.key)) {
                return self.output.counters.dropped("paths", 1);
            }
            self.known.insert(self.key.as_str().into(), known);
        }
        let Some(known) = self.known.get(self.key.as_str()) else { return };
        let Known::Stored { labels, metric, conversion } = known else {
            let reason = if matches!(known, Known::LeftOut) { "left_out" } else { "unknown" };
            return self.output.counters.dropped(reason, 1);
        };
        let value = match leaf.value {
            Scalar::Number(number) => Value::Number(number),
            Scalar::Text(text) => Value::Text(text),
        };
        match canonical::value(metric, *conversion, value) {
            Some(value) => {
                let labels = labels.clone();
                self.add(leaf.time_ms, labels, value);
            }
            None => self.output.counters.dropped("gap", 1),
        }
    }

    /// Ends the series of all paths at and below the deleted one.
    fn delete(&mut self, name: &str, keys: &[(String, String)], time_ms: i64) {
        let gone = |key: &str| is_below(key, name, keys);
        let ended: Vec<Labels> = (self.known.iter())
            .filter(|(key, _)| gone(key))
            .filter_map(|(_, known)| match known {
                Known::Stored { labels, .. } => Some(labels.clone()),
                Known::LeftOut | Known::Unknown => None,
            })
            .collect();
        for (key, known) in self.known.extract_if(|key, _| gone(key)) {
            self.memory.give(known.bytes(&key));
        }
        for labels in ended {
            self.add(time_ms, labels, stale());
        }
    }

    fn end(&mut self) {
        for mut row in self.rows.drain(..) {
            unique(&mut row);
            self.output.push(row);
        }
    }
}

/// Keeps the last sample of each series: two paths may be one series, and a message may hold a path twice.
fn unique(row: &mut Row) {
    let mut place: HashMap<&Labels, usize> = HashMap::with_capacity(row.series.len());
    let doubled = row.series.iter().enumerate().any(|(at, labels)| place.insert(labels, at).is_some());
    if !doubled {
        return;
    }
    let kept: Vec<bool> = row.series.iter().enumerate().map(|(at, labels)| place[labels] == at).collect();
    let mut keep = kept.iter();
    row.values.retain(|_| *keep.next().unwrap_or(&true));
    keep = kept.iter();
    let series = std::mem::take(&mut row.series);
    row.series = series.into_iter().filter(|_| *keep.next().unwrap_or(&true)).collect();
}

/// Separates the parts of a key; no path holds it, for values with control characters belong to no series.
const END: char = '\u{1}';

fn write_key(key: &mut String, name: &str, keys: &[(String, String)]) {
    key.clear();
    key.push_str(name);
    key.push(END);
    for (name, value) in keys {
        for part in [name, "=", value] {
            key.push_str(part);
        }
        key.push(END);
    }
}

/// Whether the path of a key is the deleted path or below it. `*` in a deleted key matches any text in its place.
fn is_below(key: &str, name: &str, keys: &[(String, String)]) -> bool {
    let mut parts = key.split(END);
    let path = parts.next().unwrap_or_default();
    let below = path.strip_prefix(name).is_some_and(|rest| name.is_empty() || rest.is_empty() || rest.starts_with('/'));
    let matches = |(wanted, value): &(String, String)| {
        let mut values = parts.clone().filter_map(|part| part.split_once('='));
        value.is_empty()
            || values.any(|(name, own)| {
                name == wanted
                    && match value.split_once('*') {
                        Some((before, after)) => own.starts_with(before) && own.ends_with(after),
                        // A queue (`Ethernet16:3`) belongs to its port.
                        None => {
                            own == value || own.strip_prefix(value.as_str()).is_some_and(|rest| rest.starts_with(':'))
                        }
                    }
            })
    };
    below && keys.iter().all(matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::SwitchCounters;
    use crate::outbox::Outbox;
    use fabriclens_foreign::sources::{gnmi_openconfig, gnmi_sonic};
    use std::sync::Arc;

    fn series(source: &'static Source) -> (Series, Arc<Outbox>, Arc<SwitchCounters>) {
        let output = Output::for_tests("leaf1");
        (Series::new(output.clone(), source), output.outbox, output.counters)
    }

    fn leaf(series: &mut Series, name: &str, key: (&str, &str), value: Scalar<'_>, time_ms: i64) {
        let keys = [(key.0.to_owned(), key.1.to_owned())];
        series.leaf(Leaf { name, keys: &keys, value, time_ms });
    }

    fn told(outbox: &Outbox) -> Vec<String> {
        let each = |row: Row| {
            let time = row.time_ms;
            row.series.into_iter().zip(row.values).map(move |(labels, value)| format!("{labels} {value} @{time}"))
        };
        outbox.take().into_iter().flat_map(each).collect()
    }

    #[test]
    fn a_message_becomes_rows_of_catalog_series() {
        let (mut series, outbox, counters) = series(&gnmi_sonic::SOURCE);
        let object = |name| ("object_name", name);
        leaf(&mut series, "COUNTERS/SAI_PORT_STAT_PFC_3_RX_PKTS", object("Ethernet0"), Scalar::Text("7"), 5);
        leaf(&mut series, "COUNTERS/SAI_PORT_STAT_IF_IN_OCTETS", object("Ethernet0"), Scalar::Text("x"), 5);
        leaf(&mut series, "COUNTERS/NEW", object("Ethernet0"), Scalar::Text("1"), 5);
        leaf(&mut series, "COUNTERS/PFC_WD_STATUS", object("Ethernet0:3"), Scalar::Text("operational"), 5);
        assert!(told(&outbox).is_empty(), "the message goes on");
        series.end();
        let expected =
            r#"fabric_pfc_frames_total{direction="receive", host="leaf1", port="Ethernet0", priority="3"} 7 @5"#;
        assert_eq!(told(&outbox), [expected]);
        assert_eq!(["gap", "unknown", "left_out"].map(|reason| counters.dropped_so_far(reason)), [1, 1, 1]);
    }

    #[test]
    fn a_series_has_one_value_in_a_row() {
        let (mut series, outbox, _) = series(&gnmi_openconfig::SOURCE);
        for value in [1.0, 2.0] {
            let name = "interfaces/interface/state/counters/in-octets";
            leaf(&mut series, name, ("interface.name", "swp1"), Scalar::Number(value), 5);
        }
        series.end();
        let expected = r#"fabric_port_io_bytes_total{direction="receive", host="leaf1", port="swp1"} 2 @5"#;
        assert_eq!(told(&outbox), [expected]);
    }

    #[test]
    fn memory_of_paths_is_bounded_and_free_again() {
        let (mut series, outbox, counters) = series(&gnmi_openconfig::SOURCE);
        let fill = |series: &mut Series| {
            for n in 0..1000 {
                let port = format!("Ethernet{n}");
                let name = "interfaces/interface/state/counters/in-octets";
                leaf(series, name, ("interface.name", &port), Scalar::Number(1.0), 5);
            }
            series.end();
            outbox.take().iter().map(|row| row.values.len()).sum::<usize>()
        };
        let kept = fill(&mut series);
        assert!((256 << 10) / 800 < kept && kept < (256 << 10) / SERIES_BYTES, "{kept}");
        assert_eq!(counters.dropped_so_far("paths"), 1000 - kept as u64);
        series.delete("interfaces", &[], 9);
        series.end();
        assert_eq!(outbox.take()[0].values.len(), kept, "they end");
        assert_eq!(fill(&mut series), kept);
    }

    #[test]
    fn deleted_paths_end_their_series() {
        let (mut series, outbox, _) = series(&gnmi_sonic::SOURCE);
        for port in ["Ethernet0", "Ethernet1", "Ethernet10"] {
            let object = ("object_name", port);
            leaf(&mut series, "COUNTERS/SAI_PORT_STAT_IF_IN_OCTETS", object, Scalar::Number(1.0), 5);
        }
        leaf(&mut series, "COUNTERS/SAI_QUEUE_STAT_PACKETS", ("object_name", "Ethernet1:3"), Scalar::Number(1.0), 5);
        series.end();
        outbox.take();
        series.delete("COUNTERS", &[("object_name".to_owned(), "Ethernet1".to_owned())], 9);
        series.end();
        let mut ended = told(&outbox);
        ended.sort();
        assert_eq!(ended.len(), 2, "{ended:?}");
        assert!(ended.iter().all(|line| line.contains("port=\"Ethernet1\"") && line.ends_with("NaN @9")), "{ended:?}");
        series.delete("COUNTERS", &[("object_name".to_owned(), "Ethernet*".to_owned())], 9);
        series.end();
        assert_eq!(told(&outbox).len(), 2, "the others");
        series.delete("COUNTERS", &[], 9);
        series.end();
        assert!(told(&outbox).is_empty());
    }

    #[test]
    fn paths_are_bounded() {
        let (mut series, _, counters) = series(&gnmi_sonic::SOURCE);
        series.most = 10;
        for port in 0..13 {
            leaf(&mut series, "x", ("object_name", &port.to_string()), Scalar::Number(1.0), 5);
        }
        assert_eq!((series.known.len(), counters.dropped_so_far("paths")), (10, 3));
    }
}
