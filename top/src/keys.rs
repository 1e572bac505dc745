//! Keys, and the lines that explain them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Ends the program.
    Quit,
    /// Leaves help, a row in full, or the filter.
    Back,
    /// Shows the selected row in full, or ends typing.
    Open,
    /// Shows the table of this number, from 0.
    Table(usize),
    /// Shows the next table.
    NextTable,
    /// Sorts by the column so many further.
    Sort(isize),
    /// Sorts the other way round.
    Reverse,
    /// Begins to type a filter.
    Filter,
    /// A letter of the filter.
    Type(char),
    /// Erases the last letter of the filter.
    Erase,
    /// Stops or resumes refreshing.
    Pause,
    /// Reads all now.
    Refresh,
    /// Shows or hides the help.
    Help,
    /// Moves so many rows.
    Move(isize),
    /// Moves so many screens.
    Page(isize),
}

/// Lines of the help.
pub const HELP: &[(&str, &str)] = &[
    ("1 to 9, Tab", "another table"),
    ("Up, Down, PgUp, PgDn, Home, End", "another row"),
    ("Enter", "the row in full; Esc leads back"),
    ("<  >", "sort by another column"),
    ("r", "sort the other way round"),
    ("/", "only rows that contain a text; Esc shows all"),
    ("p", "pause; p goes on"),
    ("Space", "refresh now"),
    ("q", "quit"),
];

/// The command of a key. `typing`: letters belong to the filter.
pub fn command(key: KeyEvent, typing: bool) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c')).then_some(Command::Quit);
    }
    let anywhere = match key.code {
        KeyCode::Esc => Some(Command::Back),
        KeyCode::Enter => Some(Command::Open),
        KeyCode::Up => Some(Command::Move(-1)),
        KeyCode::Down => Some(Command::Move(1)),
        KeyCode::PageUp => Some(Command::Page(-1)),
        KeyCode::PageDown => Some(Command::Page(1)),
        KeyCode::Home => Some(Command::Move(isize::MIN)),
        KeyCode::End => Some(Command::Move(isize::MAX)),
        KeyCode::Tab => Some(Command::NextTable),
        KeyCode::Backspace if typing => Some(Command::Erase),
        KeyCode::Char(letter) if typing => Some(Command::Type(letter)),
        _ => None,
    };
    anywhere.or_else(|| match key.code {
        KeyCode::Char('q') => Some(Command::Quit),
        KeyCode::Char('k') => Some(Command::Move(-1)),
        KeyCode::Char('j') => Some(Command::Move(1)),
        KeyCode::Char('<') | KeyCode::Left => Some(Command::Sort(-1)),
        KeyCode::Char('>') | KeyCode::Right => Some(Command::Sort(1)),
        KeyCode::Char('r') => Some(Command::Reverse),
        KeyCode::Char('/') => Some(Command::Filter),
        KeyCode::Char('p') => Some(Command::Pause),
        KeyCode::Char(' ') => Some(Command::Refresh),
        KeyCode::Char('?' | 'h') => Some(Command::Help),
        KeyCode::Char(digit @ '1'..='9') => Some(Command::Table(digit as usize - '1' as usize)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_belong_to_the_filter_while_it_is_typed() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert_eq!(command(key(KeyCode::Char('q')), false), Some(Command::Quit));
        assert_eq!(command(key(KeyCode::Char('q')), true), Some(Command::Type('q')));
        assert_eq!(command(key(KeyCode::Char('2')), false), Some(Command::Table(1)));
        assert_eq!(command(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), true), Some(Command::Quit));
        assert_eq!(command(key(KeyCode::Backspace), false), None);
    }
}
