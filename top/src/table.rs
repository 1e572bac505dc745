//! Tables: columns, rows and cells.

use fabriclens_base::terminal;
use std::cmp::Ordering;

/// A table. Columns stand in the order of their weight: in a narrow terminal the last ones are left out.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name, as its tab shows it.
    pub name: &'static str,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, in any order; each has a cell for each column.
    pub rows: Vec<Row>,
    /// Column by which rows are sorted until the user chooses another one.
    pub sort: usize,
    /// What is shown if there are no rows.
    pub empty: &'static str,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Title, upper case.
    pub title: &'static str,
    /// Whether its cells are aligned at the right.
    pub right: bool,
    /// Whether the highest value comes first.
    pub descending: bool,
}

impl Column {
    /// A column of text, sorted from A to Z.
    #[must_use]
    pub const fn left(title: &'static str) -> Self {
        Self { title, right: false, descending: false }
    }

    /// A column of numbers, the highest first.
    #[must_use]
    pub const fn right(title: &'static str) -> Self {
        Self { title, right: true, descending: true }
    }
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identity: the same in later snapshots, so that it stays selected.
    pub id: String,
    /// Cells.
    pub cells: Vec<Cell>,
}

/// How much a cell matters; a terminal with colors shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// As others.
    #[default]
    Normal,
    /// Of little interest.
    Faint,
    /// Worth a look.
    Warning,
    /// A fault.
    Critical,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Text of one line, without characters that act on a terminal.
    text: String,
    /// By which its column is sorted; text if there is none.
    value: Option<f64>,
    /// How much it matters.
    level: Level,
}

impl Cell {
    /// A cell of text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: terminal::line(text).into_owned(), ..Self::default() }
    }

    /// A cell that is sorted by a number.
    #[must_use]
    pub fn number(value: f64, text: &str) -> Self {
        Self { value: Some(value), ..Self::text(text) }
    }

    /// A cell whose value is not known; it comes last.
    #[must_use]
    pub fn unknown() -> Self {
        Self::text("-").at(Level::Faint)
    }

    /// A curve of values from 0 to `most`, the newest at the right.
    #[must_use]
    pub fn curve(values: &[f64], most: f64) -> Self {
        const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let bar = |value: &f64| {
            let part = (value / most).clamp(0.0, 1.0);
            // What is above zero is seen.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
            let height = (part * 8.0).ceil() as usize;
            BARS[height.min(8)]
        };
        Self { text: values.iter().map(bar).collect(), value: values.last().copied(), level: Level::Normal }
    }

    /// The cell with a level.
    #[must_use]
    pub fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }

    pub(crate) fn shown(&self) -> &str {
        &self.text
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Order within a column. Cells without a number come before those with one, so that they are last if the highest is first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (self.value, other.value) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => self.text.cmp(&other.text),
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_come_last_where_the_highest_is_first() {
        let mut cells = [Cell::unknown(), Cell::number(1.0, "1"), Cell::number(10.0, "10")];
        cells.sort_by(|a, b| b.compare(a));
        assert_eq!(cells.map(|cell| cell.text), ["10", "1", "-"]);
    }

    #[test]
    fn curves_show_what_is_above_zero() {
        assert_eq!(Cell::curve(&[0.0, 0.01, 50.0, 100.0, 200.0, f64::NAN], 100.0).shown(), " ▁▄██ ");
    }

    #[test]
    fn foreign_text_cannot_act_on_the_terminal() {
        assert_eq!(Cell::text("a\u{1b}[2Jb\nc").shown(), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
