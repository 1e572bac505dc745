//! What the user looks at: the table, its order, a filter, the selected row, a row in full.

use crate::keys::Command;
use crate::source::Snapshot;
use crate::table::{Row, Table};

/// Column and direction by which a table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub column: usize,
    pub descending: bool,
}

/// A row in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Table of the row.
    pub table: usize,
    /// Identity of the row.
    pub id: String,
    /// Lines; `None` until they are read.
    pub lines: Option<Vec<String>>,
    /// First line that is shown.
    pub top: usize,
}

/// What the program must do after a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Draw.
    Draw,
    /// Read all tables now.
    Read,
    /// Read a row in full.
    Detail(usize, String),
    /// End.
    Quit,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub struct State {
    /// Newest tables.
    pub snapshot: Snapshot,
    /// Why the last reading failed.
    pub problem: Option<String>,
    /// The table that is shown.
    pub table: usize,
    /// Selected row among those that are shown.
    pub selected: usize,
    /// Text that rows must contain, in lower case.
    pub filter: String,
    /// Whether keys go to the filter.
    pub typing: bool,
    /// Whether new snapshots are ignored.
    pub paused: bool,
    /// Whether the keys are explained.
    pub help: bool,
    /// A row in full.
    pub detail: Option<Detail>,
    /// Order that the user chose, by table.
    orders: Vec<Option<Order>>,
}

impl State {
    /// Takes what was read. The selection stays with its row.
    pub fn take(&mut self, read: Result<Snapshot, String>) {
        let selected = self.selected_id();
        match read {
            Ok(snapshot) => {
                self.snapshot = snapshot;
                self.problem = None;
            }
            Err(problem) => self.problem = Some(problem),
        }
        self.orders.resize(self.snapshot.tables.len(), None);
        self.table = self.table.min(self.snapshot.tables.len().saturating_sub(1));
        let place = selected.and_then(|id| self.rows().iter().position(|row| row.id == id));
        self.select(place.unwrap_or(self.selected));
    }

    /// Takes a row in full, if the user still looks at it.
    pub fn take_detail(&mut self, table: usize, id: &str, read: Result<String, String>) {
        if let Some(detail) = self.detail.as_mut().filter(|detail| detail.table == table && detail.id == id) {
            let text = read.unwrap_or_else(|problem| problem);
            detail.lines = Some(text.lines().map(|line| fabriclens_base::terminal::line(line).into_owned()).collect());
        }
    }

    /// The table that is shown.
    pub fn shown(&self) -> Option<&Table> {
        self.snapshot.tables.get(self.table)
    }

    /// Order of the table that is shown.
    pub fn order(&self) -> Order {
        let chosen = self.orders.get(self.table).copied().flatten();
        chosen.unwrap_or_else(|| {
            let column = self.shown().map_or(0, |table| table.sort);
            Order { column, descending: self.is_descending(column) }
        })
    }

    /// Rows that contain the filter, in order.
    pub fn rows(&self) -> Vec<&Row> {
        let Some(table) = self.shown() else { return Vec::new() };
        let contains = |row: &&Row| {
            self.filter.is_empty() || row.cells.iter().any(|cell| cell.shown().to_lowercase().contains(&self.filter))
        };
        let mut rows: Vec<&Row> = table.rows.iter().filter(contains).collect();
        let Order { column, descending } = self.order();
        rows.sort_by(|a, b| {
            let by = |row: &Row| row.cells.get(column).cloned().unwrap_or_default();
            let order = by(a).compare(&by(b));
            if descending { order.reverse() } else { order }
        });
        rows
    }

    /// Does what a key says. `page`: rows of a screen.
    pub fn apply(&mut self, command: Command, page: usize) -> Then {
        match command {
            Command::Quit => return Then::Quit,
            Command::Refresh => return Then::Read,
            Command::Pause => self.paused = !self.paused,
            Command::Help => self.help = !self.help,
            Command::Back => self.back(),
            Command::Filter => self.typing = true,
            Command::Type(letter) => self.filter.extend(letter.to_lowercase()),
            Command::Erase => _ = self.filter.pop(),
            Command::Open if self.typing => self.typing = false,
            Command::Open => return self.open(),
            Command::Table(number) => self.show(number),
            Command::NextTable => self.show((self.table + 1) % self.snapshot.tables.len().max(1)),
            Command::Sort(step) => self.sort(step),
            Command::Reverse => {
                let Order { column, descending } = self.order();
                self.set_order(Order { column, descending: !descending });
            }
            Command::Move(rows) => self.go(rows),
            Command::Page(pages) => self.go(pages.saturating_mul(isize::try_from(page).unwrap_or(1))),
        }
        self.select(self.selected);
        Then::Draw
    }

    fn back(&mut self) {
        if self.help {
            self.help = false;
        } else if self.detail.take().is_none() {
            self.typing = false;
            self.filter.clear();
        }
    }

    fn open(&mut self) -> Then {
        let (Some(id), None) = (self.selected_id(), &self.detail) else { return Then::Draw };
        self.detail = Some(Detail { table: self.table, id: id.clone(), lines: None, top: 0 });
        Then::Detail(self.table, id)
    }

    fn show(&mut self, table: usize) {
        if table < self.snapshot.tables.len() {
            (self.table, self.selected, self.detail) = (table, 0, None);
        }
    }

    /// Moves in the rows, or in the row that is shown in full.
    fn go(&mut self, rows: isize) {
        match &mut self.detail {
            Some(detail) => {
                let last = detail.lines.as_ref().map_or(0, Vec::len).saturating_sub(1);
                detail.top = detail.top.saturating_add_signed(rows).min(last);
            }
            None => self.select(self.selected.saturating_add_signed(rows)),
        }
    }

    fn sort(&mut self, step: isize) {
        let columns = self.shown().map_or(1, |table| table.columns.len().max(1));
        let column = self.order().column.saturating_add_signed(step.rem_euclid(columns.cast_signed())) % columns;
        self.set_order(Order { column, descending: self.is_descending(column) });
    }

    fn is_descending(&self, column: usize) -> bool {
        self.shown().and_then(|table| table.columns.get(column)).is_some_and(|column| column.descending)
    }

    fn set_order(&mut self, order: Order) {
        if let Some(place) = self.orders.get_mut(self.table) {
            *place = Some(order);
        }
    }

    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows().len().saturating_sub(1));
    }

    fn selected_id(&self) -> Option<String> {
        self.rows().get(self.selected).map(|row| row.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column};

    fn snapshot(rows: &[(&str, f64)]) -> Snapshot {
        let row = |(name, value): &(&str, f64)| Row {
            id: (*name).to_owned(),
            cells: vec![Cell::text(name), Cell::number(*value, &value.to_string())],
        };
        let columns = vec![Column::left("PORT"), Column::right("SENT")];
        let table =
            |name| Table { name, columns: columns.clone(), rows: rows.iter().map(row).collect(), sort: 1, empty: "" };
        Snapshot { summary: String::new(), tables: vec![table("A"), table("B")] }
    }

    fn ids(state: &State) -> Vec<&str> {
        state.rows().iter().map(|row| row.id.as_str()).collect()
    }

    fn state() -> State {
        let mut state = State::default();
        state.take(Ok(snapshot(&[("a", 1.0), ("b", 3.0), ("c", 2.0)])));
        state
    }

    #[test]
    fn rows_are_sorted_by_the_chosen_column_of_each_table() {
        let mut state = state();
        assert_eq!(ids(&state), ["b", "c", "a"]);
        state.apply(Command::Reverse, 10);
        assert_eq!(ids(&state), ["a", "c", "b"]);
        state.apply(Command::Sort(1), 10);
        assert_eq!(ids(&state), ["a", "b", "c"]);
        state.apply(Command::Sort(-1), 10);
        assert_eq!(ids(&state), ["b", "c", "a"]);
        state.apply(Command::Sort(1), 10);
        state.apply(Command::NextTable, 10);
        assert_eq!(ids(&state), ["b", "c", "a"]);
        state.apply(Command::Table(0), 10);
        assert_eq!(ids(&state), ["a", "b", "c"]);
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut state = state();
        state.apply(Command::Move(1), 10);
        assert_eq!(state.selected_id().as_deref(), Some("c"));
        state.take(Ok(snapshot(&[("a", 9.0), ("b", 8.0), ("c", 1.0)])));
        assert_eq!((state.selected_id().as_deref(), state.selected), (Some("c"), 2));
        state.take(Ok(snapshot(&[("a", 9.0)])));
        assert_eq!(state.selected_id().as_deref(), Some("a"));
        state.apply(Command::Page(-1), 10);
        state.apply(Command::Move(isize::MAX), 10);
        assert_eq!(state.selected, 0);
    }

    #[test]
    fn a_filter_hides_rows_until_it_is_cleared() {
        let mut state = state();
        state.apply(Command::Filter, 10);
        state.apply(Command::Type('B'), 10);
        assert_eq!((ids(&state), state.typing), (vec!["b"], true));
        assert_eq!(state.apply(Command::Open, 10), Then::Draw);
        assert!(!state.typing && state.detail.is_none());
        state.apply(Command::Back, 10);
        assert_eq!(ids(&state).len(), 3);
    }

    #[test]
    fn a_failed_reading_keeps_what_was_shown() {
        let mut state = state();
        state.take(Err("no answer".to_owned()));
        assert_eq!((ids(&state).len(), state.problem.as_deref()), (3, Some("no answer")));
        state.take(Ok(snapshot(&[])));
        assert_eq!((ids(&state).len(), state.problem.as_deref()), (0, None));
    }

    #[test]
    fn a_row_is_shown_in_full_until_the_user_goes_back() {
        let mut state = state();
        assert_eq!(state.apply(Command::Open, 10), Then::Detail(0, "b".to_owned()));
        assert_eq!(state.apply(Command::Open, 10), Then::Draw);
        state.take_detail(0, "c", Ok("another row".to_owned()));
        assert_eq!(state.detail.as_ref().unwrap().lines, None);
        state.take_detail(0, "b", Ok("one\ntwo\u{1b}[2J".to_owned()));
        state.apply(Command::Move(5), 10);
        let detail = state.detail.as_ref().unwrap();
        assert_eq!((detail.lines.as_ref().unwrap()[1].as_str(), detail.top), ("two\u{fffd}[2J", 1));
        state.apply(Command::Back, 10);
        assert!(state.detail.is_none());
        // What arrives late is not shown.
        state.take_detail(0, "b", Ok("late".to_owned()));
        assert!(state.detail.is_none());
    }
}
