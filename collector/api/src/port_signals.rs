//! Signals of all ports at an instant, for the overview and the drawing of the fabric. The detectors tell the signals of the present; one
//! query for each signal reads those of the past, and all of them where this collector has peers.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriclens_core::newest_signals::SignalTable;
use fabriclens_correlate::topology::port_name;
use fabriclens_correlate::{ALL, Signal};
use fabriclens_model::Budget as _;
use fabriclens_promql::{QueryError, Value};

use super::Api;
use super::params::Params;
use super::query::QueryContext;

/// Range of rates, which are those between the last two samples in it.
const WINDOW: &str = "1m";

/// Something that a port is colored and ranked by.
pub(super) struct PortSignal {
    /// Name in requests and answers.
    pub(super) name: &'static str,
    /// Unit: `1` for a share of time or of the line rate.
    pub(super) unit: &'static str,
    /// What the detectors call it.
    signal: Signal,
    /// Divided by the line rate.
    is_relative: bool,
}

/// All of them.
pub(super) const SIGNALS: [PortSignal; 9] = [
    PortSignal { name: "utilization", unit: "1", signal: Signal::Tx, is_relative: true },
    PortSignal { name: "utilization_received", unit: "1", signal: Signal::Rx, is_relative: true },
    PortSignal { name: "pause_sent", unit: "1", signal: Signal::PauseTx, is_relative: false },
    PortSignal { name: "pause_received", unit: "1", signal: Signal::PauseRx, is_relative: false },
    PortSignal { name: "xmit_wait", unit: "1", signal: Signal::XmitWait, is_relative: false },
    PortSignal { name: "marks", unit: "1/s", signal: Signal::Marks, is_relative: false },
    PortSignal { name: "errors", unit: "1/s", signal: Signal::WireErrors, is_relative: false },
    PortSignal { name: "discards", unit: "1/s", signal: Signal::Discards, is_relative: false },
    PortSignal { name: "up", unit: "1", signal: Signal::Up, is_relative: false },
];

/// A node and the name of its port.
pub(super) type PortName = (String, String);

/// Values of ports, in the order of the signals that were asked for; NaN where a port has none.
pub(super) type PortValues = BTreeMap<PortName, Vec<f64>>;

/// Memory of a port besides its names and values, bytes.
const PORT_BYTES: usize = 192;

/// What the tables of the present have.
pub(super) fn of_tables() -> impl Iterator<Item = Signal> {
    SIGNALS.iter().map(|signal| signal.signal)
}

impl Api {
    /// The signals of the present; `None` for a request of another instant, or if peers may have samples that this collector has not.
    pub(super) async fn present(&self, params: &Params) -> Option<Arc<SignalTable>> {
        let is_alone = self.config.peers.is_empty() || params.get(super::LOCAL) == Some("true");
        if is_alone && params.get("time").is_none() { self.newest_signals.table().await } else { None }
    }
}

/// Signals from a table of the present, or read at `time_ms`. Each port counts in the memory of the query.
///
/// # Errors
/// [`QueryError`] of the first query that fails.
pub(super) fn snapshot(
    context: &QueryContext<'_>,
    present: Option<&SignalTable>,
    asked: &[&PortSignal],
    time_ms: i64,
) -> Result<PortValues, QueryError> {
    let mut ports = PortValues::new();
    // Behind the values of the signals stands the line rate.
    let columns = asked.len() + 1;
    if let Some(table) = present {
        copy(context, table, asked, &mut ports)?;
    } else {
        for (at, wanted) in asked.iter().enumerate() {
            read(context, wanted.signal, time_ms, [at, columns], &mut ports)?;
        }
        if asked.iter().any(|signal| signal.is_relative) {
            read(context, Signal::Rate, time_ms, [asked.len(), columns], &mut ports)?;
        }
    }
    ports.retain(|_, values| {
        let rate = values.pop().filter(|rate| *rate > 0.0).unwrap_or(f64::NAN);
        for (value, _) in values.iter_mut().zip(asked).filter(|(_, signal)| signal.is_relative) {
            *value /= rate;
        }
        values.iter().any(|value| !value.is_nan())
    });
    Ok(ports)
}

/// Copies signals from a table.
fn copy(
    context: &QueryContext<'_>,
    table: &SignalTable,
    asked: &[&PortSignal],
    ports: &mut PortValues,
) -> Result<(), QueryError> {
    let columns: Vec<&[f32]> = asked.iter().map(|signal| table.of(signal.signal).unwrap_or(&[])).collect();
    for (at, (port, rate)) in table.ports.iter().zip(&table.line_rates).enumerate() {
        let value = |column: &&[f32]| column.get(at).copied().map_or(f64::NAN, f64::from);
        let values: Vec<f64> = columns.iter().map(value).chain([f64::from(*rate)]).collect();
        if values.iter().rev().skip(1).all(|value| value.is_nan()) {
            continue;
        }
        context.budget.request(PORT_BYTES + port.0.len() + port.1.len() + size_of_val(&*values))?;
        ports.insert(port.clone(), values);
    }
    Ok(())
}

/// Reads one signal of every port that has it into a column of so many. The memory of the query is given back.
fn read(
    context: &QueryContext<'_>,
    signal: Signal,
    time_ms: i64,
    [column, columns]: [usize; 2],
    ports: &mut PortValues,
) -> Result<(), QueryError> {
    let row = &ALL[signal as usize];
    let query = row.promql(WINDOW);
    let before = context.budget.taken();
    let outcome = context.engine.instant_cancellable(context.data.reader(), &query, time_ms, context.budget.cancel)?;
    let of_query = context.budget.taken() - before;
    let Value::Vector(samples) = outcome.value else { return Ok(()) };
    for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
        let port = (sample.labels.get("host").to_owned(), port_name(&sample.labels));
        if port.1.is_empty() {
            continue;
        }
        let Some(values) = ports.get_mut(&port) else {
            let names = port.0.len() + port.1.len();
            context.budget.request(PORT_BYTES + names + columns * size_of::<f64>())?;
            let mut values = vec![f64::NAN; columns];
            values[column] = sample.value;
            ports.insert(port, values);
            continue;
        };
        let kept = &mut values[column];
        *kept = if kept.is_nan() { sample.value } else { row.join.of(*kept, sample.value) };
    }
    drop(samples);
    context.budget.give_back(of_query);
    Ok(())
}

/// A value in JSON, to four digits; `null` where there is none.
pub(super) fn push_value(out: &mut String, value: f64) {
    use std::fmt::Write as _;
    if !value.is_finite() {
        return out.push_str("null");
    }
    let digits = format!("{value:.3e}");
    // The text is a number, so parsing it does not fail; writing to a string does not fail either.
    _ = write!(out, "{}", digits.parse::<f64>().unwrap_or(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_four_digits_and_no_value_is_null() {
        let text = |value| {
            let mut out = String::new();
            push_value(&mut out, value);
            out
        };
        assert_eq!([0.123_456, 1.0, 0.0, 123_456.0].map(text), ["0.1235", "1", "0", "123500"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(text), ["null", "null"], "JSON has neither");
    }

    #[test]
    fn signals_have_distinct_names_and_no_slow_expression() {
        for (at, signal) in SIGNALS.iter().enumerate() {
            assert!(SIGNALS[..at].iter().all(|other| other.name != signal.name), "{}", signal.name);
            assert!(!ALL[signal.signal as usize].slow, "{} is read at every refresh", signal.name);
        }
    }
}
