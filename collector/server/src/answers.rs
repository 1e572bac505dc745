//! Answers that wait for their readers. An answer is handed on in slices, so that what it holds (the grant of its query,
//! its bytes here) is held until the last of them is written. A reader that takes less than a rate is cut off, and if all
//! answers together hold too much, the one that has waited longest for its reader makes way.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Response, header};
use axum::response::IntoResponse as _;
use fabriclens_core::client_network::client_network;
use foldhash::HashMap;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use prometheus::IntCounter;
use tokio::time::{Instant, sleep};

use crate::activity::{ActiveRequest, Activity};
use crate::error::{ApiError, Kind};

/// Bytes handed on at once; answers up to this size are not counted.
const SLICE: usize = 16 << 10;
/// Slowest reader, bytes per second of waiting for it: a tenth of what a mobile phone has.
const RATE: usize = 16 << 10;
/// Time of waiting over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(30);
/// Time of waiting for its reader after which an answer makes way for others.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of the measurement.
const TICK: Duration = Duration::from_secs(5);
/// A client may hold the limit divided by this.
const CLIENT_FRACTION: usize = 2;
/// Least limit for all answers.
const LEAST: usize = 16 << 20;

/// All answers of a collector that wait for their readers.
pub struct Answers {
    limit: usize,
    waiting: Mutex<Waiting>,
    cut: IntCounter,
}

#[derive(Default)]
struct Waiting {
    last: u64,
    all: HashMap<u64, Entry>,
}

struct Entry {
    bytes: usize,
    client: IpAddr,
    connection: Arc<Activity>,
    /// Since when a slice waits for the reader.
    since: Option<Instant>,
    /// Time of waiting, in all and in this window.
    waited: Duration,
    window: Duration,
    /// Bytes handed on in this window.
    sent: usize,
}

impl Entry {
    /// Adds the time of waiting since the last call.
    fn advance(&mut self, waits: bool) {
        let now = Instant::now();
        let more = self.since.map_or(Duration::ZERO, |since| now - since);
        (self.waited, self.window) = (self.waited + more, self.window + more);
        self.since = waits.then_some(now);
    }
}

/// All answers together hold too much.
#[derive(Debug, PartialEq, Eq)]
struct Full;

impl Answers {
    /// Limits answers to half of `memory`, and 16 MiB at least; counts readers that are cut off.
    pub fn new(memory: usize, cut: IntCounter) -> Arc<Self> {
        Arc::new(Self { limit: (memory / 2).max(LEAST), waiting: Mutex::default(), cut })
    }

    /// Makes an answer wait for its reader, or replaces it by a request to retry.
    pub(crate) fn admit(
        self: &Arc<Self>,
        response: Response<Body>,
        client: IpAddr,
        request: ActiveRequest,
    ) -> Response<Answer> {
        let client = client_network(client);
        let bytes = response.body().size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let (mut response, mut place) = (response, Place::None);
        match bytes {
            // A stream holds only buffers, but its reader may be slow.
            None => place = Place::Stream(self.clone(), client),
            Some(bytes) if bytes > SLICE => match self.hold(bytes, client, request.activity()) {
                Ok(held) => place = Place::Held(held),
                Err(Full) => response = retry_later(),
            },
            Some(_) => {}
        }
        response.map(|body| Answer { body, rest: Bytes::new(), place, request })
    }

    fn hold(self: &Arc<Self>, bytes: usize, client: IpAddr, connection: &Arc<Activity>) -> Result<Held, Full> {
        // One answer is possible whatever its size.
        let bytes = bytes.min(self.limit / CLIENT_FRACTION);
        let mut waiting = self.waiting.lock();
        loop {
            let (mut all, mut own) = (bytes, bytes);
            for entry in waiting.all.values() {
                all += entry.bytes;
                own += if entry.client == client { entry.bytes } else { 0 };
            }
            let of_client = own > self.limit / CLIENT_FRACTION;
            if all <= self.limit && !of_client {
                break;
            }
            let entries = waiting.all.iter_mut().filter(|(_, entry)| !of_client || entry.client == client);
            let longest = entries.map(|(id, entry)| {
                entry.advance(entry.since.is_some());
                (entry.waited, *id)
            });
            let (_, id) = longest.max().filter(|(waited, _)| *waited >= PATIENCE).ok_or(Full)?;
            if let Some(entry) = waiting.all.remove(&id) {
                self.end(&entry, "others need the memory of its answer");
            }
        }
        waiting.last += 1;
        let (id, connection) = (waiting.last, connection.clone());
        let (waited, window) = (Duration::ZERO, Duration::ZERO);
        waiting.all.insert(id, Entry { bytes, client, connection, since: None, waited, window, sent: 0 });
        Ok(Held { answers: self.clone(), id })
    }

    fn end(&self, entry: &Entry, reason: &'static str) {
        self.cut.inc();
        tracing::debug!(client = %entry.client, reason, "connection closed; its reader is slow");
        entry.connection.cut();
    }

    /// Cuts off slow readers of a connection from time to time; never completes.
    pub(crate) async fn watch(&self, connection: &Arc<Activity>) {
        loop {
            sleep(TICK).await;
            if connection.rank().is_none() {
                self.cut_slow(connection);
            }
        }
    }

    fn cut_slow(&self, connection: &Arc<Activity>) {
        let mut waiting = self.waiting.lock();
        let mut own: Vec<_> = waiting.all.values_mut().filter(|e| Arc::ptr_eq(&e.connection, connection)).collect();
        // Answers on one connection share what its reader takes.
        let share = RATE / own.iter().filter(|e| e.since.is_some()).count().max(1);
        for entry in &mut own {
            entry.advance(entry.since.is_some());
            if entry.window < WINDOW {
                continue;
            }
            if (entry.sent as f64) < share as f64 * entry.window.as_secs_f64() {
                return self.end(entry, "less than the least rate");
            }
            (entry.window, entry.sent) = (Duration::ZERO, 0);
        }
    }
}

fn retry_later() -> Response<Body> {
    let text = "answers that wait for their readers hold too much memory; retry, and read answers faster";
    let mut response = ApiError::new(Kind::Unavailable, text).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("5"));
    response
}

/// The place of an answer among those that wait.
struct Held {
    answers: Arc<Answers>,
    id: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.waiting.lock().all.remove(&self.id);
    }
}

/// Where an answer is counted.
enum Place {
    /// Too small.
    None,
    /// Until its first slice has been handed on.
    Stream(Arc<Answers>, IpAddr),
    Held(Held),
}

/// Body of an answer, handed on in slices. Keeps its request in progress.
pub(crate) struct Answer {
    body: Body,
    rest: Bytes,
    place: Place,
    request: ActiveRequest,
}

impl Answer {
    /// Notes that the reader has taken all slices, or that one of some bytes waits for it.
    fn note(&mut self, slice: Option<usize>) {
        if let (Place::Stream(answers, client), Some(_)) = (&self.place, slice)
            && let Ok(held) = answers.hold(0, *client, self.request.activity())
        {
            self.place = Place::Held(held);
        }
        let Place::Held(held) = &self.place else { return };
        if let Some(entry) = held.answers.waiting.lock().all.get_mut(&held.id) {
            entry.advance(slice.is_some());
            entry.sent += slice.unwrap_or(0);
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // The reader has taken what was handed on before.
        self.note(None);
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(SLICE);
        // The last slice still keeps what the whole answer holds.
        let slice = self.rest.split_to(length);
        self.note(Some(length));
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower().saturating_add(rest));
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    const MIB: usize = 1 << 20;

    fn answers() -> Arc<Answers> {
        Answers::new(128 * MIB, IntCounter::new("cut", "cut").unwrap())
    }

    fn admit(answers: &Arc<Answers>, ip: u8, bytes: usize) -> (Response<Answer>, Arc<Activity>) {
        let connection = Activity::new();
        let body = Body::from(vec![0; bytes]);
        (answers.admit(Response::new(body), [10, 0, 0, ip].into(), connection.begin()), connection)
    }

    async fn is_cut(connection: &Activity) -> bool {
        tokio::time::timeout(Duration::ZERO, connection.ended()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_answer_holds_is_held_until_its_last_slice() {
        struct Grant(Arc<AtomicBool>, Vec<u8>);
        impl AsRef<[u8]> for Grant {
            fn as_ref(&self) -> &[u8] {
                &self.1
            }
        }
        impl Drop for Grant {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let given_back = Arc::new(AtomicBool::new(false));
        let body = Body::from(Bytes::from_owner(Grant(given_back.clone(), vec![7; MIB])));
        let answers = answers();
        let mut answer = answers.admit(Response::new(body), [10, 0, 0, 1].into(), Activity::new().begin()).into_body();
        assert_eq!(answer.size_hint().exact(), Some(MIB as u64));
        let mut read = 0;
        while read < MIB {
            assert!(!given_back.load(Ordering::Relaxed) && !answer.is_end_stream());
            // As if it were copied to a socket.
            let slice = answer.frame().await.unwrap().unwrap().into_data().unwrap().len();
            assert!(slice <= SLICE);
            read += slice;
            assert_eq!(answer.size_hint().exact(), Some((MIB - read) as u64));
        }
        assert!(answer.is_end_stream() && answer.frame().await.is_none());
        drop(answer);
        assert!(given_back.load(Ordering::Relaxed) && answers.waiting.lock().all.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_that_waited_longest_makes_way() {
        let answers = answers();
        let fits = |(answer, _): &(Response<Answer>, _)| answer.status() == 200;
        let mut all = [(1, 20), (1, 10), (2, 30)].map(|(ip, mib)| admit(&answers, ip, mib * MIB));
        assert!(all.iter().all(fits));
        assert!(!fits(&admit(&answers, 1, 3 * MIB)), "half for one client");
        assert!(!fits(&admit(&answers, 3, 5 * MIB)), "nobody has waited for long");
        assert!(fits(&admit(&answers, 3, SLICE)), "small ones are not counted");
        for (answer, _) in &mut all {
            _ = answer.body_mut().frame().await;
        }
        sleep(PATIENCE / 2).await;
        _ = all[0].0.body_mut().frame().await;
        _ = all[2].0.body_mut().frame().await;
        sleep(PATIENCE).await;
        // The first and the third read a slice meanwhile, but waited as long.
        let later = admit(&answers, 1, 5 * MIB);
        assert!(fits(&later) && answers.cut.get() == 1);
        let cut = [is_cut(&all[0].1).await, is_cut(&all[1].1).await, is_cut(&all[2].1).await];
        assert_eq!(cut.iter().filter(|cut| **cut).count(), 1, "{cut:?}");
        assert!(!cut[2], "of the same client");
        let whole = admit(&answers, 4, 200 * MIB);
        assert!(fits(&whole), "one answer of any size is possible");
    }
}
