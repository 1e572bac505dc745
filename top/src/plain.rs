//! A snapshot as text, for pipes and for `--once`.

use crate::source::Snapshot;
use crate::state::State;
use crate::table::Table;

/// Space between columns.
pub const GAP: &str = "  ";

/// Widths of a table's columns: of the widest cell each.
pub fn widths(table: &Table) -> Vec<usize> {
    let width = |(place, column): (usize, &crate::table::Column)| {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(place)).map(crate::table::Cell::width);
        cells.max().unwrap_or(0).max(column.title.chars().count())
    };
    table.columns.iter().enumerate().map(width).collect()
}

/// A cell's text, filled up to a width.
pub fn fill(text: &str, width: usize, right: bool) -> String {
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// All tables of a snapshot, whole and without colors.
#[must_use]
pub fn print(snapshot: &Snapshot) -> String {
    let mut state = State::default();
    state.take(Ok(snapshot.clone()));
    let mut out = format!("{}\n", fabriclens_base::terminal::line(&snapshot.summary));
    for (number, table) in snapshot.tables.iter().enumerate() {
        state.table = number;
        out += &format!("\n{}\n", table.name);
        if table.rows.is_empty() {
            out += &format!("{}\n", table.empty);
            continue;
        }
        let widths = widths(table);
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&table.columns).zip(&widths);
            let filled: Vec<String> = cells.map(|((text, column), width)| fill(text, *width, column.right)).collect();
            format!("{}\n", filled.join(GAP).trim_end())
        };
        out += &line(&mut table.columns.iter().map(|column| column.title));
        for row in state.rows() {
            out += &line(&mut row.cells.iter().map(|cell| cell.shown()));
        }
    }
    out
}
