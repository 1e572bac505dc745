//! The append path: checks times and backlog, writes to the log and the head, and commits groups of appends with one
//! sync.

use crate::error::AppendError;
use crate::options::millis;
use crate::rows::{Appended, check};
use crate::shared::{FLUSH, Head, Shared};
use crate::wal::writer::Log;
use fabriclens_model::{RowGroup, is_absent};
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Appends are refused once the unflushed log exceeds this multiple of `head_bytes`.
const MAX_BACKLOG: u64 = 4;

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
    /// Makes samples readable; see [`crate::Store::write`].
    pub fn write(&self, groups: &[RowGroup]) -> Result<Written, AppendError> {
        for (i, group) in groups.iter().enumerate() {
            check(group, i)?;
        }
        let (oldest, newest) = self.accepted_times();
        let mut sum = Appended::default();
        let mut log = self.log.lock();
        self.ready(&mut log)?;
        {
            let mut head = self.head.write();
            let Head { current, older } = &mut *head;
            for group in groups {
                if group.times.iter().all(|t| (oldest..=newest).contains(t)) {
                    sum += current.append(group, older, &mut log.pending);
                } else {
                    let kept = filter_times(group, oldest, newest, &mut sum);
                    sum += current.append(&kept, older, &mut log.pending);
                }
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
        if log.bytes > self.options.head_bytes {
            self.flush_notifier.notify();
        }
        let most = self.options.head_bytes.saturating_mul(MAX_BACKLOG);
        let patience = Instant::now() + PATIENCE;
        while log.bytes > most {
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

/// The rows of a group within the accepted times. Counts the others in `sum`.
pub fn filter_times(group: &RowGroup, oldest: i64, newest: i64, sum: &mut Appended) -> RowGroup {
    let n = group.times.len();
    let mut rows = Vec::new();
    for (r, time) in group.times.iter().enumerate() {
        let samples = group.values.iter().skip(r).step_by(n).filter(|v| !is_absent(**v)).count() as u64;
        if *time < oldest {
            sum.too_old += samples;
        } else if *time > newest {
            sum.too_far_in_future += samples;
        } else {
            rows.push(r);
        }
    }
    RowGroup {
        series: group.series.clone(),
        times: rows.iter().map(|r| group.times[*r]).collect(),
        values: (0..group.series.len())
            .flat_map(|c| rows.iter().map(move |r| c * n + r))
            .map(|i| group.values[i])
            .collect(),
    }
}
