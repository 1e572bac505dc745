//! Turns and memory of queries: how many run at once, and what all of them together may take. Called by [`super::query`].
//!
//! A quarter of the memory is spread evenly over the turns: each query has its small part without asking, so that light
//! ones always get through. A query that needs more is heavy. It takes from the other three quarters while there is
//! room; where there is none it ends, waits in line holding nothing, and starts again with what it will need set aside.
//! So no two queries ever wait for each other. Heavy ones leave some turns to the light.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fabriclens_model::Budget;
use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::encode::Json;

/// Permits of the shared part stand for this many bytes.
const UNIT: usize = 1024;

/// What all queries share.
#[derive(Debug)]
pub(super) struct Pool {
    /// Bytes that each query may take without asking.
    small: usize,
    /// Units for heavy queries.
    large: usize,
    /// Units that a heavy query takes at least at a time.
    stride: usize,
    turns: Arc<Semaphore>,
    heavy_turns: Arc<Semaphore>,
    units: Arc<Semaphore>,
    /// Bytes that queries have taken.
    in_use: IntGauge,
}

impl Pool {
    /// `memory` in bytes for at most `turns` queries at once; `in_use` is kept at what they have taken.
    pub(super) fn new(memory: usize, turns: usize, in_use: IntGauge) -> Arc<Self> {
        let large = (memory / 4 * 3 / UNIT).min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            small: memory / 4 / turns.max(1),
            large,
            stride: (large / 64).max(1),
            turns: Arc::new(Semaphore::new(turns)),
            heavy_turns: Arc::new(Semaphore::new((turns * 3 / 4).max(1))),
            units: Arc::new(Semaphore::new(large)),
            in_use,
        })
    }

    /// Waits for a turn, and for `bytes` of the shared part if that is not zero; more than there is becomes all of it.
    /// `None` only when the pool is closed, which it never is.
    pub(super) async fn enter(self: &Arc<Self>, bytes: usize) -> Option<Arc<Grant>> {
        let mut held = Held::default();
        if bytes > 0 {
            held.heavy_turn = Some(self.heavy_turns.clone().acquire_owned().await.ok()?);
            let units = u32::try_from(bytes.div_ceil(UNIT).min(self.large)).unwrap_or(u32::MAX);
            held.units = Some(self.units.clone().acquire_many_owned(units).await.ok()?);
        }
        held.turn = Some(self.turns.clone().acquire_owned().await.ok()?);
        Some(Arc::new(Grant { pool: self.clone(), held: Mutex::new(held) }))
    }
}

#[derive(Debug, Default)]
struct Held {
    /// Bytes.
    taken: usize,
    units: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
    heavy_turn: Option<OwnedSemaphorePermit>,
}

impl Held {
    fn units(&self) -> usize {
        self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

/// What one query holds; given back when dropped.
#[derive(Debug)]
pub(super) struct Grant {
    pool: Arc<Pool>,
    held: Mutex<Held>,
}

impl Grant {
    /// What to ask for when starting again after a refusal; `None` when it had all there is.
    pub(super) fn more(&self) -> Option<usize> {
        let held = self.held.lock();
        let had = held.units();
        (had < self.pool.large).then(|| (held.taken * 2).max(had * UNIT * 2).max(UNIT * self.pool.stride))
    }

    /// The query is done and of what it took only its answer is left, which may be long in going out: others take its
    /// turn, and all but `bytes`.
    pub(super) fn settle(&self, bytes: usize) {
        let (mut held, pool) = (self.held.lock(), &self.pool);
        pool.in_use.add(bytes as i64 - held.taken as i64);
        held.taken = bytes;
        (held.turn, held.heavy_turn) = (None, None);
        let spare = held.units().saturating_sub(bytes.saturating_sub(pool.small).div_ceil(UNIT));
        drop(held.units.as_mut().and_then(|units| units.split(spare)));
    }
}

impl Budget for Grant {
    fn take(&self, bytes: usize) -> bool {
        let (mut held, pool) = (self.held.lock(), &self.pool);
        let wanted = held.taken.saturating_add(bytes);
        let lacks = wanted.saturating_sub(pool.small).div_ceil(UNIT).saturating_sub(held.units());
        if lacks > 0 && !pool.grow(&mut held, lacks) {
            return false;
        }
        pool.in_use.add(bytes as i64);
        held.taken = wanted;
        true
    }
}

impl Pool {
    /// Gives `units` more, or a stride if there is room for it, to a query that runs; at once or not at all.
    fn grow(&self, held: &mut Held, units: usize) -> bool {
        let try_units = |n: usize| self.units.clone().try_acquire_many_owned(u32::try_from(n).ok()?).ok();
        if held.heavy_turn.is_none() {
            // Kept even if there is no memory: the query is about to end.
            held.heavy_turn = self.heavy_turns.clone().try_acquire_owned().ok();
        }
        let more = try_units(units.max(self.stride)).or_else(|| try_units(units)).filter(|_| held.heavy_turn.is_some());
        match (more, &mut held.units) {
            (None, _) => return false,
            (Some(more), Some(units)) => units.merge(more),
            (Some(more), none) => *none = Some(more),
        }
        true
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.pool.in_use.sub(self.held.get_mut().taken as i64);
    }
}

/// JSON that goes on holding its memory until the last of it is sent.
pub(super) struct Answer {
    body: String,
    content_type: &'static str,
    _grant: Arc<Grant>,
}

impl Answer {
    /// Of a query that is done.
    pub(super) fn new(json: Json, grant: Arc<Grant>) -> Self {
        grant.settle(json.0.capacity());
        Self { body: json.0, content_type: "application/json", _grant: grant }
    }

    /// The same as another type.
    pub(super) fn of_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        self.body.as_bytes()
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, self.content_type)], Bytes::from_owner(self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const KIB: usize = 1024;

    /// 100 KiB for each of four turns, 1.2 MiB to share.
    fn pool() -> Arc<Pool> {
        Pool::new(1600 * KIB, 4, IntGauge::new("in_use", "in use").unwrap())
    }

    impl Pool {
        fn in_use(&self) -> usize {
            usize::try_from(self.in_use.get()).unwrap()
        }
    }

    #[tokio::test]
    async fn small_needs_are_met_at_once_and_large_ones_while_there_is_room() {
        let pool = pool();
        let (a, b) = (pool.enter(0).await.unwrap(), pool.enter(0).await.unwrap());
        assert!(a.take(100 * KIB) && a.take(700 * KIB));
        assert_eq!(pool.in_use(), 800 * KIB);
        // 500 of 1200 KiB are left, and its own 100.
        assert!(b.take(500 * KIB) && !b.take(101 * KIB) && b.take(20 * KIB));
        assert_eq!(b.more(), Some(1040 * KIB));
        drop(a);
        assert!(b.take(580 * KIB) && pool.in_use() == 1100 * KIB);
        b.settle(150 * KIB);
        assert_eq!(
            (pool.in_use(), pool.units.available_permits(), pool.turns.available_permits()),
            (150 * KIB, 1150, 4)
        );
        drop(b);
        assert_eq!((pool.in_use(), pool.units.available_permits(), pool.turns.available_permits()), (0, 1200, 4));
    }

    #[tokio::test]
    async fn who_had_all_there_is_is_told_so() {
        let pool = pool();
        let all = pool.enter(usize::MAX).await.unwrap();
        assert!(all.take(1300 * KIB) && !all.take(1) && all.more().is_none());
    }

    #[tokio::test]
    async fn the_light_get_through_while_the_heavy_run_and_wait() {
        let pool = pool();
        let heavy: Vec<_> = [pool.enter(600 * KIB).await.unwrap(), pool.enter(600 * KIB).await.unwrap()].into();
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.enter(600 * KIB).await.map(|g| g.take(700 * KIB)) })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(waiting.iter().all(|w| !w.is_finished()));
        let light = tokio::time::timeout(Duration::from_secs(5), pool.enter(0)).await.unwrap().unwrap();
        assert!(light.take(100 * KIB) && !light.take(1));
        drop(heavy);
        for w in waiting {
            assert_eq!(w.await.unwrap(), Some(true));
        }
    }

    #[test]
    fn many_at_once_never_take_more_than_there_is() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        let pool = pool();
        let most = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let query = |i: usize| {
                let (pool, most) = (pool.clone(), most.clone());
                tokio::spawn(async move {
                    let (needs, mut asks) = (i * 61 % 1300 * KIB, 0);
                    loop {
                        let grant = pool.enter(asks).await.unwrap();
                        let mut got = 0;
                        while got < needs && grant.take(10 * KIB) {
                            got += 10 * KIB;
                            most.fetch_max(pool.in_use(), Ordering::Relaxed);
                            tokio::task::yield_now().await;
                        }
                        if got >= needs {
                            return;
                        }
                        asks = grant.more().expect("nobody needs more than all");
                    }
                })
            };
            let all: Vec<_> = (0..200).map(query).collect();
            for one in all {
                tokio::time::timeout(Duration::from_secs(60), one).await.unwrap().unwrap();
            }
        });
        let most = most.load(Ordering::Relaxed);
        assert!(most > 800 * KIB && most <= 1600 * KIB, "{most}");
        assert_eq!((pool.in_use(), pool.units.available_permits()), (0, 1200));
    }
}
