//! Finds samples that arrive too late for live evaluation, so that their time spans can be evaluated again. An agent
//! sends live samples first and its spooled ones in parallel, so its late samples are older than the newest sample of
//! their series. Other senders send everything in order and catch up. A wrong clock does neither, so its samples do not
//! count as late.

use std::collections::HashMap;

/// Out-of-order samples older than this come from an agent's spool, ms. Younger ones still reach their frame.
const SPOOLED_MS: i64 = 20_000;
/// In-order samples older than this no longer reach a frame, ms.
const BEHIND_MS: i64 = 120_000;
/// Spans closer to each other than this are joined, ms.
const JOIN_MS: i64 = 60_000;
/// Limits of pending spans and of senders that are behind. What exceeds them is not evaluated again.
const MAX_SPANS: usize = 64;
const MAX_SENDERS: usize = 1 << 17;

/// Late samples by sender. Times are Unix ms.
#[derive(Default)]
pub(crate) struct LateSamples {
    /// First and last sample of senders that are behind and may catch up.
    behind: HashMap<u64, [i64; 2]>,
    spans: TimeSpans,
}

/// Time spans, each from its first to its last instant in Unix ms. Spans close to each other are joined; spans beyond
/// the limit are dropped.
#[derive(Default)]
pub struct TimeSpans(Vec<[i64; 2]>);

impl TimeSpans {
    /// Adds a span.
    pub fn add(&mut self, [from, to]: [i64; 2]) {
        let near = |one: &&mut [i64; 2]| from <= one[1] + JOIN_MS && to >= one[0] - JOIN_MS;
        if let Some(one) = self.0.iter_mut().find(near) {
            *one = [one[0].min(from), one[1].max(to)];
        } else if self.0.len() < MAX_SPANS {
            self.0.push([from, to]);
        }
    }

    /// Removes and returns all spans.
    pub fn take(&mut self) -> Vec<[i64; 2]> {
        std::mem::take(&mut self.0)
    }
}

impl LateSamples {
    /// Records a sample of sender `who`, the newest sample it sent before, and the time of the newest frame.
    pub(crate) fn record(&mut self, sender: u64, time_ms: i64, newest_ms: i64, now_ms: i64) {
        let age = now_ms.saturating_sub(time_ms);
        if time_ms < newest_ms {
            if age > SPOOLED_MS {
                self.spans.add([time_ms, time_ms]);
            }
        } else if age > BEHIND_MS {
            if self.behind.len() < MAX_SENDERS || self.behind.contains_key(&sender) {
                self.behind.entry(sender).or_insert([time_ms, time_ms])[1] = time_ms;
            }
        } else if !self.behind.is_empty()
            && let Some(stretch) = self.behind.remove(&sender)
        {
            self.spans.add(stretch);
        }
    }

    /// Removes and returns all spans of late samples.
    pub(crate) fn take(&mut self) -> Vec<[i64; 2]> {
        self.spans.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 10_000_000;

    #[test]
    fn spooled_samples_are_late() {
        let mut late = LateSamples::default();
        for ago in (60..600).rev() {
            late.record(1, NOW - ago * 1000, NOW - 1000, NOW);
            late.record(2, NOW - 1000, NOW - 2000, NOW);
        }
        assert_eq!(late.take(), [[NOW - 599_000, NOW - 60_000]]);
        assert!(late.take().is_empty(), "told once");
        // Slightly out of order, or a repetition.
        late.record(1, NOW - 15_000, NOW - 1000, NOW);
        late.record(1, NOW - 90_000, NOW - 90_000, NOW);
        assert!(late.take().is_empty());
    }

    #[test]
    fn late_sender_reports_once_caught_up() {
        let mut late = LateSamples::default();
        let mut newest = i64::MIN;
        for second in 0..700 {
            // Ten seconds of samples arrive per second.
            let now = NOW + second * 1000;
            let time = (NOW - 600_000 + second * 10_000).min(now);
            late.record(1, time, newest, now);
            newest = time;
            late.record(2, now - 600_000, now - 601_000, now);
            let spans = late.take();
            if !spans.is_empty() {
                let last = (0..)
                    .map(|n| NOW - 600_000 + n * 10_000)
                    .zip(0..)
                    .take_while(|(t, n)| NOW + n * 1000 - t > BEHIND_MS);
                assert_eq!(spans, [[NOW - 600_000, last.last().unwrap().0]]);
                assert!(late.behind.contains_key(&2), "who never catches up waits");
                return;
            }
        }
        panic!("it has caught up");
    }

    #[test]
    fn spans_are_bounded() {
        let mut late = LateSamples::default();
        (0..1000).for_each(|n| late.record(1, n * 1_000_000, NOW * 1000, NOW * 1000));
        assert_eq!(late.take().len(), MAX_SPANS);
    }
}
