//! Stretches of time of which samples came late: those that are near to each other are one, each waits until no more comes,
//! and all of them are bounded. They are kept, because a collector may be restarted while agents tell what they kept.
//!
//! Table `late`, key `waiting`: JSON, a list of first and last instant, Unix ms.

use std::time::Duration;

use fabriclens_store::Store;

/// Nearer than this, two are one, ms.
const JOIN_MS: i64 = 180_000;
/// The longest that is judged again, ms: of a longer one its end.
const LONGEST_MS: i64 = 6 * 3_600_000;
/// What is older is no news, ms.
const OLDEST_MS: i64 = 86_400_000;
/// How long one waits at most for samples that do not end, ms. A clock that is wrong in an odd way makes some all the time; so
/// this is also how often they are judged again.
const PATIENCE_MS: i64 = 3_600_000;
/// How many wait.
const MOST: usize = 16;
/// How often they are written, ms.
const WRITE_MS: i64 = 5000;
const TABLE: &str = "late";
const KEY: &str = "waiting";

struct Waiting {
    span: [i64; 2],
    /// When the first and the last sample came.
    since: i64,
    last: i64,
}

/// See the module. Instants are Unix ms.
pub(super) struct Stretches {
    waiting: Vec<Waiting>,
    /// Is judged now.
    under_way: Option<[i64; 2]>,
    /// How long nothing must come; zero: never.
    quiet: i64,
    table: Option<sled::Tree>,
    written: i64,
}

impl Stretches {
    /// Those that waited when the collector stopped.
    pub(super) fn open(store: &Store, quiet: Duration, now: i64) -> Self {
        let table = store.table(TABLE).map_err(|error| {
            tracing::warn!(%error, "what comes late is not remembered over a restart");
        });
        Self::over(table.ok(), quiet, now)
    }

    fn over(table: Option<sled::Tree>, quiet: Duration, now: i64) -> Self {
        let quiet = i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX);
        let kept = table.as_ref().and_then(|table| table.get(KEY).ok()?);
        let kept: Vec<[i64; 2]> = kept.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let mut stretches = Self { waiting: Vec::new(), under_way: None, quiet, table, written: now };
        kept.into_iter().for_each(|span| stretches.add(span, now));
        stretches
    }

    /// Samples of this stretch came now.
    pub(super) fn add(&mut self, [from, to]: [i64; 2], now: i64) {
        let from = from.max(now.saturating_sub(OLDEST_MS));
        if self.quiet == 0 || to < from {
            return;
        }
        let mut new = Waiting { span: [from, to], since: now, last: now };
        let near = |one: &Waiting| from <= one.span[1] + JOIN_MS && to >= one.span[0] - JOIN_MS;
        for one in self.waiting.extract_if(.., |one| near(one)) {
            new.span = [new.span[0].min(one.span[0]), new.span[1].max(one.span[1])];
            new.since = new.since.min(one.since);
        }
        if new.span[1] - new.span[0] > LONGEST_MS {
            let first = new.span[1] - LONGEST_MS;
            tracing::warn!(
                hours = (new.span[1] - new.span[0]) / 3_600_000,
                "so much comes late that only its last hours are judged again"
            );
            new.span[0] = first;
        }
        self.waiting.push(new);
        if self.waiting.len() > MOST {
            self.waiting.sort_by_key(|one| one.span[0]);
            self.waiting.remove(0);
            tracing::warn!("so many stretches of time come late that the oldest is not judged again");
        }
        if now.saturating_sub(self.written) >= WRITE_MS {
            self.write(now);
        }
    }

    /// The one that began first of those that are whole by now; it is under way from here on.
    pub(super) fn due(&mut self, now: i64) -> Option<[i64; 2]> {
        let whole = |one: &Waiting| now - one.last >= self.quiet || now - one.since >= PATIENCE_MS;
        let at = (0..self.waiting.len()).filter(|at| whole(&self.waiting[*at]));
        let first = at.min_by_key(|at| self.waiting[*at].span[0])?;
        self.under_way = Some(self.waiting.remove(first).span);
        self.write(now);
        self.under_way
    }

    /// What was under way is done.
    pub(super) fn done(&mut self) {
        self.under_way = None;
        self.write(self.written);
    }

    fn write(&mut self, now: i64) {
        self.written = now;
        let all: Vec<[i64; 2]> = self.waiting.iter().map(|one| one.span).chain(self.under_way).collect();
        let Some(table) = &self.table else { return };
        let json = serde_json::to_vec(&all).unwrap_or_default();
        if let Err(error) = table.insert(KEY, json) {
            tracing::warn!(%error, "what comes late is not remembered over a restart");
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
    fn a_stretch_waits_until_no_more_comes_and_those_that_are_near_are_one() {
        let mut stretches = Stretches::over(None, QUIET, NOW);
        stretches.add(ago([50, 40]), NOW);
        stretches.add(ago([90, 80]), NOW);
        stretches.add(ago([38, 20]), NOW + 30_000);
        assert_eq!(stretches.due(NOW + 59_000), None);
        assert_eq!(minutes(stretches.due(NOW + 60_000)), Some([90, 80]));
        assert_eq!(stretches.due(NOW + 89_000), None);
        assert_eq!(minutes(stretches.due(NOW + 90_000)), Some([50, 20]));
        assert_eq!(stretches.due(i64::MAX / 2), None);
    }

    #[test]
    fn what_never_ends_is_judged_each_hour_and_no_more() {
        let mut stretches = Stretches::over(None, QUIET, NOW);
        let mut judged = Vec::new();
        for second in 0..3 * 3600 {
            let now = NOW + second * 1000;
            stretches.add([now - 600_000, now - 600_000], now);
            judged.extend(stretches.due(now).map(|span| (span[1] - span[0]) / 60_000));
        }
        assert_eq!(judged, [60, 60]);
    }

    #[test]
    fn there_are_few_and_none_is_long_or_old() {
        let mut stretches = Stretches::over(None, QUIET, NOW);
        stretches.add(ago([3000, 2000]), NOW);
        assert_eq!(stretches.due(NOW + 60_000), None, "a day ago is no news");
        stretches.add(ago([1300, 1000]), NOW);
        stretches.add(ago([1000, 800]), NOW);
        assert_eq!(minutes(stretches.due(NOW + 60_000)), Some([1160, 800]), "six hours");
        (0..MOST as i64 + 5).for_each(|n| stretches.add(ago([1000 - 20 * n, 999 - 20 * n]), NOW));
        assert_eq!(stretches.waiting.len(), MOST);
        assert_eq!(minutes(stretches.due(NOW + 60_000)), Some([900, 899]), "the oldest left");
        let mut never = Stretches::over(None, Duration::ZERO, NOW);
        never.add(ago([50, 40]), NOW);
        assert_eq!(never.due(NOW + 60_000_000), None);
    }

    #[test]
    fn a_restart_forgets_neither_what_waits_nor_what_is_under_way() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path(), Options { background: false, ..Options::default() }).unwrap());
        let over = || Stretches::open(&store, QUIET, NOW);
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
