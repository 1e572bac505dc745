//! Signals that look back over minutes or a day, in a back-test: their series are kept apart, because frames do not reach
//! that far. They are read where two samples say it all, and else queried as the live evaluation queries the store.

use crate::engine::kept_series::{KeptSeries, SeriesId};
use crate::engine::latest_values::LatestValues;
use crate::model::fabric::Fabric;
use crate::model::frame::Frame;
use crate::signals::expression::Term;
use crate::signals::query_eval::QueriedSignal;
use crate::signals::table::SignalSpec;
use fabriclens_model::{Layout, LayoutId, is_absent};
use fabriclens_promql::{Engine, QueryError};
use foldhash::{HashMap, HashMapExt as _};
use std::collections::HashSet;

/// Time between queries, ms.
const QUERY_MS: i64 = 10_000;
/// The same while no counter moves, and the longest distance between kept samples, ms.
const STILL_MS: i64 = 60_000;
/// How long samples are kept, ms: the longest time that a signal looks back, and what a query looks back beyond that.
const KEPT_MS: i64 = 86_400_000 + 300_000;
/// Dropped samples are removed once a series has so many of them.
const DROPPED: usize = 64;

/// The signals, and the series that they read.
pub(super) struct SlowSignals {
    engine: Engine,
    signals: Vec<SlowSignal>,
    metrics: HashSet<&'static str>,
    kept: KeptSeries,
    /// Columns of a label list that are kept, each with its series.
    columns: HashMap<LayoutId, Vec<Column>>,
    moved: bool,
    queried_ms: i64,
}

/// A column of a label list that is kept.
struct Column {
    at: usize,
    series: SeriesId,
    /// The newest kept sample: Unix ms and value.
    last: Option<(i64, f64)>,
}

/// One of the signals.
struct SlowSignal {
    values: QueriedSignal,
    /// Reads it without a query.
    reader: Option<LatestValues>,
    /// Metrics of its terms that the recording has.
    metrics: HashSet<&'static str>,
}

impl SlowSignals {
    /// Signals without samples.
    pub(super) fn new(rows: Vec<&'static SignalSpec>) -> Self {
        let limits = fabriclens_promql::Limits { max_steps: usize::MAX, max_samples: usize::MAX, ..Default::default() };
        let metrics = rows.iter().flat_map(|row| row.expression.metrics()).collect();
        let signal = |row: &'static SignalSpec| SlowSignal {
            values: QueriedSignal::new(row),
            reader: LatestValues::of(row),
            metrics: HashSet::new(),
        };
        let signals = rows.into_iter().map(signal).collect();
        Self {
            engine: Engine::new(limits),
            signals,
            metrics,
            kept: KeptSeries::default(),
            columns: HashMap::new(),
            moved: false,
            queried_ms: i64::MIN,
        }
    }

    /// Keeps the samples of a port that differ from the ones before, and one per minute of the others.
    pub(super) fn take(&mut self, layout: &Layout, time_ms: i64, values: &[f64]) {
        let Self { signals, metrics, kept, columns, moved, .. } = self;
        let of_list = columns.entry(layout.id()).or_insert_with(|| {
            let mut of_list = Vec::new();
            for (at, labels) in layout.iter().enumerate().filter(|(_, labels)| metrics.contains(labels.metric())) {
                let id = kept.add(labels);
                signals.iter_mut().filter_map(|s| s.reader.as_mut()).for_each(|reader| reader.add(labels, id));
                of_list.push(Column { at, series: id, last: None });
            }
            of_list
        });
        for column in of_list.iter_mut().filter(|column| !is_absent(values[column.at])) {
            let value = values[column.at];
            let differs = column.last.is_none_or(|(_, last)| last != value);
            if column.last.is_some_and(|(last, _)| time_ms <= last || !differs && time_ms < last + STILL_MS) {
                continue;
            }
            let one = kept.get_mut(column.series);
            if column.last.is_none() {
                for signal in signals.iter_mut() {
                    let metrics = signal.values.row.expression.0.iter().map(|term| term.selector.metric);
                    signal.metrics.extend(metrics.filter(|metric| *metric == one.labels.metric()));
                }
            }
            column.last = Some((time_ms, value));
            *moved |= differs;
            one.times.push(time_ms);
            one.values.push(value);
            let dropped = one.times.partition_point(|time| *time < time_ms - KEPT_MS);
            if dropped >= DROPPED {
                one.times.drain(..dropped);
                one.values.drain(..dropped);
            }
        }
    }

    /// Queries the signals if that is due, and writes their values into a frame.
    ///
    /// # Errors
    /// [`QueryError`] of the first query that fails.
    pub(super) fn fill(&mut self, fabric: &Fabric, frame: &mut Frame) -> Result<(), QueryError> {
        let now_ms = frame.time_ns / 1_000_000;
        let due = if self.moved { QUERY_MS } else { STILL_MS };
        if now_ms >= self.queried_ms.saturating_add(due) {
            for SlowSignal { values, reader, metrics } in self.signals.iter_mut().filter(|s| !s.metrics.is_empty()) {
                let has_series = |term: &Term| metrics.contains(term.selector.metric);
                match reader {
                    Some(reader) => values.set(reader.at(&self.kept, fabric, now_ms)),
                    None => values.query_terms(&self.engine, &self.kept, fabric, now_ms, has_series)?,
                }
            }
            (self.moved, self.queried_ms) = (false, now_ms);
        }
        self.signals.iter().for_each(|signal| signal.values.fill(frame));
        Ok(())
    }
}
