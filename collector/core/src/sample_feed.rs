//! A copy of what is written, for who judges samples as they arrive. It holds a bounded number of values: who does not
//! keep up loses the oldest, and ingest never waits.

use fabriclens_correlate::TimeSpans;
use fabriclens_store::RowGroup;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Values that wait at most: 64 MiB, some seconds of the largest fleet.
pub const MOST: usize = 8 << 20;

/// See the module.
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

/// What has come since it was last asked for.
#[derive(Default)]
pub struct Drawn {
    /// By request, in the order in which they were written.
    pub requests: VecDeque<Vec<RowGroup>>,
    /// Values that came before and were dropped, because too many waited.
    pub lost: u64,
    /// Of which stretches of time they were, Unix ms.
    pub spans: Vec<[i64; 2]>,
}

impl SampleFeed {
    /// From now on what is written is kept, until it is drawn.
    pub fn open(&self) {
        self.waiting.lock().get_or_insert_default();
    }

    /// Nothing is kept any more.
    pub fn close(&self) {
        *self.waiting.lock() = None;
    }

    /// Whether somebody draws.
    pub fn is_open(&self) -> bool {
        self.waiting.lock().is_some()
    }

    /// Gives what was written.
    pub fn offer(&self, groups: Vec<RowGroup>) {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut() else { return };
        waiting.values += count(&groups);
        waiting.requests.push_back(groups);
        while waiting.values > MOST {
            let Some(oldest) = waiting.requests.pop_front() else { break };
            waiting.values -= count(&oldest);
            waiting.lost += count(&oldest) as u64;
            span(&oldest).into_iter().for_each(|span| waiting.spans.add(span));
        }
    }

    /// Takes what waits.
    pub fn draw(&self) -> Drawn {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut() else { return Drawn::default() };
        let Waiting { requests, lost, mut spans, .. } = std::mem::take(waiting);
        Drawn { requests, lost, spans: spans.take() }
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
    fn nothing_is_kept_for_nobody_and_the_oldest_leaves_first() {
        let feed = SampleFeed::default();
        feed.offer(rows(1));
        feed.open();
        assert_eq!(feed.draw().requests.len(), 0);
        for values in [3, MOST - 2, 1] {
            feed.offer(rows(values));
        }
        let drawn = feed.draw();
        assert_eq!((drawn.requests.len(), drawn.lost, drawn.spans), (2, 3, vec![[0, 2]]));
        assert_eq!(feed.draw().requests.len(), 0, "it was drawn");
    }
}
