//! The table of incidents.

use crate::incidents::{Incident, Listed, One, percent, place, short, state, took, what};
use fabriclens_top::{Cell, Column, Level, Row, Table};

/// The table of open incidents and of those that ended in the last 15 minutes; the latest comes first.
pub(super) fn table(listed: &Listed, now_ms: i64) -> Table {
    let columns = vec![
        Column::left("WHAT"),
        Column::left("WHERE"),
        Column::right("SURE"),
        Column::right("SINCE"),
        Column::left("VICTIMS"),
        Column::left("CAUSED BY"),
        Column::left("STATE"),
    ];
    let rows = listed.incidents.iter().map(|incident| row(incident, now_ms)).collect();
    Table {
        name: "Incidents",
        columns,
        rows,
        sort: 3,
        empty: "no incident is open, and none ended in the last 15 minutes",
    }
}

fn row(i: &Incident, now_ms: i64) -> Row {
    let level = match (i.end_ns, i.severity.as_str()) {
        (Some(_), _) => Level::Faint,
        (None, "critical") => Level::Critical,
        (None, _) => Level::Warning,
    };
    let cells = vec![
        Cell::text(what(i)).at(level),
        Cell::text(&place(&i.root)),
        Cell::number(i.confidence, &percent(i.confidence)),
        Cell::number(i.start_ns as f64, &took(i, now_ms)),
        Cell::text(&short(&i.victim_jobs)),
        Cell::text(&short(&i.culprit_jobs)),
        Cell::text(&state(i)),
    ];
    Row { id: i.id.clone(), cells }
}

/// An incident as `fabriclens incidents ID` prints it.
pub(super) fn in_full(one: &One, now_ms: i64, columns: usize) -> String {
    crate::incidents::in_full(&one.incident, now_ms, columns)
}
