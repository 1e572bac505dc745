//! The tables of jobs and of sources.

use super::reading::{Reading, Series};
use fabriclens_catalog::metrics::job;
use fabriclens_top::{Cell, Column, Level, Row, Table};
use std::collections::BTreeMap;

/// Jobs that have processes on this host.
pub fn jobs(reading: &Reading) -> Table {
    let (processes, pairs) = (job::JOB_PROCESSES.prometheus_name(), job::QUEUE_PAIR_INFO.prometheus_name());
    let mut jobs: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
    for series in reading.series.iter().filter(|series| series.name == processes || series.name == pairs) {
        let job = series.label("job");
        if !job.is_empty() {
            jobs.entry(job).or_default().push(series);
        }
    }
    let rows = jobs.into_iter().map(|(job, series)| {
        let of = |name: &str| series.iter().filter(|series| series.name == *name).count();
        let label =
            |name| series.iter().map(|series| series.label(name)).find(|label| !label.is_empty()).unwrap_or("-");
        let count: f64 = series.iter().filter(|series| series.name == processes).filter_map(|s| s.number()).sum();
        let pairs = of(&pairs);
        let cells = vec![
            Cell::text(job),
            Cell::text(label("scheduler")),
            Cell::text(label("user")),
            Cell::number(count, &format!("{count:.0}")),
            Cell::number(pairs as f64, &pairs.to_string()),
        ];
        Row { id: job.to_owned(), cells }
    });
    let columns = vec![
        Column::left("JOB"),
        Column::left("SCHEDULER"),
        Column::left("USER"),
        Column::right("PROCESSES"),
        Column::right("QUEUE PAIRS"),
    ];
    Table { name: "Jobs", rows: rows.collect(), columns, sort: 0, empty: "no job has processes on this host" }
}

/// Sources of counters that this host has; those with a problem first.
pub fn sources(reading: &Reading) -> Table {
    let present = reading.sources.iter().filter(|source| source.outcome != "absent");
    let rows = present.map(|source| {
        let is_well = source.outcome == "data";
        let level = if is_well { Level::Normal } else { Level::Critical };
        let number = |value: Option<f64>, text: &dyn Fn(f64) -> String| {
            value.map_or_else(Cell::unknown, |value| Cell::number(value, &text(value)))
        };
        let cells = vec![
            Cell::text(&source.sampler),
            Cell::text(&source.target),
            Cell::text(&source.outcome).at(level),
            number(source.counters.map(|count| count as f64), &|count| format!("{count:.0}")),
            number(source.read_seconds, &|seconds| format!("{:.2} ms", seconds * 1e3)),
            Cell::text(source.detail.as_deref().unwrap_or_default()),
        ];
        Row { id: format!("{} {}", source.sampler, source.target), cells }
    });
    let columns = vec![
        Column::left("SOURCE"),
        Column::left("OF"),
        Column { descending: true, ..Column::left("STATE") },
        Column::right("VALUES"),
        Column::right("READ IN"),
        Column::left("WHY"),
    ];
    Table { name: "Sources", rows: rows.collect(), columns, sort: 2, empty: "no source of counters is on this host" }
}
