//! `/api/v1/import`: JSON lines as written by `/api/v1/export`, of this collector or of VictoriaMetrics. Read line by
//! line and stored in batches, with the checks of remote write.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use prost::Message as _;

use super::refusal::Refusal;
use super::{Ingest, IngestError, Report, gate};
use fabriclens_core::jsonl::{self, Samples};
use fabriclens_core::protocol::Protocol;
use fabriclens_forward::request;
use fabriclens_forward::request::Point;
use fabriclens_server::auth::Caller;
use fabriclens_server::body;

/// Bytes of lines that are stored together.
const BATCH: usize = 1 << 20;
/// Compressed bytes that are decompressed at once: at most a thousand times as many.
const STEP: usize = 1024;
/// Longest time without data from the client.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

type Gzip = flate2::write::MultiGzDecoder<Vec<u8>>;

/// Lines that are stored together.
#[derive(Default)]
struct Batch {
    series: Vec<Vec<u8>>,
    points: Vec<Point>,
    /// Encoded messages.
    histograms: Vec<Vec<u8>>,
}

impl Batch {
    fn add(&mut self, text: &str) -> Result<(), String> {
        let line = jsonl::read(text)?;
        let series = self.series.len() as u32;
        self.series.push(request::labels(&line.labels));
        match line.samples {
            Samples::Floats(values) => {
                let points = line.times.into_iter().zip(values);
                self.points.extend(points.map(|(time, value)| Point { series, time, value, histogram: None }));
            }
            Samples::Histograms(messages) => {
                for message in messages {
                    let histogram = Some(self.histograms.len() as u32);
                    self.points.push(Point { series, time: message.timestamp, value: 0.0, histogram });
                    self.histograms.push(message.encode_to_vec());
                }
            }
        }
        Ok(())
    }
}

/// Converts lines to a `WriteRequest`; errors carry the line number within the request.
pub(super) fn parse(lines: &[u8], before: u64) -> Result<Vec<u8>, IngestError> {
    let mut batch = Batch::default();
    for (line, number) in lines.split(|b| *b == b'\n').zip(before + 1..) {
        let malformed = |what: String| {
            let format = "{\"metric\":{…},\"values\":[…],\"timestamps\":[…]}, or with histograms in place of values";
            IngestError::Malformed(format!(
                "line {number}: {what}; a line must be {format}; lines before it may be stored"
            ))
        };
        let text = std::str::from_utf8(line).map_err(|e| malformed(e.to_string()))?.trim();
        if !text.is_empty() {
            batch.add(text).map_err(malformed)?;
        }
    }
    Ok(request::encode(&batch.points, &batch.series, &batch.histograms))
}

/// State of one import.
struct Import {
    ingest: Arc<Ingest>,
    caller: Caller,
    /// Bytes not yet stored, and their share of the quota of bodies.
    rest: Vec<u8>,
    /// Place of the last line break in `rest`.
    line_end: Option<usize>,
    body: gate::BodyLease,
    /// Lines stored so far.
    lines: u64,
    report: Report,
}

impl Import {
    /// Takes decompressed bytes and stores whole lines once there is a batch of them.
    async fn feed(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.keep(self.rest.len() + bytes.len())?;
        // Only what is new is searched: a line may come in thousands of pieces.
        if let Some(at) = bytes.iter().rposition(|b| *b == b'\n') {
            self.line_end = Some(self.rest.len() + at);
        }
        self.rest.extend_from_slice(bytes);
        if self.rest.len() < BATCH {
            return Ok(());
        }
        let limit = self.ingest.message_size();
        match self.line_end.take() {
            Some(last) => {
                let rest = self.rest.split_off(last + 1);
                let lines = std::mem::replace(&mut self.rest, rest);
                self.store(lines).await?;
                self.keep(self.rest.len())
            }
            None if self.rest.len() > limit => Err(body::BodyError::TooLarge { when: "line", limit }.into()),
            None => Ok(()),
        }
    }

    /// Decompresses the beginning of `packed`, about a batch of lines, off the server's threads: little that is
    /// received can be much work.
    async fn inflate(&self, decoder: &mut Gzip, packed: &mut Bytes) -> Result<Vec<u8>, Refusal> {
        let _permit = self.ingest.enter(Protocol::Import).await?;
        let mut taken = std::mem::replace(decoder, Gzip::new(Vec::new()));
        let mut rest = std::mem::take(packed);
        let work = move || {
            // In small steps, so that the limit of a line's length stops a decompression bomb.
            while !rest.is_empty() && taken.get_ref().len() < BATCH {
                taken.write_all(&rest.split_to(rest.len().min(STEP))).map_err(corrupt)?;
            }
            Ok::<_, body::BodyError>((taken, rest))
        };
        let done = tokio::task::spawn_blocking(work).await;
        (*decoder, *packed) = done.map_err(|e| IngestError::Internal(e.to_string()))??;
        Ok(std::mem::take(decoder.get_mut()))
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Refusal> {
        Ok(self.body.keep(bytes).map_err(|rejection| self.ingest.reject(Protocol::Import, None, rejection))?)
    }

    async fn store(&mut self, lines: Vec<u8>) -> Result<(), Refusal> {
        let _permit = self.ingest.enter(Protocol::Import).await?;
        let before = self.lines;
        self.lines += lines.iter().filter(|b| **b == b'\n').count() as u64;
        let parsed = tokio::task::spawn_blocking(move || parse(&lines, before)).await;
        let request = parsed.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string())))?;
        self.report.join(self.ingest.remote_write(Protocol::Import, self.caller.clone(), false, request.into()).await?);
        Ok(())
    }
}

/// Handles an import: 204 if everything is stored, 400 with the reasons if some samples are rejected.
pub(super) async fn import(
    State(ingest): State<Arc<Ingest>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let counted = ingest.clone();
    let lease =
        ingest.gate.body(caller.address).map_err(|rejection| ingest.reject(Protocol::Import, None, rejection).into());
    let taken = match lease {
        Ok(lease) => {
            let lines = Import {
                ingest,
                caller,
                rest: vec![],
                line_end: None,
                body: lease,
                lines: 0,
                report: Report::default(),
            };
            take(lines, &headers, body).await
        }
        Err(rejection) => Err(rejection),
    };
    match taken.map(|report| report.message()) {
        Ok(message) if message.is_empty() => StatusCode::NO_CONTENT.into_response(),
        Ok(message) => (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response(),
        Err(refusal) => {
            counted.refused(Protocol::Import, refusal.reason);
            refusal.into_text()
        }
    }
}

async fn take(mut import: Import, headers: &HeaderMap, mut body: Body) -> Result<Report, Refusal> {
    let mut gzip = match body::encoding(headers).as_str() {
        "identity" | "" => None,
        "gzip" | "x-gzip" => Some(Gzip::new(Vec::new())),
        other => return Err(body::BodyError::Encoding(other.to_owned(), "gzip or none").into()),
    };
    loop {
        let Ok(frame) = tokio::time::timeout(IDLE_TIMEOUT, body.frame()).await else {
            return Err(Refusal::slow(IDLE_TIMEOUT));
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| body::BodyError::Cut(e.to_string()))?;
        let Some(data) = frame.data_ref() else { continue };
        match &mut gzip {
            None => import.feed(data).await?,
            Some(decoder) => {
                let mut packed = data.clone();
                while !packed.is_empty() {
                    let plain = import.inflate(decoder, &mut packed).await?;
                    import.feed(&plain).await?;
                }
            }
        }
    }
    if let Some(mut decoder) = gzip {
        decoder.try_finish().map_err(corrupt)?;
        import.feed(decoder.get_ref()).await?;
    }
    let last = std::mem::take(&mut import.rest);
    import.store(last).await?;
    Ok(import.report)
}

fn corrupt(error: std::io::Error) -> body::BodyError {
    body::BodyError::Corrupt("gzip", error.to_string())
}
