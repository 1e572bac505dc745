//! The loop between keys, readings and the screen.

use crate::draw::{Look, draw, page};
use crate::keys::command;
use crate::reader::{Reader, Reply, Request};
use crate::source::Source;
use crate::state::{State, Then};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::time::Duration;

/// How soon a reading is shown.
const LATENCY: Duration = Duration::from_millis(100);

/// Shows tables until the user quits. The terminal is as before afterwards, also after a panic.
///
/// # Errors
/// When standard output is no terminal, or the terminal fails.
pub fn run(title: &str, source: impl Source + 'static, interval: Duration) -> io::Result<()> {
    let reader = Reader::start(source, interval);
    let look = Look { colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &reader, title, look);
    ratatui::restore();
    ended
}

fn show(terminal: &mut DefaultTerminal, reader: &Reader, title: &str, look: Look) -> io::Result<()> {
    let mut state = State::default();
    state.snapshot.summary = "reading ...".to_owned();
    loop {
        terminal.draw(|frame| draw(frame, &state, title, look))?;
        if event::poll(LATENCY)? {
            let Event::Key(key) = event::read()? else { continue };
            let pressed = key.kind != KeyEventKind::Release;
            let Some(command) = pressed.then(|| command(key, state.typing)).flatten() else { continue };
            // A request that does not fit is dropped: many wait already.
            _ = match state.apply(command, page(terminal.size()?.height)) {
                Then::Quit => return Ok(()),
                Then::Draw => Ok(()),
                Then::Read => reader.requests.try_send(Request::Read),
                Then::Detail(table, id) => reader.requests.try_send(Request::Detail(table, id)),
            };
        }
        for reply in reader.replies.try_iter() {
            match reply {
                Reply::Read(_) if state.paused => {}
                Reply::Read(read) => state.take(read),
                Reply::Detail(table, id, read) => state.take_detail(table, &id, read),
            }
        }
    }
}
