//! Sends one queue to its receiver: one window after the other, within it some requests at a time, each series always
//! in order of time. What a receiver refuses is split until only what it cannot take is left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::http::StatusCode;

use super::meta::Teller;
use super::queue::Queue;
use super::reader::{Reader, Window};
use super::request::{self, Point};
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::Client;
use fabriclens_core::telemetry::ForwardTelemetry;

/// How long new samples wait for company, so that many small requests become one.
const LINGER: Duration = Duration::from_millis(100);
/// How long the sender sleeps when nothing comes; then it looks after the age of what waits.
const IDLE: Duration = Duration::from_secs(5);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// Times that one request is cut in two to find what the receiver does not take.
const CUTS: usize = 64;
/// Pause after the queue could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Distance of log lines about the same trouble.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// One sending thread.
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) queue: Arc<Queue>,
    pub(super) client: Client,
    pub(super) teller: Mutex<Teller>,
    pub(super) batch: usize,
    pub(super) parallel: usize,
    pub(super) telemetry: ForwardTelemetry,
    pub(super) logged: Mutex<[Option<Instant>; 2]>,
}

/// Why a window is not finished.
enum Left {
    /// The process ends.
    Stopped,
    /// The queue has dropped it meanwhile.
    Dropped,
}

/// What a receiver made of a request.
enum Answer {
    Taken,
    /// It will never take this.
    Refused(String),
    /// Not now.
    Later(Option<Duration>, String),
}

impl Sender {
    /// Until the queue is stopped.
    pub(super) fn run(self) {
        let mut reader = Reader::new(self.queue.clone());
        while self.queue.pause(Duration::ZERO) {
            let window = match reader.window(self.batch * self.parallel, IDLE) {
                Ok(Some(window)) => window,
                Ok(None) => continue,
                Err(error) => {
                    self.log(0, &format!("cannot read the queue: {error}"));
                    self.queue.pause(READ_AGAIN);
                    continue;
                }
            };
            self.queue.intend(window.segment, window.until);
            if window.damaged > 0 {
                tracing::warn!(queue = self.name, bytes = window.damaged, "damaged records in a forward queue skipped");
            }
            match self.deliver(&window, &reader.series) {
                Ok(()) => {
                    self.queue.advance(window.segment, window.until, window.samples);
                    self.tell();
                }
                Err(Left::Dropped) => continue,
                Err(Left::Stopped) => return,
            }
            if window.points.len() < self.batch && !self.queue.pause(LINGER) {
                return;
            }
        }
    }

    /// A series always goes the same way, so its samples stay in order.
    fn deliver(&self, window: &Window, series: &[Arc<[u8]>]) -> Result<(), Left> {
        let all = |points: &[Point]| points.chunks(self.batch).try_for_each(|part| self.send(window, part, series));
        if self.parallel == 1 {
            return all(&window.points);
        }
        let mut ways: Vec<Vec<Point>> = vec![Vec::new(); self.parallel];
        for p in &window.points {
            ways[p.series as usize % self.parallel].push(*p);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = ways.iter().map(|points| scope.spawn(|| all(points))).collect();
            // A panic of such a thread is a bug; its samples are sent again.
            threads.into_iter().try_for_each(|t| t.join().unwrap_or(Err(Left::Dropped)))
        })
    }

    fn send(&self, window: &Window, points: &[Point], series: &[Arc<[u8]>]) -> Result<(), Left> {
        let (mut cuts, mut parts) = (CUTS, vec![points.to_vec()]);
        while let Some(part) = parts.pop() {
            let Some(why) = self.insist(window, &part, series)? else { continue };
            match cut(&part) {
                Some((first, second)) if cuts > 0 => {
                    cuts -= 1;
                    parts.extend([second, first]);
                }
                _ => {
                    self.telemetry.dropped("rejected", part.len() as u64);
                    self.log(1, &format!("{} samples dropped, the receiver refuses them: {why}", part.len()));
                }
            }
        }
        Ok(())
    }

    /// Sends until the receiver has decided; `Some` tells why it refuses.
    fn insist(&self, window: &Window, part: &[Point], series: &[Arc<[u8]>]) -> Result<Option<String>, Left> {
        let plain = request::encode(part, series);
        let body = match snap::raw::Encoder::new().compress_vec(&plain) {
            Ok(body) => body,
            // Too long for snappy: cut it.
            Err(e) => return Ok(Some(e.to_string())),
        };
        let mut backoff = FIRST_BACKOFF;
        loop {
            let (wait, why) = match self.post(&body) {
                Answer::Taken => {
                    let newest = part.iter().map(|p| p.time).max().unwrap_or(i64::MIN);
                    self.telemetry.sent(part.len() as u64, body.len() as u64, newest);
                    return Ok(None);
                }
                Answer::Refused(why) => return Ok(Some(why)),
                Answer::Later(wait, why) => (wait, why),
            };
            self.telemetry.failed();
            self.log(0, &format!("not taken, sent again later: {why}"));
            if !self.queue.pause(wait.unwrap_or_else(|| endpoint::jitter(backoff))) {
                return Err(Left::Stopped);
            }
            if !self.queue.holds(window.segment, window.from) {
                return Err(Left::Dropped);
            }
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    /// Sends metadata if it is time; a receiver that does not want it loses nothing.
    fn tell(&self) {
        for plain in self.teller.lock().due() {
            let body = snap::raw::Encoder::new().compress_vec(&plain);
            match body.map(|body| self.post(&body)) {
                Ok(Answer::Taken) => {}
                Ok(Answer::Refused(why) | Answer::Later(_, why)) => {
                    tracing::debug!(queue = self.name, why, "metadata not taken");
                }
                Err(error) => tracing::debug!(queue = self.name, %error, "metadata not sent"),
            }
        }
    }

    fn post(&self, body: &[u8]) -> Answer {
        let request = match self.client.post(self.client.url()) {
            Ok(request) => request,
            Err(e) => return Answer::Later(None, e.to_string()),
        };
        let request = request
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0");
        let mut response = match request.send(body) {
            Ok(response) => response,
            Err(e) => return Answer::Later(None, e.to_string()),
        };
        let status = response.status();
        if status.is_success() {
            // Read to its end, so that the connection can be used again.
            _ = endpoint::said(&mut response);
            return Answer::Taken;
        }
        let wait = endpoint::retry_after(&response);
        let why = endpoint::said(&mut response);
        if is_about_samples(status) { Answer::Refused(why) } else { Answer::Later(wait, why) }
    }

    /// Says so, if it has not just been said; `kind` tells lines about different things apart.
    fn log(&self, kind: usize, message: &str) {
        let mut logged = self.logged.lock();
        if logged[kind].is_none_or(|at| at.elapsed() > LOG_EVERY) {
            logged[kind] = Some(Instant::now());
            tracing::warn!(queue = self.name, url = self.client.url(), "{message}");
        }
    }
}

/// Whether this answer is about what was sent, so that sending it again cannot help. Who we are, where we ask and how
/// busy the receiver is can change without the samples: those wait.
fn is_about_samples(status: StatusCode) -> bool {
    let later = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !later.contains(&status)
}

/// Two halves, the first to be sent first: the older samples, or some of the series when all have one time.
fn cut(part: &[Point]) -> Option<(Vec<Point>, Vec<Point>)> {
    if part.len() < 2 {
        return None;
    }
    let mut times: Vec<i64> = part.iter().map(|p| p.time).collect();
    times.sort_unstable();
    let (oldest, middle) = (times[0], times[times.len() / 2]);
    if oldest == times[times.len() - 1] {
        let (a, b) = part.split_at(part.len() / 2);
        return Some((a.to_vec(), b.to_vec()));
    }
    let border = if middle > oldest { middle } else { oldest + 1 };
    Some(part.iter().partition(|p| p.time < border))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_cut_by_time_then_by_series_and_ends() {
        let point = |series, time| Point { series, time, value: 1.0 };
        let part = [point(0, 1), point(0, 5), point(1, 1), point(1, 5), point(1, 9)];
        let (old, new) = cut(&part).unwrap();
        assert_eq!(old, [point(0, 1), point(1, 1)]);
        assert_eq!(new, [point(0, 5), point(1, 5), point(1, 9)]);
        assert_eq!(cut(&old).unwrap(), (vec![point(0, 1)], vec![point(1, 1)]));
        // Most samples have the oldest time.
        let part = [point(0, 1), point(1, 1), point(2, 1), point(2, 2)];
        assert_eq!(cut(&part).unwrap().1, [point(2, 2)]);
        assert!(cut(&part[..1]).is_none());
    }

    #[test]
    fn only_answers_about_samples_are_final() {
        let s = |n| StatusCode::from_u16(n).unwrap();
        assert!([400, 409, 413, 422].map(s).iter().all(|s| is_about_samples(*s)));
        assert!(![401, 403, 404, 408, 429, 500, 502, 503, 504, 301].map(s).iter().any(|s| is_about_samples(*s)));
    }
}
