//! Time spans of late samples. Spans close together are joined, each waits until no more samples arrive, and their
//! number and length are bounded. They are stored, because the collector may restart while agents deliver their spool.
//!
//! Table `late`, key `waiting`: JSON, a list of first and last instant, Unix ms.

use std::time::Duration;

use fabriclens_store::{MetadataTable, Store};

/// Spans closer than this are joined, ms.
const JOIN_MS: i64 = 180_000;
/// Longest span that is evaluated, ms; of a longer one only its end.
const MAX_SPAN_MS: i64 = 6 * 3_600_000;
/// Older samples are ignored, ms.
const MAX_AGE_MS: i64 = 86_400_000;
/// Longest wait for samples that keep arriving, ms. An agent with a wrong clock sends late samples all the time, so
/// this also limits how often they are evaluated.
const MAX_WAIT_MS: i64 = 3_600_000;
/// Most waiting spans.
const MOST: usize = 16;
/// Interval at which they are stored, ms.
const WRITE_MS: i64 = 5000;
const TABLE: &str = "late";
const KEY: &str = "waiting";

struct Waiting {
    span: [i64; 2],
    /// When the first and the last sample arrived.
    since: i64,
    last: i64,
}

/// The waiting spans. Instants are Unix ms.
pub(super) struct LateSpans {
    waiting: Vec<Waiting>,
    /// The span being evaluated.
    current: Option<[i64; 2]>,
    /// Required time without new samples; zero disables evaluation.
    quiet: i64,
    table: Option<MetadataTable>,
    written: i64,
}

impl LateSpans {
    /// Restores the spans that waited when the collector stopped.
    pub(super) fn open(store: &Store, quiet: Duration, now: i64) -> Self {
        Self::with_table(Some(store.table(TABLE)), quiet, now)
    }

    fn with_table(table: Option<MetadataTable>, quiet: Duration, now: i64) -> Self {
        let quiet = i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX);
        let kept = table.as_ref().and_then(|table| table.get(KEY).ok()?);
        let kept: Vec<[i64; 2]> = kept.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let mut spans = Self { waiting: Vec::new(), current: None, quiet, table, written: now };
        kept.into_iter().for_each(|span| spans.add(span, now));
        spans
    }

    /// Records samples of a span that arrived now.
    pub(super) fn add(&mut self, [from, to]: [i64; 2], now: i64) {
        let from = from.max(now.saturating_sub(MAX_AGE_MS));
        if self.quiet == 0 || to < from {
            return;
        }
        let mut new = Waiting { span: [from, to], since: now, last: now };
        let near = |one: &Waiting| from <= one.span[1] + JOIN_MS && to >= one.span[0] - JOIN_MS;
        for one in self.waiting.extract_if(.., |one| near(one)) {
            new.span = [new.span[0].min(one.span[0]), new.span[1].max(one.span[1])];
            new.since = new.since.min(one.since);
        }
        if new.span[1] - new.span[0] > MAX_SPAN_MS {
            let first = new.span[1] - MAX_SPAN_MS;
            tracing::warn!(
                hours = (new.span[1] - new.span[0]) / 3_600_000,
                "time span of late samples is too long; only its last hours are evaluated"
            );
            new.span[0] = first;
        }
        self.waiting.push(new);
        if self.waiting.len() > MOST {
            self.waiting.sort_by_key(|one| one.span[0]);
            self.waiting.remove(0);
            tracing::warn!("too many time spans of late samples; the oldest is not evaluated");
        }
        if now.saturating_sub(self.written) >= WRITE_MS {
            self.write(now);
        }
    }

    /// Takes the earliest span that is complete; it is being evaluated from now on.
    pub(super) fn due(&mut self, now: i64) -> Option<[i64; 2]> {
        let whole = |one: &Waiting| now - one.last >= self.quiet || now - one.since >= MAX_WAIT_MS;
        let at = (0..self.waiting.len()).filter(|at| whole(&self.waiting[*at]));
        let first = at.min_by_key(|at| self.waiting[*at].span[0])?;
        self.current = Some(self.waiting.remove(first).span);
        self.write(now);
        self.current
    }

    /// Finishes the span being evaluated.
    pub(super) fn done(&mut self) {
        self.current = None;
        self.write(self.written);
    }

    fn write(&mut self, now: i64) {
        self.written = now;
        let all: Vec<[i64; 2]> = self.waiting.iter().map(|one| one.span).chain(self.current).collect();
        let Some(table) = &self.table else { return };
        let json = serde_json::to_vec(&all).unwrap_or_default();
        if let Err(error) = table.put(KEY, json) {
            tracing::warn!(%error, "cannot store the time spans of late samples; a restart would forget them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_store::Options;
    use std::sync::Arc;

    const QUIET: Duration = Duration::from_secs(60);
    const NOW: i64 = 100 * 86_400_000;

    fn minutes(span: Option<[i64; 2]>) -> Option<[i64; 2]> {
        span.map(|span| span.map(|ms| (NOW - ms) / 60_000))
    }

    fn ago(minutes: [i64; 2]) -> [i64; 2] {
        minutes.map(|ago| NOW - ago * 60_000)
    }

    #[test]
    fn spans_wait_and_join() {
        let mut spans = LateSpans::with_table(None, QUIET, NOW);
        spans.add(ago([50, 40]), NOW);
        spans.add(ago([90, 80]), NOW);
        spans.add(ago([38, 20]), NOW + 30_000);
        assert_eq!(spans.due(NOW + 59_000), None);
        assert_eq!(minutes(spans.due(NOW + 60_000)), Some([90, 80]));
        assert_eq!(spans.due(NOW + 89_000), None);
        assert_eq!(minutes(spans.due(NOW + 90_000)), Some([50, 20]));
        assert_eq!(spans.due(i64::MAX / 2), None);
    }

    #[test]
    fn endless_spans_are_due_each_hour() {
        let mut spans = LateSpans::with_table(None, QUIET, NOW);
        let mut judged = Vec::new();
        for second in 0..3 * 3600 {
            let now = NOW + second * 1000;
            spans.add([now - 600_000, now - 600_000], now);
            judged.extend(spans.due(now).map(|span| (span[1] - span[0]) / 60_000));
        }
        assert_eq!(judged, [60, 60]);
    }

    #[test]
    fn spans_are_bounded() {
        let mut spans = LateSpans::with_table(None, QUIET, NOW);
        spans.add(ago([3000, 2000]), NOW);
        assert_eq!(spans.due(NOW + 60_000), None, "samples older than a day are ignored");
        spans.add(ago([1300, 1000]), NOW);
        spans.add(ago([1000, 800]), NOW);
        assert_eq!(minutes(spans.due(NOW + 60_000)), Some([1160, 800]), "six hours");
        (0..MOST as i64 + 5).for_each(|n| spans.add(ago([1000 - 20 * n, 999 - 20 * n]), NOW));
        assert_eq!(spans.waiting.len(), MOST);
        assert_eq!(minutes(spans.due(NOW + 60_000)), Some([900, 899]), "the oldest span is dropped");
        let mut never = LateSpans::with_table(None, Duration::ZERO, NOW);
        never.add(ago([50, 40]), NOW);
        assert_eq!(never.due(NOW + 60_000_000), None);
    }

    #[test]
    fn restart_keeps_waiting_and_current_spans() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path(), Options { background: false, ..Options::default() }).unwrap());
        let over = || LateSpans::open(&store, QUIET, NOW);
        let mut first = over();
        first.add(ago([50, 40]), NOW + WRITE_MS);
        first.add(ago([90, 80]), NOW + WRITE_MS);
        assert!(first.due(NOW + 70_000).is_some());
        let mut second = over();
        assert_eq!(minutes(second.due(NOW + 60_000)), Some([90, 80]));
        second.done();
        assert_eq!(minutes(over().due(NOW + 60_000)), Some([50, 40]));
    }
}
