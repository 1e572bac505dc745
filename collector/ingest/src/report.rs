//! Outcome of a request: accepted and rejected points with reasons, and the errors by which nothing was accepted.

use std::time::Duration;

use fabriclens_store::{AppendError, Appended, Refused};
use fabriclens_wire::decode::{DecodeError, Rejected};

use super::gate::{Reason, Rejection};
use fabriclens_core::endpoint::jitter;
use fabriclens_forward::SinkError;
use fabriclens_server::body::BODY_TIME;
use fabriclens_server::body::BodyError;

/// Retry delay while the disk accepts no writes; up to half as long again for some.
const UNAVAILABLE: Duration = Duration::from_secs(3);

/// Most reasons listed in one answer; further ones are summed up.
const LISTED: usize = 8;

/// Most reasons counted separately, which bounds hostile requests.
const LINES: usize = 100;

/// Accepted and rejected points of a request.
///
/// ```
/// let mut report = fabriclens_ingest::Report::default();
/// report.reject("unusable", 3, "a point has no time");
/// assert_eq!(report.rejected(), 3);
/// assert!(report.message().starts_with("3 points rejected, all others are stored: a point has no time"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Samples that are durable, duplicates of known ones included.
    pub accepted: u64,
    /// Of those, native histograms.
    pub histograms: u64,
    lines: Vec<RejectedPoints>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RejectedPoints {
    reason: &'static str,
    points: u64,
    text: String,
}

impl Report {
    /// Counts rejected points: a value for the metric's `reason` label, and a sentence for the sender.
    pub fn reject(&mut self, reason: &'static str, points: u64, text: impl Into<String>) {
        if points == 0 {
            return;
        }
        let text = text.into();
        match self.lines.iter().position(|l| l.text == text) {
            Some(at) => self.lines[at].points += points,
            None if self.lines.len() < LINES => self.lines.push(RejectedPoints { reason, points, text }),
            None => self.lines[LINES - 1].points += points,
        }
    }

    /// Counts points that the decoder could not use.
    pub(super) fn from_rejected(rejected: &[Rejected]) -> Self {
        let mut report = Self::default();
        for r in rejected {
            report.reject("unusable", r.points as u64, format!("{}: {}", r.metric, r.reason));
        }
        report
    }

    /// Adds the result of the store; `refusal` returns the reason if it accepted no more series.
    pub(super) fn add(&mut self, a: &Appended, refusal: impl Fn() -> Option<String>) {
        self.accepted += a.accepted + a.duplicates;
        self.histograms += a.histograms;
        for (reason, samples) in a.refused().into_iter().filter(|(_, samples)| *samples > 0) {
            let text = match reason {
                Refused::TooOld => "older than retention; raise retention.age (--retention) to keep them".to_owned(),
                Refused::OutOfOrder => {
                    "samples of one series arrive in random order; send them in order of time".to_owned()
                }
                Refused::Future => {
                    "timestamps lie further in the future than ingest.future allows; set the sender's clock (NTP)"
                        .to_owned()
                }
                Refused::Conflict => "the same series has another value at the same time, and the first is kept; \
                                      give each sender its own host name or labels"
                    .to_owned(),
                Refused::SeriesLimit => {
                    let limit = refusal().unwrap_or_else(|| "the store has reached its series limit".into());
                    format!("{limit}; remove labels with many values, or raise the limit")
                }
            };
            self.reject(reason.name(), samples, text);
        }
    }

    /// Merges another report of the same request.
    pub(super) fn join(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.histograms += other.histograms;
        other.lines.into_iter().for_each(|l| self.reject(l.reason, l.points, l.text));
    }

    /// Number of rejected points.
    pub fn rejected(&self) -> u64 {
        self.lines.iter().map(|l| l.points).sum()
    }

    /// Rejected points by reason, for metrics.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.lines.iter().map(|l| (l.reason, l.points))
    }

    /// Message for the sender: rejected points with remedies; empty if all were accepted.
    pub fn message(&self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let mut out = format!("{} points rejected, all others are stored: ", self.rejected());
        for (i, line) in self.lines.iter().take(LISTED).enumerate() {
            out.push_str(&format!("{}{} ({})", if i > 0 { "; " } else { "" }, line.text, line.points));
        }
        if self.lines.len() > LISTED {
            out.push_str(&format!("; and {} more reasons", self.lines.len() - LISTED));
        }
        out
    }
}

/// Nothing of the request was acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Malformed request; a retry cannot help.
    #[error("{0}")]
    Malformed(String),
    /// Too large, or not decompressible.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store cannot write now; the sender should retry.
    #[error("{0}; retry")]
    Unavailable(String),
    /// Overload; the sender should retry later.
    #[error("{}; retry in {:.1} s", describe(.rejection.reason, *.in_flight), .rejection.after.as_secs_f64())]
    Rejected {
        /// Reason and retry delay.
        rejection: Rejection,
        /// Requests that are handled at a time.
        in_flight: usize,
    },
    /// The sender is too slow.
    #[error("the request was not complete within {} s; retry", BODY_TIME.as_secs())]
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

    /// Retry delay, if a retry can help.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { rejection, .. } => Some(rejection.after),
            Self::Unavailable(_) | Self::Slow => Some(UNAVAILABLE + jitter(UNAVAILABLE)),
            Self::Malformed(_) | Self::Body(_) | Self::Internal(_) => None,
        }
    }

    /// Value of the `result` label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Body(e) => e.reason(),
            Self::Unavailable(_) => "unavailable",
            Self::Rejected { rejection, .. } => rejection.reason.name(),
            Self::Slow => "slow",
            Self::Internal(_) => "internal",
        }
    }
}

fn describe(reason: Reason, in_flight: usize) -> String {
    match reason {
        Reason::Permits => format!("{in_flight} requests are in progress (ingest.in_flight)"),
        Reason::Bodies => "waiting requests have used up their memory".to_owned(),
        Reason::Memory => "the collector is near its memory limit (limits.memory)".to_owned(),
        Reason::Senders => "there is no memory for more hosts (limits.memory)".to_owned(),
        Reason::Stopping => "the collector is stopping; its successor is about to start".to_owned(),
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
    fn senders_learn_counts_reasons_and_remedies() {
        let mut r = Report::default();
        assert_eq!(r.message(), "");
        r.add(&Appended { accepted: 3, duplicates: 1, too_far_in_future: 2, ..Appended::default() }, || None);
        r.add(&Appended { too_far_in_future: 1, ..Appended::default() }, || None);
        assert_eq!((r.accepted, r.rejected()), (4, 3));
        assert_eq!(r.reasons().collect::<Vec<_>>(), [("future", 3)]);
        let m = r.message();
        assert!(m.starts_with("3 points rejected, all others are stored: ") && m.ends_with("clock (NTP) (3)"), "{m}");
        for i in 0..500 {
            r.reject("unusable", 1, format!("m{i}"));
        }
        assert_eq!(r.rejected(), 503);
        assert!(r.message().ends_with("and 92 more reasons") && r.message().len() < 2000);
    }
}
