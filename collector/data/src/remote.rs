//! A Prometheus-compatible engine that stores the samples. It is queried for samples, and for results only of aggregations by which it
//! means the same (`computed.rs`), so that every query means the same as with the own store. Staleness markers are needed for that, which
//! range selectors of the query API leave out. Prometheus and Mimir return them by remote read, VictoriaMetrics by its export.

mod answer;
mod computed;

use std::io::{BufReader, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};

use answer::{Found, LabelPairs, SAMPLE, SERIES, STEP, decoded, next_line};
use computed::{Answer, KnownDialect, Question};
use fabriclens_model::{Aggregated, Aggregation, Budget, Hint, Labels, Matcher, Read, ReadError, Selected, Series};
use parking_lot::Mutex;
use prost::Message as _;
use ureq::Body;
use ureq::http::{Response, StatusCode};

use super::protocol::{LabelMatcher, Query, ReadRequest, ReadResponse, selector};
use super::{HISTOGRAMS, LOCAL};
use fabriclens_config as config;
use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};
use fabriclens_core::json_text::push_time;
use fabriclens_core::jsonl::{self, Samples};
use fabriclens_core::telemetry::Telemetry;

/// Bytes of a decoded list (of series, names, values) per byte of its JSON, at most: short labels need most.
const DECODED: usize = 16;
/// Content type of parameters in a body.
const FORM: &str = "application/x-www-form-urlencoded";
/// Times that every engine accepts; VictoriaMetrics finds nothing from 0 on.
const TIMES: (i64, i64) = (1000, 4_102_444_800_000);

/// A client of a remote engine or of another collector.
pub struct Remote {
    client: Client,
    /// The engine has export instead of remote read, as VictoriaMetrics; detected by the first request.
    exports: AtomicBool,
    /// What the engine means by aggregations.
    dialect: KnownDialect,
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
            dialect: KnownDialect::default(),
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
    ) -> Result<Option<Found>, ReadError> {
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
        let mut found = Found::default();
        for s in answer.results.into_iter().flat_map(|r| r.timeseries) {
            let labels = Labels::new(s.labels.into_iter().map(|l| (l.name, l.value)));
            if !s.histograms.is_empty() {
                found.add_histograms(labels.clone(), &s.histograms, budget)?.map_err(|e| self.failed(e))?;
            }
            if !s.samples.is_empty() {
                found.add_floats(labels, s.samples.iter().map(|p| (p.timestamp, p.value)));
            }
        }
        Ok(Some(found))
    }

    /// Queries by VictoriaMetrics' export.
    fn export(&self, matchers: &[Matcher], (start, end): (i64, i64), budget: &dyn Budget) -> Result<Found, ReadError> {
        let mut form = self.form(matchers, start, end);
        if self.peer {
            form.push((HISTOGRAMS, "true".to_owned()));
        }
        let form = serde_urlencoded::to_string(form).map_err(|e| self.failed(e))?;
        let mut response = self.send("export", FORM, form.as_bytes(), budget)?;
        if response.status() != StatusCode::OK {
            // The server may have been replaced by one with remote read.
            self.exports.store(response.status() != StatusCode::NOT_FOUND, Ordering::Relaxed);
            return Err(self.failed(endpoint::error_text(&mut response)));
        }
        let mut found = Found::default();
        let (mut answer, mut held) = (BufReader::new(response.body_mut().as_reader()), 0);
        loop {
            let line = next_line(&mut answer, &mut held, budget)?;
            let Some(line) = line.map_err(|e| self.ended(budget, &e))? else { break };
            if line.is_empty() {
                continue;
            }
            let chunk = jsonl::read(&line).map_err(|e| self.failed(e))?;
            budget.request(SERIES + SAMPLE * chunk.times.len())?;
            match chunk.samples {
                Samples::Floats(values) => found.add_floats(chunk.labels, chunk.times.into_iter().zip(values)),
                Samples::Histograms(messages) => {
                    found.add_histograms(chunk.labels, &messages, budget)?.map_err(|e| self.failed(e))?;
                }
            }
        }
        Ok(found)
    }

    /// Sends a query; `None` if the engine refuses it.
    fn ask(&self, (path, form): Question<'_>, budget: &dyn Budget) -> Result<Option<Answer>, ReadError> {
        let form = serde_urlencoded::to_string(form).map_err(|e| self.failed(e))?;
        let mut response = self.send(path, FORM, form.as_bytes(), budget)?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        let bytes = self.body(&mut response, budget)?;
        budget.request(DECODED * bytes.len())?;
        Ok(serde_json::from_slice(&bytes).ok())
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
        let found = self.select_for(matchers, start_ms, end_ms, Hint::default(), budget)?;
        Ok(found.series.into_iter().map(Into::into).collect())
    }

    fn select_for(
        &self,
        matchers: &[Matcher],
        start_ms: i64,
        end_ms: i64,
        _hint: Hint,
        budget: &dyn Budget,
    ) -> Result<Selected, ReadError> {
        let range = (start_ms.max(TIMES.0), end_ms.min(TIMES.1));
        if range.1 < range.0 {
            return Ok(Selected::default());
        }
        let known = self.exports.load(Ordering::Relaxed);
        let read = if known { None } else { self.read(matchers, range, budget)? };
        let found = match read {
            Some(found) => found,
            None => {
                let found = self.export(matchers, range, budget)?;
                self.exports.store(true, Ordering::Relaxed);
                found
            }
        };
        *self.failure.lock() = None;
        Ok(found.within(range))
    }

    fn aggregate(&self, of: &Aggregation<'_>, budget: &dyn Budget) -> Result<Option<Aggregated>, ReadError> {
        let first = of.start_ms.saturating_sub(of.offset_ms).saturating_sub(of.range_ms);
        if self.peer || first < TIMES.0 || of.time(of.steps) > TIMES.1 {
            return Ok(None);
        }
        self.dialect.compute(of, |question| self.ask(question, budget))
    }
}
