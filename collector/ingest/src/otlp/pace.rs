//! How long a batch waits for company.

use std::time::{Duration, Instant};

/// Shortest time between two commits of several senders. Where a sync takes less, each request would be synced alone, which costs
/// more processor time than the request itself.
const BETWEEN: Duration = Duration::from_millis(5);

/// The last batch.
#[derive(Default)]
pub(super) struct Pace {
    committed: Option<Instant>,
    /// Sender of its last request.
    sender: String,
    /// Whether several senders, or several connections of one, send at this time. A single connection does not wait.
    has_company: bool,
}

impl Pace {
    /// How long a batch whose queue is empty waits for more requests before it is committed.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let next = self.committed.filter(|_| self.has_company)? + BETWEEN;
        next.checked_duration_since(now).filter(|pause| !pause.is_zero())
    }

    /// A batch of so many requests was committed; `sender` sent the last one.
    pub(super) fn committed(&mut self, requests: usize, sender: String, now: Instant) {
        self.has_company = requests > 1 || self.sender != sender;
        (self.committed, self.sender) = (Some(now), sender);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_senders_with_company_wait() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let ms = |ms| begin + Duration::from_millis(ms);
        assert_eq!(pace.pause(begin), None, "the first batch");
        pace.committed(1, "a".into(), begin);
        pace.committed(1, "a".into(), ms(1));
        assert_eq!(pace.pause(ms(2)), None, "a is alone");
        pace.committed(1, "b".into(), ms(2));
        assert_eq!(pace.pause(ms(3)), Some(Duration::from_millis(4)), "two take turns");
        assert_eq!((pace.pause(ms(7)), pace.pause(ms(90))), (None, None), "the disk is slower, or it is calm");
        pace.committed(1, "b".into(), ms(10));
        assert_eq!(pace.pause(ms(11)), None);
        pace.committed(3, "b".into(), ms(12));
        assert_eq!(pace.pause(ms(12)), Some(BETWEEN), "several connections of one sender");
    }
}
