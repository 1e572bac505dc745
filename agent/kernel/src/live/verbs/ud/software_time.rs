//! Times of datagrams where the NIC has no time stamps: the host's clock, without the time that this thread waited for a CPU.
//!
//! A thread that is woken by a completion may wait long for a CPU on a busy host. The scheduler counts that time
//! (`/proc/thread-self/schedstat`), so it is taken off, and shows as delay of the host and not of the network. A completion
//! that comes during the wait then gets too early a time: a round trip may be told too short, never too long. A datagram
//! leaves while it is posted, so it counts as sent in the middle of that call, and at its end if the thread lost its CPU.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// Wait for a CPU that matters.
const LOST_CPU: Duration = Duration::from_micros(20);

/// A datagram that is being posted.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    waited: Option<Duration>,
    begin: Instant,
}

/// Clock of one thread.
#[derive(Debug)]
pub struct SoftwareTime {
    origin: Instant,
    /// Scheduler's statistics of the thread that polls; `None` if not offered.
    statistics: Option<File>,
    /// Begin of the wait, and the time waited for a CPU until then.
    wait: Option<(Instant, Duration)>,
}

impl SoftwareTime {
    /// Clock of the calling thread.
    pub fn new() -> Self {
        let statistics = File::open("/proc/thread-self/schedstat").ok();
        Self { origin: Instant::now(), statistics, wait: None }
    }

    /// Time now, nanoseconds.
    pub fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// Begins a wait for a completion.
    pub fn begin_wait(&mut self) {
        self.wait = self.waited_for_cpu().map(|waited| (Instant::now(), waited));
    }

    /// Ends the wait; time at which the thread could have gone on, nanoseconds.
    pub fn end_wait(&mut self) -> u64 {
        let now = Instant::now();
        let Some((begin, before)) = self.wait.take() else { return self.at(now) };
        let Some(after) = self.waited_for_cpu() else { return self.at(now) };
        let late = after.saturating_sub(before).min(now - begin);
        self.at(now - late)
    }

    /// Begins to post a datagram.
    pub fn begin_post(&self) -> Post {
        Post { waited: self.waited_for_cpu(), begin: Instant::now() }
    }

    /// Ends the call that has posted a datagram; time at which it counts as sent, nanoseconds.
    pub fn end_post(&self, post: Post) -> u64 {
        let end = Instant::now();
        let lost = match (self.waited_for_cpu(), post.waited) {
            (Some(after), Some(before)) => after.saturating_sub(before) >= LOST_CPU,
            _ => false,
        };
        self.at(if lost { end } else { post.begin + (end - post.begin) / 2 })
    }

    fn at(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time that the thread was ready and did not run, since its start.
    fn waited_for_cpu(&self) -> Option<Duration> {
        let mut bytes = [0; 96];
        let length = self.statistics.as_ref()?.read_at(&mut bytes, 0).ok()?;
        parse(bytes.get(..length)?)
    }
}

/// Second number of `schedstat`: nanoseconds in the run queue.
fn parse(line: &[u8]) -> Option<Duration> {
    std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_the_run_queue_is_parsed() {
        assert_eq!(parse(b"123456 7890 12\n"), Some(Duration::from_nanos(7890)));
        assert_eq!(parse(b"123456\n"), None);
        assert_eq!(parse(b"a b c"), None);
    }

    #[test]
    fn time_goes_on_and_a_wait_ends_within_it() {
        let mut clock = SoftwareTime::new();
        let before = clock.now();
        clock.begin_wait();
        std::thread::sleep(Duration::from_millis(5));
        let woken = clock.end_wait();
        assert!(before <= woken && woken <= clock.now(), "{before} {woken}");
        let post = clock.begin_post();
        std::thread::sleep(Duration::from_millis(4));
        let (posted, after) = (clock.end_post(post), clock.now());
        assert!(posted > woken && posted <= after, "{woken} {posted} {after}");
        // Without a wait it is the time now.
        let now = clock.end_wait();
        assert!(now >= woken);
    }
}
