//! Runs an expensive call on a thread of its own, at a rate that its cost determines. Used by the samplers
//! `queue_pairs` and `tcp_peers`.
//!
//! The kernel queries the device for each queue pair, so a list of thousands takes long, and a faulty device may never
//! answer; hosts have tens of thousands of sockets. No such call may delay other sampling, and calls never overlap.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Pause after a call, as a multiple of its processor time: 0.2 % of a core.
const OF_PROCESSOR: u32 = 500;
/// Pause after a call, as a multiple of its duration, since the device is busy meanwhile: 1 %.
const OF_TIME: u32 = 100;

/// An expensive call in the background.
pub struct Background<T> {
    name: &'static str,
    call: Arc<dyn Fn() -> T + Send + Sync>,
    under_way: Option<(Instant, Receiver<(T, Cost)>)>,
    due: Instant,
    /// Duration of the last call.
    pub took: Option<Duration>,
}

/// Cost of a call.
struct Cost {
    time: Duration,
    processor: Duration,
}

impl Cost {
    fn pause(&self) -> Duration {
        (self.time * OF_TIME).max(self.processor * OF_PROCESSOR)
    }
}

impl<T: Send + 'static> Background<T> {
    /// Prepares the call without making it; `name` becomes the name of the thread.
    pub fn new(name: &'static str, call: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { name, call: Arc::new(call), under_way: None, due: Instant::now(), took: None }
    }

    /// Makes the call if it is due, and waits at most `patience` for a result. `None` if there is no new one.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn poll(&mut self, patience: Duration) -> std::io::Result<Option<T>> {
        if self.under_way.is_none() && Instant::now() >= self.due {
            let (send, receive) = sync_channel(1);
            let call = Arc::clone(&self.call);
            let body = move || {
                let (begin, processor) = (Instant::now(), processor_time());
                let answer = call();
                let processor = processor_time().saturating_sub(processor);
                // The receiver is gone if the device went away meanwhile.
                _ = send.send((answer, Cost { time: begin.elapsed(), processor }));
            };
            std::thread::Builder::new().name(self.name.into()).stack_size(256 * 1024).spawn(body)?;
            self.under_way = Some((Instant::now(), receive));
        }
        let Some((_, receive)) = &self.under_way else { return Ok(None) };
        let answer = match receive.recv_timeout(patience) {
            Ok((answer, cost)) => {
                self.due = Instant::now() + cost.pause();
                self.took = Some(cost.time);
                Some(answer)
            }
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            // The call panicked: charged with a second.
            Err(RecvTimeoutError::Disconnected) => {
                self.due = Instant::now() + Duration::from_secs(1) * OF_TIME;
                None
            }
        };
        self.under_way = None;
        Ok(answer)
    }

    /// Duration of the call in progress.
    pub fn waiting(&self) -> Option<Duration> {
        self.under_way.as_ref().map(|(since, _)| since.elapsed())
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn result_is_given_once_and_the_next_call_is_delayed() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let mut background = Background::new("test", move || {
            std::thread::sleep(Duration::from_millis(200));
            counted.fetch_add(1, Ordering::Relaxed)
        });
        assert_eq!(background.poll(LONG).unwrap(), Some(0));
        assert!(background.took.unwrap() >= Duration::from_millis(200));
        assert_eq!(background.poll(LONG).unwrap(), None, "twenty seconds have not passed");
        background.due = Instant::now();
        assert_eq!(background.poll(LONG).unwrap(), Some(1));
    }

    #[test]
    fn hanging_call_is_not_repeated() {
        let calls = Arc::new(AtomicU32::new(0));
        let (counted, (send, receive)) = (Arc::clone(&calls), sync_channel::<()>(0));
        let receive = parking_lot::Mutex::new(receive);
        let mut background = Background::new("test", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            _ = receive.lock().recv();
        });
        for _ in 0..3 {
            assert_eq!(background.poll(Duration::from_millis(20)).unwrap(), None);
        }
        assert!(background.waiting().is_some());
        drop(send);
        assert_eq!(background.poll(LONG).unwrap(), Some(()));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(background.waiting(), None);
    }

    #[test]
    fn processor_time_and_device_time_both_count() {
        let pause = |time: u64, processor: u64| {
            Cost { time: Duration::from_millis(time), processor: Duration::from_millis(processor) }.pause().as_millis()
        };
        assert_eq!([pause(100, 1), pause(100, 100), pause(0, 0)], [10_000, 50_000, 0]);
    }

    #[test]
    fn panicking_call_gives_no_result() {
        let mut background = Background::new("test", || -> u32 { panic!("broken on purpose") });
        assert_eq!(background.poll(LONG).unwrap(), None);
        assert_eq!(background.waiting(), None);
        assert!(background.due > Instant::now(), "and is not made again at once");
    }
}
