//! Draws the screen.

use crate::keys::HELP;
use crate::plain::{GAP, fill, widths};
use crate::state::{Detail, Order, State};
use crate::table::{Level, Row, Table};
use fabriclens_base::terminal;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// How things look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether the terminal may show colors (`NO_COLOR` is not set).
    pub colors: bool,
}

impl Look {
    fn of(self, level: Level) -> Style {
        let color = match level {
            Level::Normal => return Style::new(),
            Level::Faint => return Style::new().add_modifier(Modifier::DIM),
            Level::Warning => Color::Yellow,
            Level::Critical => Color::Red,
        };
        if self.colors { Style::new().fg(color) } else { Style::new().add_modifier(Modifier::BOLD) }
    }
}

/// Rows of a table that a screen of this height shows.
pub fn page(height: u16) -> usize {
    usize::from(height).saturating_sub(5).max(1)
}

/// Draws all.
pub fn draw(frame: &mut Frame<'_>, state: &State, title: &str, look: Look) {
    let [head, tabs, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(state, title, look)), head);
    frame.render_widget(Paragraph::new(tab_line(state)), tabs);
    match (state.help, &state.detail, state.shown()) {
        (true, ..) => help(frame, body),
        (_, Some(detail), _) => in_full(frame, body, detail),
        (_, _, Some(table)) => rows(frame, body, state, table, look),
        _ => {}
    }
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
}

fn head_lines(state: &State, title: &str, look: Look) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut first = vec![Span::styled(terminal::line(title).into_owned(), bold)];
    if state.paused {
        first.push(Span::styled("  paused", look.of(Level::Warning)));
    }
    let second = match &state.problem {
        Some(problem) => Span::styled(terminal::line(problem).into_owned(), look.of(Level::Critical)),
        None => Span::raw(terminal::line(&state.snapshot.summary).into_owned()),
    };
    vec![Line::from(first), Line::from(second)]
}

fn tab_line(state: &State) -> Line<'static> {
    let tab = |(place, table): (usize, &Table)| {
        let text = format!(" {} {} {} ", place + 1, table.name, table.rows.len());
        let is_shown = place == state.table;
        Span::styled(text, if is_shown { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() })
    };
    Line::from(state.snapshot.tables.iter().enumerate().map(tab).collect::<Vec<_>>())
}

fn foot_line(state: &State) -> Line<'static> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    if state.typing || !state.filter.is_empty() {
        let cursor = if state.typing { "_" } else { "  (Esc shows all)" };
        return Line::from(format!("/{}{cursor}", terminal::line(&state.filter)));
    }
    let keys = if state.detail.is_some() || state.help {
        "Esc back  q quit"
    } else {
        "Enter in full  < > sort  r reverse  / filter  p pause  ? help  q quit"
    };
    Line::styled(keys, dim)
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = HELP.iter().map(|line| line.0.len()).max().unwrap_or(0);
    let lines = HELP.iter().map(|(keys, what)| Line::from(format!("{keys:<width$}  {what}")));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn in_full(frame: &mut Frame<'_>, area: Rect, detail: &Detail) {
    let lines = match &detail.lines {
        None => vec![Line::from("reading ...")],
        Some(lines) => lines.iter().skip(detail.top).map(|line| Line::from(line.clone())).collect(),
    };
    frame.render_widget(Paragraph::new(lines).wrap(ratatui::widgets::Wrap { trim: false }), area);
}

fn rows(frame: &mut Frame<'_>, area: Rect, state: &State, table: &Table, look: Look) {
    let shown = state.rows();
    if shown.is_empty() {
        let text = if state.filter.is_empty() { table.empty } else { "no row contains the text" };
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let (all, order) = (widths(table), state.order());
    let widths = fitting(&all, usize::from(area.width));
    let height = usize::from(area.height).saturating_sub(1).max(1);
    let top = (state.selected + 1).saturating_sub(height);
    let mut lines = vec![head(table, widths, order)];
    for (place, row) in shown.iter().enumerate().skip(top).take(height) {
        let line = cells(row, table, widths, look);
        lines.push(if place == state.selected { line.patch_style(Modifier::REVERSED) } else { line });
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Widths of the columns that fit; at least one.
fn fitting(widths: &[usize], width: usize) -> &[usize] {
    let mut used = 0;
    let fits = |column: &&usize| {
        used += **column + GAP.len();
        used <= width + GAP.len()
    };
    let count = widths.iter().take_while(fits).count();
    &widths[..count.max(1).min(widths.len())]
}

fn head(table: &Table, widths: &[usize], order: Order) -> Line<'static> {
    let titles = table.columns.iter().zip(widths).enumerate().map(|(place, (column, width))| {
        let style = Style::new().add_modifier(Modifier::BOLD);
        let style = if place == order.column { style.add_modifier(Modifier::UNDERLINED) } else { style };
        [Span::styled(fill(column.title, *width, column.right), style), Span::raw(GAP)]
    });
    Line::from(titles.flatten().collect::<Vec<_>>())
}

fn cells(row: &Row, table: &Table, widths: &[usize], look: Look) -> Line<'static> {
    let spans = row.cells.iter().zip(&table.columns).zip(widths).map(|((cell, column), width)| {
        [Span::styled(fill(cell.shown(), *width, column.right), look.of(cell.level())), Span::raw(GAP)]
    });
    Line::from(spans.flatten().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Command;
    use crate::source::Snapshot;
    use crate::table::{Cell, Column};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn state(count: usize) -> State {
        let row = |number: usize| Row {
            id: number.to_string(),
            cells: vec![
                Cell::text(&format!("port{number}")),
                Cell::number(number as f64, &number.to_string()).at(Level::Critical),
                Cell::text(&"wide ".repeat(20)),
            ],
        };
        let columns = vec![Column::left("PORT"), Column::right("SENT"), Column::left("REMARK")];
        let table = Table { name: "Ports", columns, rows: (0..count).map(row).collect(), sort: 1, empty: "no ports" };
        let mut state = State::default();
        state.take(Ok(Snapshot { summary: "all is well".to_owned(), tables: vec![table] }));
        state
    }

    /// The screen as lines.
    fn screen(state: &State) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(72, 10)).unwrap();
        terminal.draw(|frame| draw(frame, state, "fabriclens top", Look { colors: true })).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..72).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..10).map(line).collect()
    }

    #[test]
    fn a_narrow_screen_leaves_out_the_last_columns() {
        let lines = screen(&state(2));
        assert_eq!(
            lines,
            [
                "fabriclens top",
                "all is well",
                " 1 Ports 2",
                "PORT   SENT",
                "port1     1",
                "port0     0",
                "",
                "",
                "",
                "Enter in full  < > sort  r reverse  / filter  p pause  ? help  q quit"
            ]
        );
    }

    #[test]
    fn the_selected_row_is_always_on_the_screen() {
        let mut state = state(100);
        state.apply(Command::Move(50), page(10));
        let lines = screen(&state);
        assert_eq!((lines[4].as_str(), lines[8].as_str()), ("port53    53", "port49    49"));
        state.apply(Command::Page(1), page(10));
        assert_eq!(screen(&state)[8], "port44    44");
    }

    #[test]
    fn problems_pauses_filters_and_empty_tables_are_told() {
        let mut state = state(0);
        assert_eq!(screen(&state)[3], "no ports");
        state.take(Err("no answer".to_owned()));
        state.apply(Command::Pause, 5);
        state.apply(Command::Filter, 5);
        state.apply(Command::Type('x'), 5);
        let lines = screen(&state);
        assert_eq!(
            [&*lines[0], &*lines[1], &*lines[3], &*lines[9]],
            ["fabriclens top  paused", "no answer", "no row contains the text", "/x_"]
        );
    }

    #[test]
    fn help_and_rows_in_full_cover_the_table() {
        let mut state = state(1);
        state.apply(Command::Help, 5);
        assert!(screen(&state)[3].starts_with("1 to 9, Tab"));
        state.apply(Command::Back, 5);
        state.apply(Command::Open, 5);
        assert_eq!(screen(&state)[3], "reading ...");
        state.take_detail(0, "0", Ok("first\nsecond".to_owned()));
        assert_eq!(screen(&state)[3..5], ["first", "second"]);
    }
}
