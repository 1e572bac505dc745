//! Reads the lines of one log, in order.

use super::patterns::{PATTERNS, Pattern};
use super::{Event, EventKind};
use std::collections::VecDeque;

/// Longest line that is looked at, bytes.
const LINE: usize = 4096;
/// Longest field, bytes.
const FIELD: usize = 256;
/// Failed work requests that wait for their second line, and the lines that may stand between the two.
const WAITING: usize = 64;
const BETWEEN: u64 = 200;

/// Host, process and thread of a line: `ubuntu2:319733:319761`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Name of the host.
    pub host: String,
    /// Process, in its own PID namespace.
    pub pid: u32,
    /// Thread.
    pub thread: u32,
}

/// Reader of one log.
#[derive(Debug, Default)]
pub struct Reader {
    /// First lines of failed work requests, with their numbers.
    waiting: VecDeque<(u64, Event)>,
    number: u64,
}

impl Reader {
    /// Event of a line. A failed work request comes with its second line, or alone once the second one is missing.
    pub fn line(&mut self, line: &str) -> Option<Event> {
        self.number += 1;
        let event = self.event(line);
        let late = |(number, _): &(u64, Event)| self.number - number > BETWEEN;
        if event.is_none() && (self.waiting.len() > WAITING || self.waiting.front().is_some_and(late)) {
            return self.waiting.pop_front().map(|(_, event)| event);
        }
        event
    }

    /// Failed work requests whose second line did not come, at the end of a log.
    pub fn finish(self) -> impl Iterator<Item = Event> {
        self.waiting.into_iter().map(|(_, event)| event)
    }

    fn event(&mut self, line: &str) -> Option<Event> {
        let end = (0..=LINE.min(line.len())).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
        let line = &line[..end];
        let pattern = PATTERNS.iter().find(|pattern| after(line, pattern.has).is_some())?;
        let mut event = Event { kind: pattern.kind, origin: origin(line), fields: fields(line, pattern) };
        if event.kind != EventKind::FailedWorkRequest {
            return Some(event);
        }
        if event.field("local_qp").is_some() {
            self.waiting.push_back((self.number, event));
            return None;
        }
        // The newest of the same thread.
        let same = self.waiting.iter().rposition(|(_, first)| first.origin == event.origin);
        if let Some((_, first)) = same.and_then(|at| self.waiting.remove(at)) {
            event.fields.splice(..0, first.fields);
        }
        Some(event)
    }
}

/// Rest of the line after these texts, each after the one before.
fn after<'a>(line: &'a str, texts: &[&str]) -> Option<&'a str> {
    texts.iter().try_fold(line, |rest, text| rest.split_once(text).map(|(_, rest)| rest))
}

fn fields(line: &str, pattern: &Pattern) -> Vec<(&'static str, String)> {
    let field = |(name, before, ends): &(&'static str, &[&str], &str)| {
        let text = after(line, before)?.split(|c| ends.contains(c)).next().unwrap_or_default();
        let plain = !text.is_empty() && text.len() <= FIELD && !text.chars().any(char::is_control);
        plain.then(|| (*name, text.trim_end().to_owned()))
    };
    pattern.fields.iter().filter_map(field).collect()
}

/// Origin of a line; some programs put a time or a rank before it.
fn origin(line: &str) -> Option<Origin> {
    let before = line.split("NCCL ").next().unwrap_or(line);
    before.split_whitespace().take(6).find_map(|word| {
        let mut parts = word.rsplitn(3, ':');
        let (thread, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
        let plain = !host.is_empty()
            && host.len() <= 64
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        plain.then_some(())?;
        Some(Origin { host: host.to_owned(), pid: pid.parse().ok()?, thread: thread.parse().ok()? })
    })
}
