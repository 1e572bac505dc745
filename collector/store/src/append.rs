//! The append path: checks times and backlog, writes to the log and the head, and commits groups of appends with one
//! sync.

use crate::error::AppendError;
use crate::options::millis;
use crate::rows::{Appended, check};
use crate::shared::{FLUSH, Head, Shared};
use crate::wal::writer::Log;
use fabriclens_base::Sender;
use fabriclens_model::{RowGroup, is_absent, is_of_histograms};
use parking_lot::MutexGuard;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Appends are refused once the unflushed log exceeds this multiple of that of a full head.
const MAX_BACKLOG: u64 = 4;

/// Time after which an append lets waiting ones write. Late samples cost most: each is compared with those before it.
const TURN: Duration = Duration::from_millis(5);
/// Samples of one group that are written without looking at the clock.
const PIECE: usize = 1024;

/// How long an append waits for a flush that has fallen behind.
const PATIENCE: Duration = Duration::from_secs(5);

/// Samples that are readable but not yet durable.
#[must_use = "not durable before it is committed"]
#[derive(Debug)]
pub struct Written {
    pub(crate) appended: Appended,
    /// Sequence number of the append in the log.
    pub(crate) ticket: u64,
}

impl Shared {
    /// Makes samples readable; see [`crate::Store::write`]. Other senders take their turn while it writes many. If it fails
    /// between two turns, the samples of the first may be stored, but nothing is acknowledged.
    pub fn write(&self, groups: &[RowGroup], sender: Sender<'_>) -> Result<Written, AppendError> {
        for (i, group) in groups.iter().enumerate() {
            check(group, i)?;
        }
        let (oldest, newest) = self.accepted_times();
        let mut sum = Appended::default();
        let mut log = self.log_for_append();
        self.ready(&mut log)?;
        let mut pieces = groups.iter().flat_map(pieces).peekable();
        while pieces.peek().is_some() {
            let mut head = self.append_times.lock(self.head.try_write(), || self.head.write());
            let Head { current, older, changed } = &mut *head;
            let (turn, mut earliest) = (Instant::now(), None);
            while let Some(group) = pieces.next_if(|_| turn.elapsed() < TURN) {
                let kept = if group.times.iter().all(|t| (oldest..=newest).contains(t)) {
                    group
                } else {
                    Cow::Owned(filter_times(&group, oldest, newest, &mut sum))
                };
                earliest = kept.times.iter().copied().chain(earliest).min();
                sum += if is_of_histograms(&kept) {
                    current.append_histograms(&kept, sender, older, &mut log.pending)
                } else {
                    current.append(&kept, sender, older, &mut log.pending)
                };
            }
            earliest.into_iter().for_each(|time| changed.record(time));
            drop(head);
            self.append_times.held_since(turn);
            if pieces.peek().is_some() {
                MutexGuard::bump(&mut log);
                self.ready(&mut log)?;
            }
        }
        let seen = groups.iter().flat_map(|g| &g.times).filter(|t| **t <= newest).max();
        self.newest.fetch_max(seen.copied().unwrap_or(i64::MIN), Ordering::Relaxed);
        log.appended += 1;
        Ok(Written { appended: sum, ticket: log.appended })
    }

    /// Oldest and newest time that an append may carry now, Unix ms.
    fn accepted_times(&self) -> (i64, i64) {
        let now = self.retention_clock.times((self.options.clock)());
        let ago = |from: i64, d: Option<Duration>| d.map_or(i64::MIN, |d| from.saturating_sub(millis(d)));
        let window = ago(self.newest.load(Ordering::Relaxed), self.options.out_of_order);
        let oldest = ago(now.age, self.options.retention).max(window);
        (oldest, now.latest.saturating_add(millis(self.options.max_future)))
    }

    /// Refuses, before any sample is stored, an append that cannot become durable.
    fn ready(&self, log: &mut MutexGuard<'_, Log>) -> Result<(), AppendError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(AppendError::Closed);
        }
        if log.failure().is_some() {
            log.recover(&self.head.read().current)?;
            self.written.notify_all();
        }
        let full = || self.maintenance.full_head.load(Ordering::Relaxed);
        if log.bytes > full() {
            self.flush_notifier.notify();
        }
        let most = || full().saturating_mul(MAX_BACKLOG);
        let patience = Instant::now() + PATIENCE;
        while log.bytes > most() {
            let last_errors = self.last_errors.lock()[FLUSH].clone();
            if last_errors.is_some() || self.written.wait_until(log, patience).timed_out() {
                return Err(AppendError::HeadFull {
                    bytes: log.bytes,
                    message: last_errors.unwrap_or_else(|| "the disk is too slow to keep up with appends".into()),
                });
            }
            self.flush_notifier.notify();
        }
        Ok(())
    }

    /// Returns when the append with this sequence number is durable. One caller writes for all that wait.
    pub fn commit(&self, log: &mut MutexGuard<'_, Log>, ticket: u64) -> Result<(), AppendError> {
        loop {
            if log.durable >= ticket {
                return Ok(());
            }
            if let Some(e) = log.failure() {
                return Err(e.clone());
            }
            if log.busy {
                self.written.wait(log);
                continue;
            }
            if let Some(mut work) = log.take() {
                let result = MutexGuard::unlocked(log, || work.run());
                log.done(work, result);
                self.written.notify_all();
            }
        }
    }
}

/// A group as pieces of about [`PIECE`] samples.
fn pieces(group: &RowGroup) -> impl Iterator<Item = Cow<'_, RowGroup>> {
    let rows = group.times.len();
    let step = (PIECE / group.series.len().max(1)).max(1);
    (0..rows.max(1)).step_by(step).map(move |first| match (first, rows) {
        (0, rows) if rows <= step => Cow::Borrowed(group),
        _ => Cow::Owned(rows_of(group, &Vec::from_iter(first..rows.min(first + step)))),
    })
}

/// The rows of a group within the accepted times. Counts the others in `sum`, a histogram as one.
pub fn filter_times(group: &RowGroup, oldest: i64, newest: i64, sum: &mut Appended) -> RowGroup {
    let (n, histograms) = (group.times.len(), is_of_histograms(group));
    let mut rows = Vec::new();
    for (r, time) in group.times.iter().enumerate() {
        let samples = if histograms {
            1
        } else {
            group.values.iter().skip(r).step_by(n).filter(|v| !is_absent(**v)).count() as u64
        };
        if *time < oldest {
            sum.too_old += samples;
        } else if *time > newest {
            sum.too_far_in_future += samples;
        } else {
            rows.push(r);
        }
    }
    rows_of(group, &rows)
}

/// Some rows of a group.
fn rows_of(group: &RowGroup, rows: &[usize]) -> RowGroup {
    let column = |values: &[f64]| rows.iter().map(|r| values[*r]).collect::<Vec<_>>();
    RowGroup {
        series: group.series.clone(),
        times: rows.iter().map(|r| group.times[*r]).collect(),
        values: group.values.chunks(group.times.len().max(1)).flat_map(column).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Labels, Layout};

    #[test]
    fn pieces_make_up_their_group() {
        let series = Layout::new(["a", "b", "c"].map(|n| Labels::new([("__name__", "m"), ("n", n)])));
        for rows in [0, 1, 341, 342, 1000] {
            let times: Vec<i64> = (0..rows).collect();
            let values: Vec<f64> = (0..3 * rows).map(|v| v as f64).collect();
            let group = RowGroup { series: series.clone(), times: times.clone(), values: values.clone() };
            let pieces: Vec<_> = pieces(&group).collect();
            assert!(pieces.iter().all(|piece| piece.values.len() <= PIECE));
            assert_eq!(pieces.iter().flat_map(|piece| piece.times.clone()).collect::<Vec<_>>(), times);
            let column = |c: usize| {
                let of = move |piece: &Cow<'_, RowGroup>| {
                    piece.values.chunks(piece.times.len().max(1)).nth(c).unwrap_or_default().to_vec()
                };
                pieces.iter().flat_map(of).collect::<Vec<_>>()
            };
            assert_eq!((0..3).flat_map(column).collect::<Vec<_>>(), values, "{rows} rows");
        }
    }
}
