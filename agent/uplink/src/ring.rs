//! Bounded ring buffer between sampling threads and async uplinks: drops the oldest items, and counts them.
//!
//! Threads of `schedule` push; each uplink reads all items by its own [`Reader`]. A push never waits for a reader, so
//! an unreachable collector costs its reader the oldest samples and nothing else. An item is stored once for all
//! readers.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Delay after an urgent item: ports are sampled together, so that their urgent items go into one request.
const GATHER: Duration = Duration::from_millis(5);

/// Item of a ring.
pub trait Item: Clone {
    /// True if the item must not wait for the next regular flush: pause, storms, link changes and errors of the wire.
    fn is_urgent(&self) -> bool;
    /// Number of points in it.
    fn points(&self) -> u64;
}

impl Item for fabriclens_wire::Section {
    fn is_urgent(&self) -> bool {
        self.urgent
    }

    fn points(&self) -> u64 {
        fabriclens_wire::encode::points(self) as u64
    }
}

/// Points of one reader at one instant: pushed = waiting + dropped + taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Pushed so far.
    pub pushed: u64,
    /// Not read yet.
    pub waiting: u64,
    /// Overwritten before they were read.
    pub dropped: u64,
}

/// Bounded ring buffer of `T`.
#[derive(Debug)]
pub struct Ring<T> {
    inner: Mutex<Inner<T>>,
    capacity: usize,
    /// One per reader: woken by an urgent item, and when half of the ring waits for it.
    wake: Box<[Notify]>,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    /// Number of the first item, counted since the start; at least one reader has not read it.
    first: u64,
    dropped: u64,
    readers: Box<[ReaderPosition]>,
}

/// Position of a reader.
#[derive(Clone, Copy, Debug, Default)]
struct ReaderPosition {
    next: u64,
    account: ReaderStats,
}

impl<T> Inner<T> {
    fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn waiting(&self, reader: usize) -> usize {
        (self.end() - self.readers[reader].next) as usize
    }
}

impl<T: Item> Ring<T> {
    /// Creates an empty ring of at most `capacity` items. Without readers it discards items without counting them.
    pub fn new(capacity: usize, readers: usize) -> Self {
        let (items, places) = (VecDeque::with_capacity(capacity.min(1024)), vec![ReaderPosition::default(); readers]);
        Self {
            inner: Mutex::new(Inner { items, first: 0, dropped: 0, readers: places.into() }),
            capacity,
            wake: (0..readers).map(|_| Notify::new()).collect(),
        }
    }

    /// Reader `number`, from 0; each may be taken by one owner.
    ///
    /// # Panics
    /// When `number` is not less than the number of readers.
    pub fn reader(self: &Arc<Self>, number: usize) -> Reader<T> {
        assert!(number < self.wake.len(), "a ring for {} readers has no reader {number}", self.wake.len());
        Reader { ring: Arc::clone(self), number }
    }

    /// Appends an item; drops the oldest if the ring is full. Returns the number of dropped items.
    pub fn push(&self, item: T) -> usize {
        if self.wake.is_empty() {
            return 0;
        }
        let (urgent, points) = (item.is_urgent(), item.points());
        let mut inner = self.inner.lock();
        let mut lost = 0;
        while inner.items.len() >= self.capacity {
            let gone = inner.items.pop_front().map_or(0, |item| item.points());
            inner.first += 1;
            let first = inner.first;
            for place in inner.readers.iter_mut().filter(|place| place.next < first) {
                place.next = first;
                place.account.waiting -= gone;
                place.account.dropped += gone;
            }
            lost += 1;
        }
        inner.dropped += lost as u64;
        inner.items.push_back(item);
        for place in &mut inner.readers {
            place.account.pushed += points;
            place.account.waiting += points;
        }
        for (reader, wake) in self.wake.iter().enumerate() {
            if urgent || inner.waiting(reader) * 2 >= self.capacity {
                wake.notify_one();
            }
        }
        lost
    }

    /// Items dropped so far before every reader had read them.
    pub fn dropped(&self) -> u64 {
        self.inner.lock().dropped
    }

    /// Items that at least one reader has not read.
    pub fn len(&self) -> usize {
        self.inner.lock().items.len()
    }

    /// True if all readers have read everything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reader of all items of a ring, in order.
#[derive(Debug)]
pub struct Reader<T> {
    ring: Arc<Ring<T>>,
    number: usize,
}

impl<T: Item> Reader<T> {
    /// Up to `max` items after at most `wait`; earlier when the ring is half full, or when an urgent item is pushed and
    /// `soonest` has passed (`None`: urgent items do not end the wait).
    pub async fn drain(&self, max: usize, wait: Duration, soonest: Option<Duration>) -> Vec<T> {
        let begin = Instant::now();
        let end = begin + wait;
        while tokio::time::timeout_at(end, self.ring.wake[self.number].notified()).await.is_ok() {
            let full = self.is_half_full();
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

    /// Up to `max` items, without waiting.
    pub fn take(&self, max: usize) -> Vec<T> {
        let mut inner = self.ring.inner.lock();
        let place = inner.readers[self.number];
        let end = place.next + max.min(inner.waiting(self.number)) as u64;
        // Items that all other readers have read are moved out; the others are cloned.
        let others = inner.readers.iter().enumerate().filter(|(number, _)| *number != self.number);
        let read = others.map(|(_, other)| other.next).min().unwrap_or(u64::MAX);
        // If another reader is behind, `read` is the number of the first item, and nothing is moved.
        let leaves = end.min(read).saturating_sub(inner.first) as usize;
        let mut taken: Vec<T> = inner.items.drain(..leaves).collect();
        inner.first += leaves as u64;
        let from = place.next.max(inner.first);
        let (from, upto) = ((from - inner.first) as usize, (end - inner.first) as usize);
        taken.extend(inner.items.range(from..upto).cloned());
        let place = &mut inner.readers[self.number];
        place.next = end;
        place.account.waiting -= taken.iter().map(T::points).sum::<u64>();
        taken
    }

    /// Items waiting for this reader.
    pub fn len(&self) -> usize {
        self.ring.inner.lock().waiting(self.number)
    }

    /// True if no item waits for this reader.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if half of the ring waits for this reader: the oldest items will be dropped soon.
    pub fn is_half_full(&self) -> bool {
        self.len() * 2 >= self.ring.capacity
    }

    /// Waits until half of the ring waits for this reader.
    pub async fn filled(&self) {
        while !self.is_half_full() {
            self.ring.wake[self.number].notified().await;
        }
    }

    /// Point counts of this reader.
    pub fn account(&self) -> ReaderStats {
        self.ring.inner.lock().readers[self.number].account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for u32 {
        fn is_urgent(&self) -> bool {
            *self >= 100
        }

        fn points(&self) -> u64 {
            u64::from(*self)
        }
    }

    fn ring(capacity: usize) -> (Arc<Ring<u32>>, Reader<u32>) {
        let ring = Arc::new(Ring::new(capacity, 1));
        let reader = ring.reader(0);
        (ring, reader)
    }

    #[test]
    fn drops_the_oldest_and_counts() {
        let (ring, reader) = ring(3);
        let lost: usize = (1..6).map(|n: u32| ring.push(n)).sum();
        assert_eq!((lost, ring.dropped(), ring.len()), (2, 2, 3));
        assert_eq!(reader.account(), ReaderStats { pushed: 15, waiting: 12, dropped: 3 });
        assert_eq!(reader.take(10), [3, 4, 5]);
        assert!(ring.is_empty() && reader.is_empty());
    }

    #[test]
    fn ring_without_readers_stays_empty() {
        let ring = Ring::new(9, 0);
        assert_eq!((ring.push(1_u32), ring.push(200), ring.len(), ring.dropped()), (0, 0, 0, 0));
    }

    #[tokio::test]
    async fn an_urgent_item_ends_the_wait() {
        let (ring, reader) = ring(100);
        let producer = Arc::clone(&ring);
        let thread = std::thread::spawn(move || {
            producer.push(1);
            std::thread::sleep(Duration::from_millis(20));
            producer.push(100);
        });
        let begin = Instant::now();
        assert_eq!(reader.drain(10, Duration::from_secs(20), Some(Duration::ZERO)).await, [1, 100]);
        assert!(begin.elapsed() < Duration::from_secs(10));
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn nothing_urgent_waits_its_time() {
        let (ring, reader) = ring(100);
        ring.push(1_u32);
        let begin = Instant::now();
        assert_eq!(reader.drain(10, Duration::from_millis(30), Some(Duration::ZERO)).await, [1]);
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn urgent_items_do_not_follow_each_other_closer_than_they_may() {
        let ((ring, reader), begin) = (ring(100), Instant::now());
        let (never, soonest) = (Duration::from_secs(600), Duration::from_millis(40));
        for times in 1..=3 {
            ring.push(100_u32);
            ring.push(101);
            assert_eq!(reader.drain(10, never, Some(soonest)).await, [100, 101]);
            assert!(begin.elapsed() >= soonest * times);
        }
        ring.push(100);
        let (begin, wait) = (Instant::now(), Duration::from_millis(60));
        assert_eq!(reader.drain(10, wait, None).await, [100]);
        assert!(begin.elapsed() >= wait, "urgent items wait as others do");
        (0..50).for_each(|_| _ = ring.push(1));
        assert_eq!(reader.drain(100, never, None).await.len(), 50, "a ring that fills up does not wait");
    }

    #[test]
    fn slow_reader_does_not_delay_others() {
        let ring = Arc::new(Ring::new(4, 2));
        let (quick, slow) = (ring.reader(0), ring.reader(1));
        for n in 1..=3 {
            ring.push(n);
        }
        assert_eq!((quick.take(2), quick.take(2), ring.len()), (vec![1, 2], vec![3], 3));
        assert_eq!((slow.take(1), ring.len()), (vec![1], 2));
        for n in 4..=7 {
            ring.push(n);
        }
        assert_eq!((quick.take(9), ring.dropped()), (vec![4, 5, 6, 7], 2));
        assert_eq!(quick.account(), ReaderStats { pushed: 28, waiting: 0, dropped: 0 });
        assert_eq!(slow.account(), ReaderStats { pushed: 28, waiting: 22, dropped: 5 });
        assert_eq!((slow.take(3), ring.len(), slow.take(3), ring.len()), (vec![4, 5, 6], 1, vec![7], 0));
    }

    proptest::proptest! {
        /// In any interleaving, each reader sees a rising sequence, and missing items are counted.
        #[test]
        fn missing_items_are_counted_as_dropped(steps in proptest::collection::vec((0_usize..4, 1_usize..6), 0..200)) {
            let ring = Arc::new(Ring::new(5, 2));
            let readers = [ring.reader(0), ring.reader(1)];
            let (mut pushed, mut got) = (0_u32, [const { Vec::new() }; 2]);
            for (what, n) in steps {
                match readers.get(what) {
                    Some(reader) => got[what].extend(reader.take(n)),
                    None => (0..n).for_each(|_| {
                        pushed += 1;
                        ring.push(pushed);
                    }),
                }
            }
            for (reader, mut got) in readers.iter().zip(got) {
                got.extend(reader.take(9));
                proptest::prop_assert!(got.is_sorted_by(|a, b| a < b));
                let (sum, account) = (got.iter().map(|n| u64::from(*n)).sum::<u64>(), reader.account());
                proptest::prop_assert_eq!(account.pushed, (1..=u64::from(pushed)).sum::<u64>());
                proptest::prop_assert_eq!((account.waiting, sum + account.dropped), (0, account.pushed));
            }
            proptest::prop_assert!(ring.is_empty());
        }
    }
}
