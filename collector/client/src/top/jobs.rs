//! The table of running jobs.

use super::overview::Overview;
use crate::jobs::{Answer, Job, title};
use fabriclens_base::duration;
use fabriclens_top::unit::share;
use fabriclens_top::{Cell, Column, Level, Row, Table};
use std::time::Duration;

/// Running jobs; victims of open incidents first.
pub(super) fn table(page: &Answer, overview: &Overview, now_ms: i64) -> Table {
    let columns = vec![
        Column::left("JOB"),
        Column::right("LOSES"),
        Column::right("HOSTS"),
        Column::right("RUNS FOR"),
        Column::left("USER"),
        Column::left("NAME"),
    ];
    // Of many jobs only the first page is read: the latest ones.
    let name = if page.next.is_some() { "Jobs (latest)" } else { "Jobs" };
    let rows = page.data.iter().map(|job| row(job, overview, now_ms)).collect();
    Table {
        name,
        columns,
        rows,
        sort: 1,
        empty: "no job runs; jobs are told by agents, schedulers and POST /api/v1/jobs",
    }
}

fn row(job: &Job, overview: &Overview, now_ms: i64) -> Row {
    let mut suffering = overview.measured.suffering.iter();
    let loses = match suffering.find(|one| one.cluster == job.cluster && one.id == job.id) {
        None => Cell::text(""),
        Some(one) => match one.lost() {
            Some(lost) => Cell::number(lost, &share(lost)).at(Level::Critical),
            None => Cell::number(0.0, "?").at(Level::Critical),
        },
    };
    let seconds = (now_ms - job.start_ns / 1_000_000).max(0).unsigned_abs() / 1000;
    let cells = vec![
        Cell::text(&title(job)),
        loses,
        Cell::number(job.hosts.len() as f64, &job.hosts.len().to_string()),
        Cell::number(seconds as f64, &duration::format(Duration::from_secs(seconds))),
        Cell::text(&job.user),
        Cell::text(&job.name),
    ];
    Row { id: format!("{}\n{}", job.cluster, job.id), cells }
}

/// Cluster and ID of a row.
pub(super) fn parse_id(id: &str) -> (&str, &str) {
    id.split_once('\n').unwrap_or(("", id))
}
