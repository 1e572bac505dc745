//! The table of ports.

use fabriclens_core::json_text::push_text;
use fabriclens_top::unit::{per_second, share};
use fabriclens_top::{Cell, Column, Curves, Level, Row, Table};
use serde::Deserialize;

/// A column.
struct Measure {
    /// Name of the signal in the API.
    signal: &'static str,
    title: &'static str,
    /// Whether it is a share of the time or of the line rate; otherwise events per second.
    is_share: bool,
    /// Value from which it is worth a look.
    warning: f64,
}

const fn shares(signal: &'static str, title: &'static str, warning: f64) -> Measure {
    Measure { signal, title, is_share: true, warning }
}

const fn events(signal: &'static str, title: &'static str, warning: f64) -> Measure {
    Measure { signal, title, is_share: false, warning }
}

/// Columns that follow port and load; the most important first. A value is a warning from where detectors consider it.
const MEASURES: [Measure; 8] = [
    shares("utilization", "SENT", f64::INFINITY),
    shares("utilization_received", "RECEIVED", f64::INFINITY),
    shares("pause_received", "PAUSED", 0.01),
    shares("pause_sent", "PAUSES", 0.01),
    shares("xmit_wait", "XMITWAIT", 0.05),
    events("errors", "ERRORS", f64::MIN_POSITIVE),
    events("discards", "DISCARDS", f64::MIN_POSITIVE),
    events("marks", "MARKS", f64::INFINITY),
];
/// 1 if the port is up.
const UP: &str = "up";

/// The answer of `/api/v1/topology/signals`: ports, and for each signal a value of each port.
#[derive(Deserialize)]
pub(super) struct Signals {
    ports: Vec<(String, String)>,
    signals: Vec<SignalValues>,
}

/// Values of a signal.
#[derive(Deserialize)]
struct SignalValues {
    name: String,
    values: Vec<Option<f64>>,
}

/// Names of the signals to ask for.
pub(super) fn signals() -> String {
    MEASURES.iter().map(|measure| measure.signal).chain([UP]).collect::<Vec<_>>().join(",")
}

/// The table; `loads` are shares of the line rate.
pub(super) fn table(answer: &Signals, loads: &mut Curves) -> Table {
    let column = |name: &str| answer.signals.iter().find(|column| column.name == name);
    let of = |name: &str, port: usize| column(name).and_then(|column| column.values.get(port).copied().flatten());
    let mut columns = vec![Column::left("PORT"), Column::left("LOAD")];
    columns.extend(MEASURES.iter().map(|measure| Column::right(measure.title)));
    let rows = answer.ports.iter().enumerate().map(|(place, (node, port))| {
        let id = format!("{node}\n{port}");
        let busiest =
            [of(MEASURES[0].signal, place), of(MEASURES[1].signal, place)].into_iter().flatten().reduce(f64::max);
        let is_down = of(UP, place) == Some(0.0);
        let name = Cell::text(&if is_down { format!("{node} {port} (down)") } else { format!("{node} {port}") });
        let mut cells = vec![if is_down { name.at(Level::Critical) } else { name }, loads.draw(&id, busiest)];
        cells.extend(MEASURES.iter().map(|measure| cell(measure, of(measure.signal, place))));
        Row { id, cells }
    });
    let rows: Vec<Row> = rows.collect();
    loads.keep(rows.iter().map(|row| row.id.as_str()));
    Table { name: "Ports", columns, rows, sort: 2, empty: "no port is known; agents and switches tell them" }
}

fn cell(measure: &Measure, value: Option<f64>) -> Cell {
    let Some(value) = value else { return Cell::unknown() };
    let text = if measure.is_share { share(value) } else { per_second(value) };
    Cell::number(value, &text).at(if value >= measure.warning { Level::Warning } else { Level::Normal })
}

/// PromQL of all series of a row. A port's name is `device/port` at hosts; at switches it may contain slashes of its own.
pub(super) fn query(id: &str) -> String {
    let (host, port) = id.split_once('\n').unwrap_or((id, ""));
    let whole = format!("{{host={},port={}}}", quoted(host), quoted(port));
    match port.rsplit_once('/') {
        Some((device, number)) => {
            format!("{whole} or {{host={},device={},port={}}}", quoted(host), quoted(device), quoted(number))
        }
        None => whole,
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    push_text(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(load: f64) -> Signals {
        let text = format!(
            r#"{{"time": 1, "ports": [["h1", "mlx5_0/1"], ["leaf1", "swp5"]], "signals": [
                {{"name": "utilization", "unit": "1", "values": [{load}, null]}},
                {{"name": "pause_received", "unit": "1", "values": [0.4, 0]}},
                {{"name": "errors", "unit": "1/s", "values": [0, 2]}},
                {{"name": "up", "unit": "1", "values": [1, 0]}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn ports_have_their_signals_and_a_curve_of_their_load() {
        let mut loads = Curves::new(12);
        table(&answer(0.1), &mut loads);
        let snapshot =
            fabriclens_top::Snapshot { summary: String::new(), tables: vec![table(&answer(0.9), &mut loads)] };
        let text = fabriclens_top::print(&snapshot);
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(
            lines,
            [
                "PORT               LOAD  SENT  RECEIVED  PAUSED  PAUSES  XMITWAIT  ERRORS  DISCARDS  MARKS",
                "h1 mlx5_0/1        ▁█    90 %         -    40 %       -         -       0         -      -",
                "leaf1 swp5 (down)           -         -     0 %       -         -   2.0/s         -      -"
            ]
        );
    }

    #[test]
    fn every_signal_that_is_shown_is_asked_for() {
        assert_eq!(
            signals(),
            "utilization,utilization_received,pause_received,pause_sent,xmit_wait,errors,discards,marks,up"
        );
    }

    #[test]
    fn rows_select_their_series() {
        let of_host = r#"{host="h1",port="mlx5_0/1"} or {host="h1",device="mlx5_0",port="1"}"#;
        assert_eq!(query("h1\nmlx5_0/1"), of_host);
        assert_eq!(query("leaf\"1\nswp5"), r#"{host="leaf\"1",port="swp5"}"#);
    }
}
