//! What became of a request: counts and reasons for the sender, and the errors that mean "nothing was taken".

use std::time::Duration;

use fabriclens_store::{AppendError, Appended};
use fabriclens_wire::decode::{DecodeError, Rejected};

use super::gate::{Away, Reason};
use fabriclens_core::endpoint::jitter;
use fabriclens_forward::SinkError;
use fabriclens_server::body::BODY_TIME;
use fabriclens_server::body::BodyError;

/// How soon those may come back who meet a disk that takes nothing; half as long again for some.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// Reasons told in one answer; more are summed up.
const TOLD: usize = 8;

/// Reasons counted apart; a hostile request gets no more.
const LINES: usize = 100;

/// Points taken and not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Samples durable now, duplicates of known ones included.
    pub accepted: u64,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    reason: &'static str,
    points: u64,
    text: String,
}

impl Report {
    /// Counts points not taken: a word for the metric's label, and a sentence for the sender.
    pub fn reject(&mut self, reason: &'static str, points: u64, text: impl Into<String>) {
        if points == 0 {
            return;
        }
        let text = text.into();
        match self.lines.iter().position(|l| l.text == text) {
            Some(at) => self.lines[at].points += points,
            None if self.lines.len() < LINES => self.lines.push(Line { reason, points, text }),
            None => self.lines[LINES - 1].points += points,
        }
    }

    /// From what the decoder could not use.
    pub(super) fn from_rejected(rejected: &[Rejected]) -> Self {
        let mut report = Self::default();
        for r in rejected {
            report.reject("unusable", r.points as u64, format!("{}: {}", r.metric, r.reason));
        }
        report
    }

    /// Adds what the store did; `refusal` is asked why where it took no further series.
    pub(super) fn add(&mut self, a: &Appended, refusal: impl FnOnce() -> Option<String>) {
        self.accepted += a.accepted + a.duplicates;
        self.reject("too_old", a.too_old, "older than retention; raise retention.age (--retention) to keep them");
        self.reject(
            "future",
            a.too_far_in_future,
            "time stamps lie further in the future than ingest.future allows; set the sender's clock (NTP)",
        );
        self.reject(
            "conflict",
            a.conflicts,
            "the same series has another value at the same time, the first one stays; \
             give each sender its own host name or labels",
        );
        if a.over_series_limit > 0 {
            let limit = refusal().unwrap_or_else(|| "the store has reached its series limit".into());
            let text = format!("{limit}; remove labels that take many values, or raise the limit");
            self.reject("series_limit", a.over_series_limit, text);
        }
    }

    /// Adds another report of the same request.
    pub(super) fn join(&mut self, other: Self) {
        self.accepted += other.accepted;
        other.lines.into_iter().for_each(|l| self.reject(l.reason, l.points, l.text));
    }

    /// Points not taken.
    pub fn rejected(&self) -> u64 {
        self.lines.iter().map(|l| l.points).sum()
    }

    /// Reason and points, for metrics.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.lines.iter().map(|l| (l.reason, l.points))
    }

    /// For the sender: what was not taken and what helps. Empty when all was taken.
    pub fn message(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let mut out = format!("{} points not taken, all others are stored: ", self.rejected());
        for (i, line) in self.lines.iter().take(TOLD).enumerate() {
            out.push_str(&format!("{}{} ({})", if i > 0 { "; " } else { "" }, line.text, line.points));
        }
        if self.lines.len() > TOLD {
            out.push_str(&format!("; and {} more reasons", self.lines.len() - TOLD));
        }
        out
    }
}

/// Nothing of the request was acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The bytes are no such request; sending them again cannot help.
    #[error("{0}")]
    Malformed(String),
    /// Too many bytes, or compressed in a way that cannot be undone.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store cannot write now; send it again.
    #[error("{0}; send it again")]
    Unavailable(String),
    /// Not all can be taken now.
    #[error("{}; send it again in {:.1} s", said(.away.reason, *.in_flight), .away.after.as_secs_f64())]
    Away {
        /// Why, and when to come back.
        away: Away,
        /// Requests that are handled at a time.
        in_flight: usize,
    },
    /// The sender takes too long.
    #[error("the request was not complete within {} s; send it again", BODY_TIME.as_secs())]
    Slow,
    /// A bug.
    #[error("internal error: {0}; please report it")]
    Internal(String),
}

impl IngestError {
    pub(super) fn from_sink(e: SinkError) -> Self {
        match e {
            SinkError::Store(AppendError::Shape { .. }) => Self::Internal(e.to_string()),
            e => Self::Unavailable(e.to_string()),
        }
    }

    /// When to come back, if that was said.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Away { away, .. } => Some(away.after),
            Self::Unavailable(_) | Self::Slow => Some(UNAVAILABLE + jitter(UNAVAILABLE)),
            Self::Malformed(_) | Self::Body(_) | Self::Internal(_) => None,
        }
    }

    /// Word for the `result` label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Body(e) => e.reason(),
            Self::Unavailable(_) => "unavailable",
            Self::Away { away, .. } => away.reason.name(),
            Self::Slow => "slow",
            Self::Internal(_) => "internal",
        }
    }
}

fn said(reason: Reason, in_flight: usize) -> String {
    match reason {
        Reason::Turns => format!("{in_flight} requests are being handled already (ingest.in_flight)"),
        Reason::Room => "the requests that wait take all the memory that they may".to_owned(),
        Reason::Memory => "the collector has nearly the memory that it may have (limits.memory)".to_owned(),
        Reason::Senders => "there is no memory for more hosts than are served (limits.memory)".to_owned(),
        Reason::Stopping => "the collector stops, and the next one is about to start".to_owned(),
    }
}

impl From<DecodeError> for IngestError {
    fn from(e: DecodeError) -> Self {
        Self::Malformed(e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_learns_counts_reasons_and_remedies() {
        let mut r = Report::default();
        assert_eq!(r.message(), "");
        r.add(&Appended { accepted: 3, duplicates: 1, too_far_in_future: 2, ..Appended::default() }, || None);
        r.add(&Appended { too_far_in_future: 1, ..Appended::default() }, || None);
        assert_eq!((r.accepted, r.rejected()), (4, 3));
        assert_eq!(r.reasons().collect::<Vec<_>>(), [("future", 3)]);
        let m = r.message();
        assert!(m.starts_with("3 points not taken, all others are stored: ") && m.ends_with("clock (NTP) (3)"), "{m}");
        for i in 0..500 {
            r.reject("unusable", 1, format!("m{i}"));
        }
        assert_eq!(r.rejected(), 503);
        assert!(r.message().ends_with("and 92 more reasons") && r.message().len() < 2000);
    }
}
