//! Evaluates signals by PromQL queries to the store.

use crate::model::fabric::Fabric;
use crate::model::frame::Frame;
use crate::model::priority;
use crate::model::topology::{LinkEnd, port_name};
use crate::signals::expression::Term;
use crate::signals::table::LOOK_BACK;
use crate::signals::table::SignalSpec;
use fabriclens_model::{Labels, Read};
use fabriclens_promql::{Engine, QueryError, Value};
use std::collections::HashSet;

/// When a port was last sampled; every port has this metric.
const LAST_SAMPLE: &str = r#"timestamp(fabric_port_io_bytes_total{direction="transmit"})"#;

/// Range of rates since the sample before, in queries of single instants.
const WINDOW: &str = "30s";

/// Queries signals at instants (Unix ms, ascending), which are `step_ms` or multiples of it apart, and returns a frame
/// for each.
///
/// # Errors
/// [`QueryError`] of the first query that fails.
pub fn query_frames(
    engine: &Engine,
    read: &dyn Read,
    fabric: &Fabric,
    rows: impl Iterator<Item = &'static SignalSpec>,
    ticks_ms: &[i64],
    step_ms: i64,
) -> Result<Vec<Frame>, QueryError> {
    let (Some(first), Some(last)) = (ticks_ms.first(), ticks_ms.last()) else { return Ok(Vec::new()) };
    let mut frames: Vec<Frame> = ticks_ms.iter().map(|t| Frame::new(t * 1_000_000)).collect();
    let window = format!("{}ms", step_ms * LOOK_BACK);
    let silent = silent(engine, read, fabric, ticks_ms, step_ms)?;
    let mut seen = vec![f64::NAN; ticks_ms.len()];
    for row in rows {
        let query = row.promql(&window);
        let Value::Matrix(series) = engine.range(read, &query, *first, *last, step_ms)?.value else { continue };
        let mut by_port: Vec<(usize, usize)> =
            series.iter().enumerate().filter_map(|(at, s)| Some((port_of(fabric, &s.labels)?, at))).collect();
        by_port.sort_unstable();
        for of_port in by_port.chunk_by(|a, b| a.0 == b.0) {
            let port = of_port[0].0;
            seen.fill(f64::NAN);
            for (_, at) in of_port {
                let one = &series[*at];
                let priority = priority::of_series(row.signal, &one.labels);
                for (time, value) in one.times.iter().zip(&one.values) {
                    let Ok(tick) = ticks_ms.binary_search(time) else { continue };
                    if let Some(priority) = priority.filter(|_| !silent.contains(&(port, tick))) {
                        frames[tick].set_priority(row.signal, priority, port, *value);
                    }
                    let joined = &mut seen[tick];
                    *joined = if joined.is_nan() { *value } else { row.join.of(*joined, *value) };
                }
            }
            for (tick, (frame, value)) in frames.iter_mut().zip(&seen).enumerate() {
                if !silent.contains(&(port, tick)) {
                    frame.set(row.signal, port, *value);
                }
            }
        }
    }
    Ok(frames)
}

/// Ports and instants without a sample since the previous instant. The engine repeats the last value there, which is no
/// new measurement.
fn silent(
    engine: &Engine,
    read: &dyn Read,
    fabric: &Fabric,
    ticks_ms: &[i64],
    step_ms: i64,
) -> Result<HashSet<(usize, usize)>, QueryError> {
    let (Some(first), Some(last)) = (ticks_ms.first(), ticks_ms.last()) else { return Ok(HashSet::new()) };
    let Value::Matrix(series) = engine.range(read, LAST_SAMPLE, *first, *last, step_ms)?.value else {
        return Ok(HashSet::new());
    };
    let mut silent = HashSet::new();
    for one in &series {
        let Some(port) = port_of(fabric, &one.labels) else { continue };
        for (time, heard_s) in one.times.iter().zip(&one.values) {
            if heard_s * 1000.0 <= (time - step_ms) as f64
                && let Ok(tick) = ticks_ms.binary_search(time)
            {
                silent.insert((port, tick));
            }
        }
    }
    Ok(silent)
}

/// A signal that is queried now and then; its values hold until the next query.
pub struct QueriedSignal {
    /// The signal.
    pub row: &'static SignalSpec,
    answer: Vec<(usize, f64)>,
}

impl QueriedSignal {
    /// A signal without values.
    pub fn new(row: &'static SignalSpec) -> Self {
        Self { row, answer: Vec::new() }
    }

    /// Queries it at an instant (Unix ms). After an error it keeps its values.
    ///
    /// # Errors
    /// [`QueryError`] if the query fails.
    pub fn query(&mut self, engine: &Engine, read: &dyn Read, fabric: &Fabric, time_ms: i64) -> Result<(), QueryError> {
        self.query_terms(engine, read, fabric, time_ms, |_| true)
    }

    /// The same with the terms that `has_series` accepts; the others give nothing.
    pub(crate) fn query_terms(
        &mut self,
        engine: &Engine,
        read: &dyn Read,
        fabric: &Fabric,
        time_ms: i64,
        has_series: impl Fn(&Term) -> bool,
    ) -> Result<(), QueryError> {
        let query = self.row.expression.promql_of(WINDOW, has_series);
        self.answer = answer(engine, read, fabric, self.row, (&query, time_ms))?;
        Ok(())
    }

    /// Replaces its values, given by port with several for some ports.
    pub(crate) fn set(&mut self, values: Vec<(usize, f64)>) {
        self.answer = self.row.by_port(values);
    }

    /// Writes its values into a frame.
    pub fn fill(&self, frame: &mut Frame) {
        self.answer.iter().for_each(|(port, value)| frame.set(self.row.signal, *port, *value));
    }

    /// Drops the values of ports that were removed.
    pub fn remove_ports(&mut self, gone: &HashSet<usize>) {
        self.answer.retain(|(port, _)| !gone.contains(port));
    }
}

/// Queries one signal at an instant (Unix ms); returns ports with their values.
///
/// # Errors
/// [`QueryError`] if the query fails.
pub fn query_at(
    engine: &Engine,
    read: &dyn Read,
    fabric: &Fabric,
    row: &SignalSpec,
    time_ms: i64,
) -> Result<Vec<(usize, f64)>, QueryError> {
    answer(engine, read, fabric, row, (&row.promql(WINDOW), time_ms))
}

fn answer(
    engine: &Engine,
    read: &dyn Read,
    fabric: &Fabric,
    row: &SignalSpec,
    (query, time_ms): (&str, i64),
) -> Result<Vec<(usize, f64)>, QueryError> {
    let Value::Vector(samples) = engine.instant(read, query, time_ms)?.value else { return Ok(Vec::new()) };
    Ok(row.by_port(samples.iter().filter_map(|s| Some((port_of(fabric, &s.labels)?, s.value))).collect()))
}

/// Port of a series.
pub(crate) fn port_of(fabric: &Fabric, labels: &Labels) -> Option<usize> {
    let node = fabric.topology.node(labels.get("host"))?;
    fabric.ports.at(&LinkEnd { node, port: port_name(labels) })
}
