//! Sends one queue to its receiver: window by window, several requests of a window at a time, and each series in order
//! of time. Refused requests are split by host, then within the host, until only the samples are dropped that the receiver
//! cannot accept: samples of one host never cost those of another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::http::StatusCode;

use super::meta::{self, MetadataSender};
use super::queue::Queue;
use super::reader::{Reader, SeriesToSend, Window};
use super::request::{self, Point};
use super::request_v2::{self, ByMetric};
use fabriclens_config::WriteMessage;
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::Client;
use fabriclens_core::failover_client::{FailoverClient, Unanswered};
use fabriclens_core::forward_telemetry::ForwardTelemetry;
use fabriclens_core::prompb_v2::SAMPLES_WRITTEN;

/// Time that a small window waits for more samples, so that many small requests become one.
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// Longest sleep without data; afterwards the age of waiting samples is checked.
const IDLE: Duration = Duration::from_secs(5);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Longest pause between two attempts to reach a receiver.
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Longest pause between two attempts to reach a judge: samples must get to a standby soon after it takes over.
pub(super) const JUDGE_MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Most splits of one host's samples in a request, of a host that was refused before, and of all hosts together.
const MAX_SPLITS: usize = 64;
const MAX_SPLITS_AGAIN: usize = 8;
const MAX_SPLITS_OF_ALL: usize = 512;
/// Most hosts that are sent apart, and for how long after a refusal.
const APART: usize = 64;
const APART_TIME: Duration = Duration::from_secs(600);
/// Pause after a failed read of the queue.
const READ_RETRY: Duration = Duration::from_secs(1);
/// Minimum interval of log lines about the same problem.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// The sending thread of a queue.
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) queue: Arc<Queue>,
    pub(super) client: FailoverClient,
    pub(super) max_backoff: Duration,
    pub(super) message: WriteMessage,
    pub(super) metadata: Mutex<MetadataSender>,
    /// What requests of version 2.0 say of metrics.
    pub(super) described: Mutex<Arc<ByMetric>>,
    pub(super) batch: usize,
    pub(super) parallel: usize,
    pub(super) telemetry: ForwardTelemetry,
    /// When a temporary failure (0) and a refusal (1) were last logged.
    pub(super) logged: Mutex<[Option<Instant>; 2]>,
    /// Hosts whose samples were refused, and when: they get requests of their own for a while.
    pub(super) refused: Mutex<HashMap<u64, Instant>>,
}

/// Why a window was not finished.
enum Unfinished {
    /// The process ends.
    Stopped,
    /// The queue dropped the window.
    Dropped,
}

/// Outcome of a request.
enum Answer {
    Taken,
    /// The receiver will never accept it.
    Refused(String),
    /// Temporary failure: retry delay if the receiver gave one, and cause.
    Later(Option<Duration>, String),
}

impl Sender {
    /// Sends windows until the queue is stopped.
    pub(super) fn run(self) {
        let mut reader = Reader::new(self.queue.clone());
        while self.queue.pause(Duration::ZERO) {
            let window = match reader.window(self.batch * self.parallel, IDLE) {
                Ok(Some(window)) => window,
                Ok(None) => continue,
                Err(error) => {
                    if self.may_log(0) {
                        tracing::warn!(queue = self.name, %error, "cannot read a forward queue");
                    }
                    self.queue.pause(READ_RETRY);
                    continue;
                }
            };
            self.queue.intend(window.segment, window.until);
            if window.damaged > 0 {
                tracing::warn!(queue = self.name, bytes = window.damaged, "damaged records of a forward queue skipped");
            }
            self.telemetry.dropped("name", window.unnamed);
            self.describe();
            match self.deliver(&window, &reader.series) {
                Ok(()) => {
                    self.queue.advance(window.segment, window.until, window.samples);
                    self.send_metadata();
                }
                Err(Unfinished::Dropped) => continue,
                Err(Unfinished::Stopped) => return,
            }
            if window.points.len() < self.batch && !self.queue.pause(BATCH_WAIT) {
                return;
            }
        }
    }

    /// A series always uses the same thread, so its samples stay in order.
    fn deliver(&self, window: &Window, series: &[SeriesToSend]) -> Result<(), Unfinished> {
        let all = |points: &[Point]| {
            let mut chunks = self.apart(points, series).into_iter();
            chunks.try_for_each(|part| part.chunks(self.batch).try_for_each(|part| self.send(window, part, series)))
        };
        if self.parallel == 1 {
            return all(&window.points);
        }
        let mut shares: Vec<Vec<Point>> = vec![Vec::new(); self.parallel];
        for p in &window.points {
            shares[p.series as usize % self.parallel].push(*p);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = shares.iter().map(|points| scope.spawn(|| all(points))).collect();
            // A panic is a bug; the window is sent again.
            threads.into_iter().try_for_each(|t| t.join().unwrap_or(Err(Unfinished::Dropped)))
        })
    }

    /// Points of hosts that were refused lately, each host apart, behind all others.
    fn apart(&self, points: &[Point], series: &[SeriesToSend]) -> Vec<Vec<Point>> {
        let mut refused = self.refused.lock();
        refused.retain(|_, at| at.elapsed() < APART_TIME);
        let (mut together, mut apart) = (Vec::new(), BTreeMap::<u64, Vec<Point>>::new());
        for point in points {
            let sender = series[point.series as usize].sender;
            let list = if refused.contains_key(&sender) { apart.entry(sender).or_default() } else { &mut together };
            list.push(*point);
        }
        std::iter::once(together).chain(apart.into_values()).collect()
    }

    fn send(&self, window: &Window, points: &[Point], series: &[SeriesToSend]) -> Result<(), Unfinished> {
        let (mut splits, mut all) = (HashMap::<u64, usize>::new(), MAX_SPLITS_OF_ALL);
        let mut parts = vec![points.to_vec()];
        while let Some(part) = parts.pop() {
            let Some(why) = self.send_until_decided(window, &part, series)? else { continue };
            if let Some((first, second)) = split_by_sender(&part, series) {
                parts.extend([second, first]);
                continue;
            }
            let sender = part.first().map_or(0, |p| series[p.series as usize].sender);
            let left = splits.entry(sender).or_insert_with(|| self.note_refusal(sender));
            match split(&part) {
                Some((first, second)) if *left > 0 && all > 0 => {
                    *left -= 1;
                    all -= 1;
                    parts.extend([second, first]);
                }
                _ => {
                    self.telemetry.dropped("rejected", part.len() as u64);
                    if self.may_log(1) {
                        let (url, samples) = (self.client.url(), part.len());
                        tracing::warn!(
                            queue = self.name,
                            url,
                            samples,
                            why,
                            "receiver refused samples; they are dropped"
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Remembers that samples of a host were refused; returns how often this part of them may be split.
    fn note_refusal(&self, sender: u64) -> usize {
        let mut refused = self.refused.lock();
        let again = refused.contains_key(&sender);
        if again || refused.len() < APART {
            refused.insert(sender, Instant::now());
        }
        if again { MAX_SPLITS_AGAIN } else { MAX_SPLITS }
    }

    /// Sends until the receiver decides; `Some` holds the reason of a refusal.
    fn send_until_decided(
        &self,
        window: &Window,
        part: &[Point],
        series: &[SeriesToSend],
    ) -> Result<Option<String>, Unfinished> {
        let plain = match self.message {
            WriteMessage::Version1 => request::encode(part, series, &window.histograms),
            WriteMessage::Version2 => {
                let described = self.described.lock().clone();
                request_v2::encode(part, series, &window.histograms, &described)
            }
        };
        let body = match snap::raw::Encoder::new().compress_vec(&plain) {
            Ok(body) => body,
            // Too long for snappy: split it.
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
            if self.may_log(0) {
                tracing::warn!(queue = self.name, url = self.client.url(), why, "request failed and will be retried");
            }
            if !self.queue.pause(wait.unwrap_or_else(|| endpoint::jitter(backoff))) {
                return Err(Unfinished::Stopped);
            }
            if !self.queue.holds(window.segment, window.from) {
                return Err(Unfinished::Dropped);
            }
            backoff = (backoff * 2).min(self.max_backoff);
        }
    }

    /// Takes the metadata for requests of version 2.0, if it is due.
    fn describe(&self) {
        if self.message == WriteMessage::Version2
            && let Some(metadata) = self.metadata.lock().due()
        {
            let by_metric = metadata.into_iter().map(|metric| (metric.name.clone(), metric)).collect();
            *self.described.lock() = Arc::new(by_metric);
        }
    }

    /// Sends metadata in requests of version 1.0, if it is due; failures do not matter.
    fn send_metadata(&self) {
        let due = if self.message == WriteMessage::Version1 { self.metadata.lock().due() } else { None };
        for plain in meta::requests(&due.unwrap_or_default()) {
            let body = snap::raw::Encoder::new().compress_vec(&plain);
            match body.map(|body| self.post(&body)) {
                Ok(Answer::Taken) => {}
                Ok(Answer::Refused(why) | Answer::Later(_, why)) => {
                    tracing::debug!(queue = self.name, why, "receiver refused metadata");
                }
                Err(error) => tracing::debug!(queue = self.name, %error, "cannot send metadata"),
            }
        }
    }

    fn post(&self, body: &[u8]) -> Answer {
        let several = self.client.clients().len() > 1;
        let asked = self.client.ask(|client| match post_to(client, self.message, body) {
            Answer::Later(after, why) if several => Err(Unanswered { after, why: format!("{}: {why}", client.url()) }),
            Answer::Later(after, why) => Err(Unanswered { after, why }),
            decided => Ok(decided),
        });
        asked.unwrap_or_else(|none| Answer::Later(none.after, none.why))
    }

    /// Whether a problem of this kind may be logged now: at most once per [`LOG_EVERY`].
    fn may_log(&self, kind: usize) -> bool {
        let mut logged = self.logged.lock();
        let due = logged[kind].is_none_or(|at| at.elapsed() > LOG_EVERY);
        if due {
            logged[kind] = Some(Instant::now());
        }
        due
    }
}

/// Sends a request to one server.
fn post_to(client: &Client, message: WriteMessage, body: &[u8]) -> Answer {
    let request = match client.post(client.url()) {
        Ok(request) => request,
        Err(e) => return Answer::Later(None, e.to_string()),
    };
    let (kind, version) = match message {
        WriteMessage::Version1 => ("application/x-protobuf".to_owned(), "0.1.0"),
        WriteMessage::Version2 => (format!("application/x-protobuf;proto={}", message.name()), "2.0.0"),
    };
    let request = request
        .header("content-type", kind)
        .header("content-encoding", "snappy")
        .header("x-prometheus-remote-write-version", version)
        // Another collector then takes the series that only collectors write.
        .header("x-fabriclens-forward", "1");
    let mut response = match request.send(body) {
        Ok(response) => response,
        Err(e) => return Answer::Later(None, e.to_string()),
    };
    let status = response.status();
    let may_ignore = message == WriteMessage::Version2 && response.headers().get(SAMPLES_WRITTEN).is_none();
    if status.is_success() {
        // The connection can only be reused after the body was read.
        _ = endpoint::error_text(&mut response);
        // A receiver of 1.0 reads such a request as an empty one.
        let why = "it takes no remote write 2.0; remove `protobuf_message`, or enable it there";
        return if may_ignore { Answer::Later(None, why.to_owned()) } else { Answer::Taken };
    }
    let wait = endpoint::retry_after(&response);
    let why = endpoint::error_text(&mut response);
    if is_about_samples(status) { Answer::Refused(why) } else { Answer::Later(wait, why) }
}

/// Whether the status is about the samples, so that a retry cannot help. Authentication, address, version and load of the
/// receiver can change, so those requests are retried.
fn is_about_samples(status: StatusCode) -> bool {
    let later = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    status.is_client_error() && !later.contains(&status)
}

/// Splits a request in two with half of the hosts each; `None` if all samples are of one.
fn split_by_sender(part: &[Point], series: &[SeriesToSend]) -> Option<(Vec<Point>, Vec<Point>)> {
    let sender = |point: &Point| series[point.series as usize].sender;
    let mut senders: Vec<u64> = part.iter().map(sender).collect();
    senders.sort_unstable();
    senders.dedup();
    let border = *senders.get(senders.len() / 2).filter(|_| senders.len() > 1)?;
    Some(part.iter().partition(|point| sender(point) < border))
}

/// Splits a request in two, to be sent in this order: older samples first, or by series if all have the same time.
fn split(part: &[Point]) -> Option<(Vec<Point>, Vec<Point>)> {
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
    fn refused_requests_split_by_time_then_series() {
        let point = |series, time| Point { series, time, value: 1.0, histogram: None };
        let part = [point(0, 1), point(0, 5), point(1, 1), point(1, 5), point(1, 9)];
        let (old, new) = split(&part).unwrap();
        assert_eq!(old, [point(0, 1), point(1, 1)]);
        assert_eq!(new, [point(0, 5), point(1, 5), point(1, 9)]);
        assert_eq!(split(&old).unwrap(), (vec![point(0, 1)], vec![point(1, 1)]));
        // Most samples have the oldest time.
        let part = [point(0, 1), point(1, 1), point(2, 1), point(2, 2)];
        assert_eq!(split(&part).unwrap().1, [point(2, 2)]);
        assert!(split(&part[..1]).is_none());
    }

    #[test]
    fn only_answers_about_samples_are_final() {
        let s = |n| StatusCode::from_u16(n).unwrap();
        assert!([400, 409, 413, 422].map(s).iter().all(|s| is_about_samples(*s)));
        assert!(![401, 403, 404, 408, 415, 429, 500, 502, 503, 504, 301].map(s).iter().any(|s| is_about_samples(*s)));
    }
}
