//! The table of ports.

use super::measures::{Counters, Join, MEASURES, Measure, Unit};
use super::reading::{Reading, Series};
use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::state;
use fabriclens_top::unit::{bytes_per_second, per_second, share};
use fabriclens_top::{Cell, Column, Curves, Level, Row, Table};
use std::collections::BTreeMap;

/// Series of a port and their rates.
#[derive(Debug, Default)]
struct Port<'a> {
    series: Vec<(&'a Series, Option<f64>)>,
}

/// The table; `rates` belong to the series of `reading`, `loads` are shares of the line rate.
pub fn table(reading: &Reading, rates: &[Option<f64>], loads: &mut Curves) -> Table {
    let mut ports: BTreeMap<String, Port<'_>> = BTreeMap::new();
    for (series, rate) in reading.series.iter().zip(rates) {
        if let Some(name) = series.port() {
            ports.entry(name).or_default().series.push((series, *rate));
        }
    }
    ports.retain(|_, port| port.gauge(&state::PORT_UP).is_some());
    loads.keep(ports.keys().map(String::as_str));
    let rows = ports.iter().map(|(name, port)| {
        let curve = loads.draw(name, port.load());
        let mut cells = vec![Cell::text(name), port.state(), port.rate(), curve];
        cells.extend(MEASURES.iter().map(|measure| port.cell(measure)));
        Row { id: name.clone(), cells }
    });
    let mut columns = vec![Column::left("PORT"), Column::left("STATE"), Column::right("RATE"), Column::left("LOAD")];
    columns.extend(MEASURES.iter().map(|measure| Column::right(measure.title)));
    Table { name: "Ports", rows: rows.collect(), columns, sort: 0, empty: "no RDMA port is read on this host" }
}

impl Port<'_> {
    fn gauge(&self, metric: &Metric) -> Option<f64> {
        let name = metric.prometheus_name();
        self.series.iter().find(|(series, _)| series.name == name)?.0.number()
    }

    fn state(&self) -> Cell {
        match self.gauge(&state::PORT_UP) {
            Some(up) if up > 0.0 => Cell::text("up"),
            _ => Cell::text("down").at(Level::Critical),
        }
    }

    /// Line rate; in bits per second, as ports are called.
    fn rate(&self) -> Cell {
        let rate = self.gauge(&state::PORT_RATE);
        rate.map_or_else(Cell::unknown, |rate| Cell::number(rate, &format!("{:.0}G", rate * 8.0 / 1e9)))
    }

    /// Busier direction, as a share of the line rate.
    fn load(&self) -> Option<f64> {
        let line = self.gauge(&state::PORT_RATE).filter(|rate| *rate > 0.0)?;
        let busiest = MEASURES.iter().filter(|measure| matches!(measure.unit, Unit::Bytes));
        busiest.filter_map(|measure| self.value(measure)).reduce(f64::max).map(|rate| rate / line)
    }

    fn cell(&self, measure: &Measure) -> Cell {
        let Some(value) = self.value(measure) else { return Cell::unknown() };
        let text = match measure.unit {
            Unit::Bytes => bytes_per_second(value),
            Unit::Share => share(value),
            Unit::Events => per_second(value),
        };
        let level = if value >= measure.warning { Level::Warning } else { Level::Normal };
        Cell::number(value, &text).at(level)
    }

    fn value(&self, measure: &Measure) -> Option<f64> {
        let rate = measure.counters.iter().find_map(|counters| self.joined(*counters, measure.join))?;
        if !measure.of_line {
            return Some(rate);
        }
        self.gauge(&state::PORT_RATE).filter(|line| *line > 0.0).map(|line| rate / line)
    }

    fn joined(&self, (metric, direction): Counters, join: Join) -> Option<f64> {
        let name = metric.prometheus_name();
        let series = self.series.iter().filter(|(series, _)| series.name == name);
        let counted =
            series.filter(|(series, _)| direction.is_none_or(|direction| series.label("direction") == direction));
        let rates = counted.filter_map(|(_, rate)| *rate);
        rates.reduce(|a, b| match join {
            Join::Sum => a + b,
            Join::Max => a.max(b),
        })
    }
}
