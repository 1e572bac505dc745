//! The one crossing from sampling threads into async code: bounded, drop-oldest, counted.
//!
//! Threads of `schedule` push; the uplink drains. A push never waits for the consumer, so a collector that is away
//! costs the oldest samples and nothing else.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is urgent on one port is on others: they are sampled in the same moment and shall travel together.
const GATHER: Duration = Duration::from_millis(5);

/// Whether an item must not wait for the next regular flush.
pub trait Urgent {
    /// True for signals of pause, storms, links and errors of the wire.
    fn is_urgent(&self) -> bool;
}

impl Urgent for fabriclens_wire::Section {
    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

/// Bounded queue of `T`.
#[derive(Debug)]
pub struct Ring<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
    dropped: AtomicU64,
    /// Woken by an urgent item, and by a queue that is half full.
    wake: Notify,
}

impl<T: Urgent> Ring<T> {
    /// An empty ring of at most `capacity` items. With 0 nobody drains it: it keeps, drops and counts nothing.
    pub fn new(capacity: usize) -> Self {
        Self {
            items: Mutex::new(VecDeque::with_capacity(capacity.min(1024))),
            capacity,
            dropped: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }

    /// Appends; drops the oldest items where there is no room. Returns how many were dropped.
    pub fn push(&self, item: T) -> usize {
        if self.capacity == 0 {
            return 0;
        }
        let urgent = item.is_urgent();
        let (lost, len) = {
            let mut items = self.items.lock();
            let mut lost = 0;
            while items.len() >= self.capacity {
                items.pop_front();
                lost += 1;
            }
            items.push_back(item);
            (lost, items.len())
        };
        if lost > 0 {
            self.dropped.fetch_add(lost as u64, Ordering::Relaxed);
        }
        if urgent || len * 2 >= self.capacity {
            self.wake.notify_one();
        }
        lost
    }

    /// Up to `max` items after at most `wait`; earlier when the ring is half full, or when an urgent item is pushed and
    /// `soonest` has passed (`None`: urgent items wait as others do).
    pub async fn drain(&self, max: usize, wait: Duration, soonest: Option<Duration>) -> Vec<T> {
        let begin = Instant::now();
        let end = begin + wait;
        while tokio::time::timeout_at(end, self.wake.notified()).await.is_ok() {
            let full = self.len() * 2 >= self.capacity;
            let due = soonest.map(|soonest| (begin + soonest).max(Instant::now() + GATHER));
            match due.filter(|_| !full) {
                Some(due) => tokio::time::sleep_until(due.min(end)).await,
                None if full => {}
                None => continue,
            }
            break;
        }
        self.take(max)
    }

    /// Up to `max` items now.
    pub fn take(&self, max: usize) -> Vec<T> {
        let mut items = self.items.lock();
        let n = max.min(items.len());
        items.drain(..n).collect()
    }

    /// Items dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Items waiting.
    pub fn len(&self) -> usize {
        self.items.lock().len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most items it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    impl Urgent for u32 {
        fn is_urgent(&self) -> bool {
            *self >= 100
        }
    }

    #[test]
    fn drops_the_oldest_and_counts() {
        let ring = Ring::new(3);
        let lost: usize = (0..5).map(|n: u32| ring.push(n)).sum();
        assert_eq!((lost, ring.dropped(), ring.len()), (2, 2, 3));
        assert_eq!(ring.take(10), [2, 3, 4]);
        assert!(ring.is_empty());
    }

    #[test]
    fn a_ring_that_nobody_drains_stays_empty() {
        let ring = Ring::new(0);
        assert_eq!((ring.push(1_u32), ring.push(200), ring.len(), ring.dropped()), (0, 0, 0, 0));
    }

    #[tokio::test]
    async fn an_urgent_item_ends_the_wait() {
        let ring = Arc::new(Ring::new(100));
        let producer = Arc::clone(&ring);
        let thread = std::thread::spawn(move || {
            producer.push(1);
            std::thread::sleep(Duration::from_millis(20));
            producer.push(100);
        });
        let begin = Instant::now();
        assert_eq!(ring.drain(10, Duration::from_secs(20), Some(Duration::ZERO)).await, [1, 100]);
        assert!(begin.elapsed() < Duration::from_secs(10));
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn nothing_urgent_waits_its_time() {
        let ring = Ring::new(100);
        ring.push(1_u32);
        let begin = Instant::now();
        assert_eq!(ring.drain(10, Duration::from_millis(30), Some(Duration::ZERO)).await, [1]);
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn urgent_items_do_not_follow_each_other_closer_than_they_may() {
        let (ring, begin) = (Ring::new(100), Instant::now());
        let (never, soonest) = (Duration::from_secs(600), Duration::from_millis(40));
        for times in 1..=3 {
            ring.push(100_u32);
            ring.push(101);
            assert_eq!(ring.drain(10, never, Some(soonest)).await, [100, 101]);
            assert!(begin.elapsed() >= soonest * times);
        }
        ring.push(100);
        let (begin, wait) = (Instant::now(), Duration::from_millis(60));
        assert_eq!(ring.drain(10, wait, None).await, [100]);
        assert!(begin.elapsed() >= wait, "urgent items wait as others do");
        (0..50).for_each(|_| _ = ring.push(1));
        assert_eq!(ring.drain(100, never, None).await.len(), 50, "a ring that fills up does not wait");
    }
}
