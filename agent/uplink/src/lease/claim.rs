//! What a candidate may do after the answers so far, without a clock of its own.

use std::time::{Duration, Instant};

/// Time that a reader without answers reads on after its lease, so that a collector has time to restart. The next reader
/// begins at the end of the lease at the earliest, so two read at once for this time at most.
const GRACE: Duration = Duration::from_secs(6);

/// Longest silence of the thread that reads: it checks several times a second whether it may.
const ALIVE: Duration = Duration::from_secs(2);

/// Answer of all collectors together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The lease lasts so long after the request; number of other candidates.
    Granted { lasts: Duration, others: u32 },
    /// Another host reads; empty if none does yet.
    Refused { holder: String },
    /// The receiver does not know leases.
    Unsupported,
    /// No answer, or an error.
    Failed(String),
}

impl Answer {
    /// Joins it with the answer of the next collector: a refusal decides, then a grant, then a failure.
    pub(super) fn and(self, next: Self) -> Self {
        match (self, next) {
            (refused @ Self::Refused { .. }, _) | (_, refused @ Self::Refused { .. }) => refused,
            (Self::Granted { lasts, others }, Self::Granted { lasts: next, others: more }) => {
                Self::Granted { lasts: lasts.min(next), others: others.max(more) }
            }
            (granted @ Self::Granted { .. }, _) | (_, granted @ Self::Granted { .. }) => granted,
            (failed @ Self::Failed(_), _) | (_, failed @ Self::Failed(_)) => failed,
            (Self::Unsupported, Self::Unsupported) => Self::Unsupported,
        }
    }
}

/// Whether a host may read its subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It has the lease.
    Held,
    /// It reads without a lease: no other host asked for it when the collector last answered. Text: why it has none.
    Alone(String),
    /// It reads without a lease, because the receiver does not know leases.
    Unsupported,
    /// Another host reads; empty while the collector has not decided.
    Standby(String),
    /// It does not read, because no collector answers. Text: the error.
    Silent(String),
}

impl Outlook {
    /// Whether the host may read.
    pub fn may_read(&self) -> bool {
        matches!(self, Self::Held | Self::Alone(_) | Self::Unsupported)
    }
}

/// The claim of a host, and the answers to it.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// Switches of the subnet; empty: nothing is claimed.
    pub(super) switches: Vec<u64>,
    /// Number of the claim; an answer to an earlier one is void.
    pub(super) number: u64,
    /// Whether the host reads.
    pub(super) reading: bool,
    /// When the thread that reads last checked whether it may.
    pub(super) alive: Option<Instant>,
    last: Last,
    /// Error of the last request.
    failure: Option<String>,
}

/// Last answer that was not a failure.
#[derive(Debug, Default)]
enum Last {
    #[default]
    None,
    Granted {
        until: Instant,
        others: u32,
    },
    Refused(String),
    Unsupported,
}

impl Claim {
    /// Claims a subnet, or nothing.
    pub(super) fn set(&mut self, switches: Vec<u64>) {
        if switches.is_empty() {
            *self = Self { number: self.number + 1, ..Self::default() };
        }
        self.switches = switches;
    }

    /// Whether something is claimed by a thread that lives.
    pub(super) fn is_valid(&self, now: Instant) -> bool {
        let alive = self.alive.is_some_and(|at| now.saturating_duration_since(at) < ALIVE);
        alive && !self.switches.is_empty()
    }

    /// Takes the answer to a request of claim `number` that was sent at `sent`.
    pub(super) fn take(&mut self, number: u64, answer: Answer, sent: Instant) {
        if number != self.number {
            return;
        }
        self.failure = None;
        match answer {
            Answer::Granted { lasts, others } => self.last = Last::Granted { until: sent + lasts, others },
            Answer::Refused { holder } => self.last = Last::Refused(holder),
            Answer::Unsupported => self.last = Last::Unsupported,
            Answer::Failed(error) => self.failure = Some(error),
        }
    }

    /// Whether the host may read at `now`.
    pub(super) fn outlook(&self, now: Instant) -> Outlook {
        let failure = || self.failure.clone().unwrap_or_else(|| "no answer".to_owned());
        match &self.last {
            Last::Granted { until, .. } if now < *until => Outlook::Held,
            Last::Granted { until, others } if *others == 0 || now < *until + GRACE => Outlook::Alone(failure()),
            Last::Granted { .. } => Outlook::Silent(failure()),
            Last::Unsupported => Outlook::Unsupported,
            Last::Refused(_) | Last::None if self.failure.is_some() => Outlook::Silent(failure()),
            Last::Refused(holder) => Outlook::Standby(holder.clone()),
            Last::None => Outlook::Standby(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_reader_lease::LEASE;

    fn granted(others: u32) -> Answer {
        Answer::Granted { lasts: LEASE, others }
    }

    fn failed() -> Answer {
        Answer::Failed("gone".to_owned())
    }

    /// Claim with these answers, one after the other at `sent`.
    fn claim(answers: impl IntoIterator<Item = Answer>, sent: Instant) -> Claim {
        let mut claim = Claim::default();
        claim.set(vec![1]);
        answers.into_iter().for_each(|answer| claim.take(0, answer, sent));
        claim
    }

    #[test]
    fn reader_with_a_standby_stops_before_two_read_for_ten_seconds() {
        let sent = Instant::now();
        let claim = claim([granted(1), failed()], sent);
        assert_eq!(claim.outlook(sent), Outlook::Held);
        let restart = claim.outlook(sent + LEASE);
        assert!(restart.may_read() && restart == Outlook::Alone("gone".to_owned()), "time to restart: {restart:?}");
        let end = claim.outlook(sent + LEASE + GRACE);
        assert!(!end.may_read() && end == Outlook::Silent("gone".to_owned()), "{end:?}");
        // The next reader begins when the lease has ended.
        assert!(GRACE < Duration::from_secs(10));
    }

    #[test]
    fn the_only_reader_goes_on_without_a_collector() {
        let sent = Instant::now();
        let claim = claim([granted(0), failed()], sent);
        let later = claim.outlook(sent + Duration::from_secs(86_400));
        assert!(later.may_read() && later != Outlook::Held, "{later:?}");
    }

    #[test]
    fn who_is_refused_does_not_read() {
        let now = Instant::now();
        let refused = || Answer::Refused { holder: "b".to_owned() };
        assert_eq!(claim([granted(0), refused()], now).outlook(now), Outlook::Standby("b".to_owned()));
        let unheard = claim([granted(0), refused(), failed()], now).outlook(now);
        assert!(!unheard.may_read(), "a failure does not bring a lease back: {unheard:?}");
    }

    #[test]
    fn a_host_waits_for_the_first_answer() {
        let now = Instant::now();
        assert_eq!(claim([], now).outlook(now), Outlook::Standby(String::new()));
        assert_eq!(claim([failed()], now).outlook(now), Outlook::Silent("gone".to_owned()));
        assert_eq!(claim([Answer::Unsupported], now).outlook(now), Outlook::Unsupported);
        assert!(claim([Answer::Unsupported, failed()], now).outlook(now).may_read(), "a receiver that is away");
    }

    #[test]
    fn a_thread_that_is_stuck_claims_nothing() {
        let now = Instant::now();
        let mut claim = claim([granted(1)], now);
        assert!(!claim.is_valid(now), "it has not begun");
        claim.alive = Some(now);
        assert!(claim.is_valid(now + ALIVE / 2) && !claim.is_valid(now + ALIVE));
        claim.set(Vec::new());
        claim.alive = Some(now);
        assert!(!claim.is_valid(now), "it claims no subnet");
    }

    #[test]
    fn answers_to_a_former_claim_are_void() {
        let now = Instant::now();
        let mut claim = claim([granted(0)], now);
        claim.set(vec![2]);
        assert_eq!(claim.outlook(now), Outlook::Held, "another switch of the same subnet");
        claim.set(Vec::new());
        claim.set(vec![1]);
        claim.take(0, granted(0), now);
        assert_eq!(claim.outlook(now), Outlook::Standby(String::new()));
        claim.take(1, granted(0), now);
        assert_eq!(claim.outlook(now), Outlook::Held);
    }

    #[test]
    fn all_collectors_that_answer_must_agree() {
        let refused = || Answer::Refused { holder: "b".to_owned() };
        assert_eq!(granted(0).and(refused()), refused());
        assert_eq!(refused().and(granted(0)), refused());
        assert_eq!(granted(0).and(granted(2)), granted(2), "others are known to one of them");
        assert_eq!(failed().and(granted(0)), granted(0));
        assert_eq!(granted(1).and(failed()), granted(1));
        assert_eq!(Answer::Unsupported.and(failed()), failed(), "the collector that is away may know another reader");
        assert_eq!(Answer::Unsupported.and(granted(0)), granted(0));
        assert_eq!(Answer::Unsupported.and(Answer::Unsupported), Answer::Unsupported);
    }
}
