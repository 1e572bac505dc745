//! A Prometheus-compatible engine that stores the samples. It is queried for samples, not for results, so that every
//! query means the same as with the own store. Staleness markers are needed for that, which range selectors of the
//! query API leave out. Prometheus and Mimir return them by remote read, VictoriaMetrics by its export.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};

use fabriclens_model::{Budget, Labels, Matcher, Read, ReadError, Series, settle};
use parking_lot::Mutex;
use prost::Message as _;
use ureq::Body;
use ureq::http::{Response, StatusCode};

use super::LOCAL;
use super::protocol::{LabelMatcher, Query, ReadRequest, ReadResponse, selector};
use fabriclens_config as config;
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};
use fabriclens_core::json_text::push_time;
use fabriclens_core::jsonl;
use fabriclens_core::telemetry::Telemetry;

/// Bytes accounted for a sample and for a series, as in the store.
const SAMPLE: usize = 16;
const SERIES: usize = 512;
/// Bytes of a compressed answer between two checks of the budget.
const STEP: u64 = 1 << 20;
/// Bytes of a decoded list (of series, names, values) per byte of its JSON, at most: short labels need most.
const DECODED: usize = 16;
/// Times that every engine accepts; VictoriaMetrics finds nothing from 0 on.
const TIMES: (i64, i64) = (1000, 4_102_444_800_000);

/// A client of a remote engine or of another collector.
pub struct Remote {
    client: Client,
    /// The engine has export instead of remote read, as VictoriaMetrics; detected by the first request.
    exports: AtomicBool,
    /// The server is another collector, which is queried for its own samples only.
    peer: bool,
    /// Failure of the last request.
    failure: Mutex<Option<String>>,
}

impl Remote {
    /// Creates a client.
    ///
    /// # Errors
    /// [`FileError`] with the file that cannot be read.
    pub fn new(endpoint: &config::Endpoint, telemetry: &Telemetry) -> Result<Self, FileError> {
        Ok(Self {
            client: Client::new(endpoint, telemetry)?,
            exports: AtomicBool::new(false),
            peer: false,
            failure: Mutex::default(),
        })
    }

    /// Creates a client of another collector, which has no remote read and must not query its own peers in turn.
    ///
    /// # Errors
    /// [`FileError`] with the file that cannot be read.
    pub fn peer(endpoint: &config::Endpoint, telemetry: &Telemetry) -> Result<Self, FileError> {
        Ok(Self { exports: AtomicBool::new(true), peer: true, ..Self::new(endpoint, telemetry)? })
    }

    /// Failure of the last request.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// URL of the server.
    pub(super) fn url(&self) -> &str {
        self.client.url()
    }

    /// Sorted label sets.
    pub(super) fn series(
        &self,
        matchers: &[Matcher],
        start: i64,
        end: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Labels>, ReadError> {
        let found: Vec<LabelPairs> = self.list("series", matchers, (start, end), budget)?;
        let mut all: Vec<Labels> = found.into_iter().map(|pairs| Labels::new(pairs.0)).collect();
        all.sort();
        Ok(all)
    }

    /// A sorted list of strings.
    pub(super) fn names(
        &self,
        what: &str,
        matchers: &[Matcher],
        start: i64,
        end: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<String>, ReadError> {
        let mut all: Vec<String> = self.list(what, matchers, (start, end), budget)?;
        all.sort();
        Ok(all)
    }

    /// Queries an endpoint that returns a list in `data`.
    fn list<T: serde::de::DeserializeOwned>(
        &self,
        what: &str,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        budget: &dyn Budget,
    ) -> Result<Vec<T>, ReadError> {
        #[derive(serde::Deserialize)]
        struct Answer<T> {
            data: Vec<T>,
        }
        let failed = |why: &dyn std::fmt::Display| self.ended(budget, why);
        let form = self.form(matchers, start, end);
        let query = serde_urlencoded::to_string(&form).map_err(|e| failed(&e))?;
        let request = self.client.get(&format!("{}/api/v1/{what}?{query}", self.client.url()));
        let request = self.client.within(request.map_err(|e| failed(&e))?, budget.time_left());
        let mut response = request.call().map_err(|e| failed(&e))?;
        if !response.status().is_success() {
            return Err(failed(&endpoint::error_text(&mut response)));
        }
        let bytes = self.body(&mut response, budget)?;
        budget.request(DECODED * bytes.len())?;
        let answer: Answer<T> = serde_json::from_slice(&bytes).map_err(|e| failed(&e))?;
        *self.failure.lock() = None;
        Ok(answer.data)
    }

    /// Reads a body and requests its memory piece by piece.
    fn body(&self, response: &mut Response<Body>, budget: &dyn Budget) -> Result<Vec<u8>, ReadError> {
        let (mut bytes, mut reader) = (Vec::new(), response.body_mut().with_config().limit(u64::MAX).reader());
        loop {
            budget.check()?;
            let read = reader.by_ref().take(STEP).read_to_end(&mut bytes);
            match read.map_err(|e| self.ended(budget, &e))? {
                0 => return Ok(bytes),
                read => budget.request(read)?,
            }
        }
    }

    /// Queries by remote read; `None` if the engine does not support it.
    fn read(
        &self,
        matchers: &[Matcher],
        (start_ms, end_ms): (i64, i64),
        budget: &dyn Budget,
    ) -> Result<Option<Vec<Series>>, ReadError> {
        let query = Query { start_ms, end_ms, matchers: matchers.iter().map(LabelMatcher::from).collect() };
        let plain = ReadRequest { queries: vec![query] }.encode_to_vec();
        let body = snap::raw::Encoder::new().compress_vec(&plain).map_err(|e| self.failed(e))?;
        let mut response = self.send("read", "application/x-protobuf", &body, budget)?;
        if response.status() != StatusCode::OK {
            let why = endpoint::error_text(&mut response);
            let unknown = response.status() == StatusCode::NOT_FOUND || why.contains("unsupported path");
            return if unknown { Ok(None) } else { Err(self.failed(why)) };
        }
        let bytes = self.body(&mut response, budget)?;
        let size = snap::raw::decompress_len(&bytes).map_err(|e| self.failed(e))?;
        budget.request(size)?;
        let plain = snap::raw::Decoder::new().decompress_vec(&bytes).map_err(|e| self.failed(e))?;
        budget.request(decoded(&plain, 0).map_err(|e| self.failed(e))?)?;
        let answer = ReadResponse::decode(&plain[..]).map_err(|e| self.failed(e))?;
        let series = answer.results.into_iter().flat_map(|r| r.timeseries).map(|s| {
            let labels = Labels::new(s.labels.into_iter().map(|l| (l.name, l.value)));
            let (times, values) = s.samples.iter().map(|p| (p.timestamp, p.value)).unzip();
            Series { labels, times, values }
        });
        Ok(Some(series.collect()))
    }

    /// Queries by VictoriaMetrics' export.
    fn export(
        &self,
        matchers: &[Matcher],
        (start, end): (i64, i64),
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let form = serde_urlencoded::to_string(self.form(matchers, start, end)).map_err(|e| self.failed(e))?;
        let mut response = self.send("export", "application/x-www-form-urlencoded", form.as_bytes(), budget)?;
        if response.status() != StatusCode::OK {
            // The server may have been replaced by one with remote read.
            self.exports.store(response.status() != StatusCode::NOT_FOUND, Ordering::Relaxed);
            return Err(self.failed(endpoint::error_text(&mut response)));
        }
        let mut all: BTreeMap<Labels, Series> = BTreeMap::new();
        let (mut answer, mut held) = (BufReader::new(response.body_mut().as_reader()), 0);
        loop {
            let line = next_line(&mut answer, &mut held, budget)?;
            let Some(line) = line.map_err(|e| self.ended(budget, &e))? else { break };
            if line.is_empty() {
                continue;
            }
            let chunk = jsonl::read(&line).map_err(|e| self.failed(e))?;
            budget.request(SERIES + SAMPLE * chunk.times.len())?;
            let series = all.entry(chunk.labels.clone()).or_default();
            series.labels = chunk.labels;
            series.times.extend(chunk.times);
            series.values.extend(chunk.values);
        }
        Ok(all.into_values().collect())
    }

    fn send(&self, path: &str, kind: &str, body: &[u8], budget: &dyn Budget) -> Result<Response<Body>, ReadError> {
        let request = self.client.post(&format!("{}/api/v1/{path}", self.client.url())).map_err(|e| self.failed(e))?;
        let request = request.header("content-type", kind);
        let request = match path {
            "read" => request.header("content-encoding", "snappy").header("x-prometheus-remote-read-version", "0.1.0"),
            _ => request,
        };
        self.client.within(request, budget.time_left()).send(body).map_err(|e| self.ended(budget, &e))
    }

    /// Parameters `match[]`, `start` and `end`.
    fn form(&self, matchers: &[Matcher], start: i64, end: i64) -> Vec<(&'static str, String)> {
        let seconds = |ms: i64| {
            let mut text = String::new();
            push_time(&mut text, ms.clamp(TIMES.0, TIMES.1));
            text
        };
        let mut form = vec![("start", seconds(start)), ("end", seconds(end))];
        if !matchers.is_empty() {
            form.push(("match[]", selector(matchers)));
        }
        if self.peer {
            form.push((LOCAL, "true".to_owned()));
        }
        form
    }

    /// A failed request. If the query has ended, the server is not to blame.
    fn ended(&self, budget: &dyn Budget, why: &dyn std::fmt::Display) -> ReadError {
        budget.check().err().unwrap_or_else(|| self.failed(why))
    }

    fn failed(&self, why: impl std::fmt::Display) -> ReadError {
        let what = if self.peer { "peer" } else { "remote engine" };
        let why = format!("{what} {}: {why}", self.client.url());
        *self.failure.lock() = Some(why.clone());
        ReadError::Storage(why)
    }
}

impl Read for Remote {
    fn select_within(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        budget: &dyn Budget,
    ) -> Result<Vec<Series>, ReadError> {
        let range = (start_ms.max(TIMES.0), end_ms.min(TIMES.1));
        if range.1 < range.0 {
            return Ok(Vec::new());
        }
        let known = self.exports.load(Ordering::Relaxed);
        let read = if known { None } else { self.read(matchers, range, budget)? };
        let mut found = match read {
            Some(found) => found,
            None => {
                let found = self.export(matchers, range, budget)?;
                self.exports.store(true, Ordering::Relaxed);
                found
            }
        };
        *self.failure.lock() = None;
        found.iter_mut().for_each(|s| within(s, range));
        found.retain(|s| !s.times.is_empty());
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(found)
    }
}

/// The next line without its end, `None` at the end. Its memory is requested while it is read; `held` is that of the longest
/// line so far. Twice its length: what is decoded of it is there at the same time.
fn next_line(
    answer: &mut impl BufRead,
    held: &mut usize,
    budget: &dyn Budget,
) -> Result<io::Result<Option<String>>, ReadError> {
    let mut line = Vec::new();
    loop {
        budget.check()?;
        let read = match answer.by_ref().take(STEP).read_until(b'\n', &mut line) {
            Ok(read) => read,
            Err(e) => return Ok(Err(e)),
        };
        if line.len() > *held {
            budget.request(2 * (line.len() - *held))?;
            *held = line.len();
        }
        if read == 0 || line.ends_with(b"\n") {
            break;
        }
    }
    if line.is_empty() {
        return Ok(Ok(None));
    }
    line.truncate(line.trim_ascii_end().len());
    Ok(String::from_utf8(line).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// Memory of the messages of a remote read answer, bytes: an empty one takes two bytes of the answer.
fn decoded(mut message: &[u8], depth: usize) -> Result<usize, String> {
    use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
    // Results, series, and their labels and samples.
    const BYTES: [usize; 3] = [64, 128, 64];
    let text = |e: prost::DecodeError| e.to_string();
    let mut sum = 0;
    while !message.is_empty() {
        let (tag, wire) = decode_key(&mut message).map_err(text)?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, tag, &mut message, DecodeContext::default()).map_err(text)?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut message).map_err(text)?).unwrap_or(usize::MAX);
        let Some((inner, rest)) = message.split_at_checked(length) else {
            return Err("a message of the answer is cut off".to_owned());
        };
        message = rest;
        sum += BYTES[depth] + if depth + 1 < BYTES.len() { decoded(inner, depth + 1)? } else { 0 };
    }
    Ok(sum)
}

/// Sorts by time, drops duplicate times, and cuts to the range: chunks may overlap, and samples occur twice where a
/// request was sent twice.
fn within(series: &mut Series, (start, end): (i64, i64)) {
    let (times, values) = (std::mem::take(&mut series.times), std::mem::take(&mut series.values));
    (series.times, series.values) = settle(times, values);
    let from = series.times.partition_point(|t| *t < start);
    let to = series.times.partition_point(|t| *t <= end);
    series.times.truncate(to);
    series.values.truncate(to);
    series.times.drain(..from);
    series.values.drain(..from);
}

/// A JSON object of strings.
struct LabelPairs(Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for LabelPairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = LabelPairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<LabelPairs, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(LabelPairs(all))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_chunks_become_one_series() {
        let mut s =
            Series { labels: Labels::default(), times: vec![5, 6, 7, 3, 5], values: vec![1.0, 2.0, 3.0, 4.0, 5.0] };
        within(&mut s, (3, 6));
        assert_eq!((s.times, s.values), (vec![3, 5, 6], vec![4.0, 1.0, 2.0]));
    }
    #[derive(Debug)]
    struct Bytes(std::sync::atomic::AtomicUsize);

    impl Budget for Bytes {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
        }
    }

    #[test]
    fn lines_of_an_answer_are_bounded() {
        let budget = || Bytes((8 << 20).into());
        let mut lines = BufReader::new(&b"a\r\n\nbc"[..]);
        let mut next = || next_line(&mut lines, &mut 0, &budget()).unwrap().unwrap();
        assert_eq!([next(), next(), next(), next()], [Some("a".into()), Some("".into()), Some("bc".into()), None]);
        let mut held = 0;
        let endless = next_line(&mut BufReader::new(io::repeat(b'x')), &mut held, &budget());
        assert!(matches!(endless, Err(ReadError::Memory)) && held <= 5 << 20, "{held}");
    }

    #[test]
    fn messages_of_an_answer_are_counted_before_they_are_decoded() {
        // A result with empty series, two bytes each; a series with empty labels.
        let series = [10, 0].repeat(1000);
        let result = [&[10, 0xd0, 0x0f][..], &series].concat();
        assert_eq!(decoded(&result, 0).unwrap(), 64 + 1000 * 128);
        let labels = [&[10, 102, 10, 100][..], &[10, 0].repeat(50)].concat();
        assert_eq!(decoded(&labels, 0).unwrap(), 64 + 128 + 50 * 64);
        assert!(decoded(&[10, 5, 1], 0).is_err() && decoded(&[0xff], 0).is_err());
    }
}
