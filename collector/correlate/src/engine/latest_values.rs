//! Signals that are the newest sample of a series, or the difference of two of its samples: a back-test reads them from the
//! series that it keeps, with the result of the signal's query.

use crate::engine::kept_series::{KeptSeries, SeriesId};
use crate::model::fabric::Fabric;
use crate::signals::expression::{Divisor, Measure, Term};
use crate::signals::query_eval::port_of;
use crate::signals::streaming_eval::hash;
use crate::signals::table::SignalSpec;
use fabriclens_model::{Labels, Matcher, Series};
use std::collections::HashMap;

/// Age from which a sample no longer counts at an instant, ms: PromQL's look-back.
const LOOK_BACK_MS: i64 = 300_000;

/// A term of the signal.
struct Reader {
    series: Vec<Matcher>,
    /// The value is the growth in so many ms; `None`: the newest sample.
    growth_ms: Option<i64>,
    divisor: f64,
}

/// Series that differ only in their names: the first that has a value counts.
struct Source {
    labels: Labels,
    port: Option<usize>,
    /// Each with the index of its reader, ascending.
    series: Vec<(usize, SeriesId)>,
}

/// A signal that is read from kept series.
pub(super) struct LatestValues {
    readers: Vec<Reader>,
    sources: Vec<Source>,
    /// Index of a source by the hash of its labels without the name.
    by_labels: HashMap<u64, usize>,
}

impl LatestValues {
    /// A reader of a signal; `None` if any of its terms is not just samples or their differences.
    pub fn of(row: &SignalSpec) -> Option<Self> {
        let readers = row.expression.0.iter().map(Reader::of).collect::<Option<_>>()?;
        Some(Self { readers, sources: Vec::new(), by_labels: HashMap::new() })
    }

    /// Takes a series into account, if the signal reads it.
    pub fn add(&mut self, labels: &Labels, id: SeriesId) {
        for (at, reader) in self.readers.iter().enumerate() {
            if reader.series.iter().all(|matcher| matcher.matches(labels)) {
                let source = *self.by_labels.entry(hash(labels)).or_insert_with(|| {
                    self.sources.push(Source { labels: labels.clone(), port: None, series: Vec::new() });
                    self.sources.len() - 1
                });
                self.sources[source].series.push((at, id));
                self.sources[source].series.sort_by_key(|(reader, _)| *reader);
            }
        }
    }

    /// Values at an instant (Unix ms) by port, several for some ports.
    pub fn at(&mut self, kept: &KeptSeries, fabric: &Fabric, time_ms: i64) -> Vec<(usize, f64)> {
        let readers = &self.readers;
        let value = |source: &mut Source| {
            let value = source.series.iter().find_map(|(at, id)| readers[*at].value(kept.get(*id), time_ms))?;
            source.port = source.port.or_else(|| port_of(fabric, &source.labels));
            Some((source.port?, value))
        };
        self.sources.iter_mut().filter_map(value).collect()
    }
}

impl Reader {
    fn of(term: &Term) -> Option<Self> {
        let plain = term.offset.is_none() && term.spread.is_none() && term.unless.is_none();
        let growth_ms = match term.measure {
            Measure::Gauge => None,
            Measure::Growth(time) => Some(fabriclens_base::duration::parse(time).ok()?.as_millis() as i64),
            Measure::Rate | Measure::MeanRate(_) => return None,
        };
        let divisor = match term.divisor {
            None => 1.0,
            Some(Divisor::Number(number)) => number,
            Some(Divisor::Series(_)) => return None,
        };
        let series = term.selector.matchers().ok().filter(|_| plain)?;
        Some(Self { series, growth_ms, divisor })
    }

    fn value(&self, series: &Series, time_ms: i64) -> Option<f64> {
        let now = sample(series, time_ms)?;
        let value = match self.growth_ms {
            None => now,
            Some(growth_ms) => match now - sample(series, time_ms - growth_ms)? {
                growth if growth < 0.0 => 0.0,
                growth => growth,
            },
        };
        Some(value / self.divisor)
    }
}

/// The sample that counts at an instant.
fn sample(series: &Series, time_ms: i64) -> Option<f64> {
    let at = series.times.partition_point(|time| *time <= time_ms).checked_sub(1)?;
    (series.times[at] > time_ms - LOOK_BACK_MS).then(|| series.values[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ports::Ports;
    use crate::model::topology::Topology;
    use crate::signals::query_eval::query_at;
    use crate::signals::table::ALL;
    use fabriclens_promql::Engine;

    #[test]
    fn values_are_those_of_the_query() {
        let metrics = [
            ("fabric_link_downs_total", "", 70_000),
            ("fabric_link_carrier_transitions_total", "down", 60_000),
            ("fabric_link_carrier_changes_total", "", 45_000),
            ("fabric_link_crc_errors_total", "", 1_000_000),
            ("fabric_link_symbol_errors_total", "", 60_000),
            ("fabric_module_temperature_celsius", "", 200_000),
        ];
        let mut fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let mut kept = KeptSeries::default();
        let mut rows: Vec<(&SignalSpec, LatestValues)> =
            ALL.iter().filter(|row| row.slow).filter_map(|row| Some((row, LatestValues::of(row)?))).collect();
        assert_eq!(rows.len(), 5, "two of falls, two of errors, the temperature");
        for host in 0..4 {
            fabric.measured_port(&format!("h{host}"), "mlx5_0/1").unwrap();
            for (nth, (name, state, every_ms)) in metrics.into_iter().enumerate().filter(|(nth, _)| nth % 4 != host) {
                let host = format!("h{host}");
                let own = [("__name__", name), ("host", &host), ("device", "mlx5_0"), ("port", "1")];
                let labels = Labels::new(own.into_iter().chain([("state", state), ("direction", "receive")]));
                let id = kept.add(&labels);
                rows.iter_mut().for_each(|(_, values)| values.add(&labels, id));
                let series = kept.get_mut(id);
                series.times = (0..9_000_000 / every_ms).map(|at| at * every_ms + nth as i64 * 777).collect();
                // It restarts now and then.
                series.values = (0..series.times.len()).map(|at| (at * at % 977) as f64).collect();
            }
        }
        let (engine, mut compared) = (Engine::new(fabriclens_promql::Limits::default()), 0);
        for time_ms in (0..9_500_000).step_by(97_000) {
            for (row, values) in &mut rows {
                let found = row.by_port(values.at(&kept, &fabric, time_ms));
                let asked = query_at(&engine, &kept, &fabric, row, time_ms).unwrap();
                assert_eq!(found, asked, "{:?} at {time_ms}", row.signal);
                compared += asked.len();
            }
        }
        assert!(compared > 500, "{compared}");
    }
}
