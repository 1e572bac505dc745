//! Permits and memory of queries: how many run at once, and how much memory they use together. Called by
//! [`super::query`].
//!
//! A quarter of the memory is divided evenly among the permits: each query may use its part freely, so that light
//! queries always run. A query that needs more is heavy. It takes from the other three quarters while they last;
//! after that it ends, waits in line without holding anything, and starts again with the memory it will need
//! reserved. So no two queries ever wait for each other. Heavy queries leave some permits to light ones.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fabriclens_model::Budget;
use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::encode::Json;

/// Bytes per permit of the shared part.
const UNIT: usize = 1024;

/// Permits and memory shared by all queries.
#[derive(Debug)]
pub(super) struct Pool {
    /// Bytes that each query may use freely.
    small: usize,
    /// Units for heavy queries.
    large: usize,
    /// Fewest units that a heavy query takes at a time.
    stride: usize,
    permits: Arc<Semaphore>,
    heavy_permits: Arc<Semaphore>,
    units: Arc<Semaphore>,
    /// Bytes used by queries.
    in_use: IntGauge,
}

impl Pool {
    /// Divides `memory` bytes among at most `permits` concurrent queries; `in_use` shows the used bytes.
    pub(super) fn new(memory: usize, permits: usize, in_use: IntGauge) -> Arc<Self> {
        let large = (memory / 4 * 3 / UNIT).min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            small: memory / 4 / permits.max(1),
            large,
            stride: (large / 64).max(1),
            permits: Arc::new(Semaphore::new(permits)),
            heavy_permits: Arc::new(Semaphore::new((permits * 3 / 4).max(1))),
            units: Arc::new(Semaphore::new(large)),
            in_use,
        })
    }

    /// Waits for a permit, and for `bytes` of the shared part if not zero; more than there is means all of it. `None`
    /// only if the pool is closed, which never happens.
    pub(super) async fn enter(self: &Arc<Self>, bytes: usize) -> Option<Arc<Grant>> {
        let mut held = Holding::default();
        if bytes > 0 {
            held.heavy_permit = Some(self.heavy_permits.clone().acquire_owned().await.ok()?);
            let units = u32::try_from(bytes.div_ceil(UNIT).min(self.large)).unwrap_or(u32::MAX);
            held.units = Some(self.units.clone().acquire_many_owned(units).await.ok()?);
        }
        held.permit = Some(self.permits.clone().acquire_owned().await.ok()?);
        Some(Arc::new(Grant { pool: self.clone(), held: Mutex::new(held) }))
    }
}

#[derive(Debug, Default)]
struct Holding {
    /// Used bytes.
    taken: usize,
    units: Option<OwnedSemaphorePermit>,
    permit: Option<OwnedSemaphorePermit>,
    heavy_permit: Option<OwnedSemaphorePermit>,
}

impl Holding {
    fn units(&self) -> usize {
        self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

/// Permit and memory of one query; returned when dropped.
#[derive(Debug)]
pub(super) struct Grant {
    pool: Arc<Pool>,
    held: Mutex<Holding>,
}

impl Grant {
    /// Bytes to reserve when the query starts again after a refusal; `None` if it already had everything.
    pub(super) fn more(&self) -> Option<usize> {
        let held = self.held.lock();
        let had = held.units();
        (had < self.pool.large).then(|| (held.taken * 2).max(had * UNIT * 2).max(UNIT * self.pool.stride))
    }

    /// Ends the evaluation: only the answer is left, which may take long to send, so the permit and all memory except
    /// `bytes` are returned.
    pub(super) fn settle(&self, bytes: usize) {
        let (mut held, pool) = (self.held.lock(), &self.pool);
        pool.in_use.add(bytes as i64 - held.taken as i64);
        held.taken = bytes;
        (held.permit, held.heavy_permit) = (None, None);
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

    fn taken(&self) -> usize {
        self.held.lock().taken
    }

    fn give_back(&self, bytes: usize) {
        let mut held = self.held.lock();
        let bytes = bytes.min(held.taken);
        held.taken -= bytes;
        self.pool.in_use.sub(bytes as i64);
    }
}

impl Pool {
    /// Gives a running query `units` more, or a stride if that many are free; at once or not at all.
    fn grow(&self, held: &mut Holding, units: usize) -> bool {
        let try_units = |n: usize| self.units.clone().try_acquire_many_owned(u32::try_from(n).ok()?).ok();
        if held.heavy_permit.is_none() {
            // Kept even without memory, because the query is about to end.
            held.heavy_permit = self.heavy_permits.clone().try_acquire_owned().ok();
        }
        let more =
            try_units(units.max(self.stride)).or_else(|| try_units(units)).filter(|_| held.heavy_permit.is_some());
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

/// An answer that holds its memory until it is sent.
pub(super) struct Answer {
    body: String,
    content_type: &'static str,
    _grant: Arc<Grant>,
}

impl Answer {
    /// Creates the answer of a finished query.
    pub(super) fn new(json: Json, grant: Arc<Grant>) -> Self {
        grant.settle(json.0.capacity());
        Self { body: json.0, content_type: "application/json", _grant: grant }
    }

    /// The body, for answers that are made of it; its memory is no longer accounted.
    pub(super) fn text(self) -> String {
        self.body
    }

    /// Changes the content type.
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

    /// 100 KiB for each of four permits, 1.2 MiB to share.
    fn pool() -> Arc<Pool> {
        Pool::new(1600 * KIB, 4, IntGauge::new("in_use", "in use").unwrap())
    }

    impl Pool {
        fn in_use(&self) -> usize {
            usize::try_from(self.in_use.get()).unwrap()
        }
    }

    #[tokio::test]
    async fn what_is_given_back_can_be_taken_again() {
        let pool = pool();
        let grant = pool.enter(0).await.unwrap();
        for _ in 0..3 {
            assert!(grant.take(1000 * KIB));
            assert_eq!((grant.taken(), pool.in_use()), (1000 * KIB, 1000 * KIB));
            grant.give_back(1000 * KIB);
        }
        grant.give_back(1);
        assert_eq!((grant.taken(), pool.in_use()), (0, 0));
    }

    #[tokio::test]
    async fn large_needs_wait_for_room() {
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
            (pool.in_use(), pool.units.available_permits(), pool.permits.available_permits()),
            (150 * KIB, 1150, 4)
        );
        drop(b);
        assert_eq!((pool.in_use(), pool.units.available_permits(), pool.permits.available_permits()), (0, 1200, 4));
    }

    #[tokio::test]
    async fn queries_beyond_all_memory_fail() {
        let pool = pool();
        let all = pool.enter(usize::MAX).await.unwrap();
        assert!(all.take(1300 * KIB) && !all.take(1) && all.more().is_none());
    }

    #[tokio::test]
    async fn light_queries_run_beside_heavy_ones() {
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
    fn concurrent_queries_stay_within_memory() {
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
                        asks = grant.more().expect("the pool holds enough");
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
