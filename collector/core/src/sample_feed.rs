//! Bounded feed of ingested samples for the detectors. If the detectors fall behind, the oldest samples are dropped and
//! counted; ingest never waits.

use fabriclens_correlate::{StreamingEval, TimeSpans};
use fabriclens_model::is_of_histograms;
use fabriclens_store::RowGroup;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Most values that wait: 64 MiB, several seconds of the largest fleet.
pub const CAPACITY: usize = 8 << 20;

/// Names of the metrics that the detectors read from the feed, sorted. An ingest collector sends these to its judge.
pub fn metrics() -> Vec<&'static str> {
    StreamingEval::new(1).0.metrics()
}

/// A queue of ingested samples with one consumer; closed until the consumer opens it.
#[derive(Default)]
pub struct SampleFeed {
    waiting: Mutex<Option<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Vec<RowGroup>>,
    values: usize,
    lost: u64,
    spans: TimeSpans,
}

/// Samples taken from the feed.
#[derive(Default)]
pub struct DrainedSamples {
    /// Row groups by request, in write order.
    pub requests: VecDeque<Vec<RowGroup>>,
    /// Values dropped since the last drain because the feed was full.
    pub lost: u64,
    /// Time spans of the dropped values, Unix ms.
    pub spans: Vec<[i64; 2]>,
}

impl SampleFeed {
    /// Starts to keep samples.
    pub fn open(&self) {
        self.waiting.lock().get_or_insert_default();
    }

    /// Drops all samples and keeps no more.
    pub fn close(&self) {
        *self.waiting.lock() = None;
    }

    /// Whether samples are kept.
    pub fn is_open(&self) -> bool {
        self.waiting.lock().is_some()
    }

    /// Adds the samples of one request; no effect while the feed is closed.
    pub fn push(&self, mut groups: Vec<RowGroup>) {
        // Detectors read floats.
        groups.retain(|group| !is_of_histograms(group));
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut() else { return };
        waiting.values += count(&groups);
        waiting.requests.push_back(groups);
        while waiting.values > CAPACITY {
            let Some(oldest) = waiting.requests.pop_front() else { break };
            waiting.values -= count(&oldest);
            waiting.lost += count(&oldest) as u64;
            span(&oldest).into_iter().for_each(|span| waiting.spans.add(span));
        }
    }

    /// Takes all waiting samples.
    pub fn drain(&self) -> DrainedSamples {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut() else { return DrainedSamples::default() };
        let Waiting { requests, lost, mut spans, .. } = std::mem::take(waiting);
        DrainedSamples { requests, lost, spans: spans.take() }
    }
}

fn count(groups: &[RowGroup]) -> usize {
    groups.iter().map(|group| group.values.len()).sum()
}

fn span(groups: &[RowGroup]) -> Option<[i64; 2]> {
    let times = || groups.iter().flat_map(|group| group.times.iter().copied());
    Some([times().min()?, times().max()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::Labels;

    fn rows(values: usize) -> Vec<RowGroup> {
        let series = [Labels::new([("__name__", "m")])].into();
        vec![RowGroup { series, times: (0..values as i64).collect(), values: vec![0.0; values] }]
    }

    #[test]
    fn full_feed_drops_the_oldest_samples() {
        let feed = SampleFeed::default();
        feed.push(rows(1));
        feed.open();
        assert_eq!(feed.drain().requests.len(), 0);
        for values in [3, CAPACITY - 2, 1] {
            feed.push(rows(values));
        }
        let drained = feed.drain();
        assert_eq!((drained.requests.len(), drained.lost, drained.spans), (2, 3, vec![[0, 2]]));
        assert_eq!(feed.drain().requests.len(), 0, "a drain resets the count of dropped values");
    }
}
