//! `/api/v1/export`: raw samples as JSON lines in the format of VictoriaMetrics, and with `histograms=true` lines of native histograms.
//! Data is read and sent in pieces, so memory is bounded by two pieces, whatever the size of the export.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fabriclens_model::names::is_admitted;
use fabriclens_model::{Budget, CancelToken, HistogramSeries, Labels, Matcher, ReadError, Series, TimedBudget};
use http_body::Frame;
use prometheus::IntCounter;
use tokio::sync::{mpsc, oneshot};

use super::Api;
use super::memory::Grant;
use super::params::Params;
use super::query::{CancelOnDrop, of_query};
use super::selector::Selectors;
use fabriclens_core::jsonl;
use fabriclens_core::query_thread::on_query_thread;
use fabriclens_data::{Data, HISTOGRAMS};
use fabriclens_server::error::{ApiError, Kind};

/// Memory of one piece; less if the memory of queries is small.
const PIECE: usize = 32 << 20;
/// Shortest time span of a piece, ms: rows are read in whole chunks, so a shorter one would not be smaller.
const SHORTEST: i64 = 120_000;
/// Bytes of text sent at once.
const CHUNK: usize = 64 << 10;
/// Chunks buffered for a slow client.
const AHEAD: usize = 4;
/// All samples are between these times (the years 1843 and 2286), which bounds the halving of ranges.
const TIMES: (i64, i64) = (-4_000_000_000_000, 10_000_000_000_000);

/// Handles an export.
pub(super) async fn export(State(api): State<Arc<Api>>, params: Params) -> Result<Response, ApiError> {
    let selectors = Selectors::some(&params)?;
    let start = params.time_or("start", TIMES.0)?.max(TIMES.0);
    let end = params.time_or("end", TIMES.1)?.min(TIMES.1);
    let histograms = params.get(HISTOGRAMS) == Some("true");
    let piece = PIECE.min(api.config.query.memory / 16).max(64 << 10);
    let closed = || ApiError::new(Kind::Unavailable, "too many queries are running; retry the export");
    let entered = tokio::time::timeout(api.config.query.timeout, api.pool.enter(4 * piece)).await;
    let grant = entered.ok().flatten().ok_or_else(closed)?;
    if !grant.take(2 * piece) {
        return Err(ApiError::new(Kind::Execution, "not enough free memory for an export (query.memory); retry"));
    }
    let (send, receive) = mpsc::channel(AHEAD);
    let cancel = CancelOnDrop::default();
    let (begin, begun) = oneshot::channel();
    let skipped = api.telemetry.skipped_series("export");
    let (data, timeout, token) = (api.data.clone(), api.config.query.timeout, cancel.0.clone());
    let export = move || {
        let export = Export { data: &data, cancel: &token, grant: &grant, piece, timeout, histograms };
        let sets = match selectors.matchers(&export.budget(&*grant)) {
            Ok(sets) => sets,
            Err(e) => {
                _ = begin.send(Err(of_query(&e)));
                return;
            }
        };
        _ = begin.send(Ok(()));
        let mut out = Out { text: String::new(), skipped, send };
        if let Err(Ended::Failed(e)) = export.pieces(&sets, start, end, &mut out) {
            tracing::warn!(error = %e, "export aborted");
            _ = out.send.blocking_send(Err(e));
        }
    };
    tokio::spawn(on_query_thread(export));
    begun.await.map_err(|_| ApiError::new(Kind::Internal, "the export ended early; please report it"))??;
    let body = Stream { chunks: receive, _cancel: cancel };
    Ok(([(header::CONTENT_TYPE, "application/stream+json")], Body::new(body)).into_response())
}

/// Why an export ended early.
enum Ended {
    Failed(ReadError),
    /// The client disconnected.
    Left,
}

impl From<ReadError> for Ended {
    fn from(e: ReadError) -> Self {
        Self::Failed(e)
    }
}

/// An export in progress.
struct Export<'a> {
    data: &'a Data,
    /// Set when the client disconnects.
    cancel: &'a CancelToken,
    /// Memory of two pieces.
    grant: &'a Grant,
    /// Memory of a piece, bytes.
    piece: usize,
    /// Time to read a piece.
    timeout: Duration,
    /// Whether histograms are exported.
    histograms: bool,
}

impl Export<'_> {
    /// Exports metric by metric, in time spans that fit into a piece.
    fn pieces(&self, sets: &[Vec<Matcher>], start: i64, end: i64, out: &mut Out) -> Result<(), Ended> {
        let mut metrics = std::collections::BTreeSet::new();
        for set in sets {
            let budget = self.budget(self.grant);
            metrics.extend(self.data.label_values("__name__", set, start, end, &budget)?);
        }
        let mut width = end.saturating_sub(start).saturating_add(1);
        for metric in metrics {
            let of_metric = |set: &Vec<Matcher>| {
                let mut all = set.clone();
                all.push(Matcher::equal("__name__", &metric));
                all
            };
            let sets: Vec<Vec<Matcher>> = sets.iter().map(of_metric).collect();
            let mut from = start;
            while from <= end {
                let to = from.saturating_add(width - 1).min(end);
                let memory = PieceMemory { left: AtomicUsize::new(self.piece), bounded: width > SHORTEST };
                match self.union(&sets, from, to, &self.budget(&memory)) {
                    Err(ReadError::Memory | ReadError::TooManySamples { .. }) if width > SHORTEST => {
                        width = (width / 2).max(SHORTEST);
                    }
                    Err(e) => return Err(e.into()),
                    Ok(found) => {
                        found.floats.values().try_for_each(|s| out.floats(s))?;
                        found.histograms.values().try_for_each(|s| out.histograms(s))?;
                        from = to.saturating_add(1);
                        if memory.left.into_inner() > self.piece / 4 * 3 {
                            width = width.saturating_mul(4).min(TIMES.1 - TIMES.0);
                        }
                    }
                }
            }
        }
        out.flush()
    }

    /// Reads each series once, even if several selectors match it.
    fn union(&self, sets: &[Vec<Matcher>], from: i64, to: i64, budget: &dyn Budget) -> Result<Piece, ReadError> {
        let (mut all, read) = (Piece::default(), self.data.reader());
        for set in sets {
            let floats = read.select_within(set, from, to, budget)?;
            all.floats.extend(floats.into_iter().map(|s| (s.labels.clone(), s)));
            if self.histograms {
                let histograms = read.select_histograms(set, from, to, budget)?;
                all.histograms.extend(histograms.into_iter().map(|s| (s.labels.clone(), s)));
            }
        }
        Ok(all)
    }

    /// Budget of one read.
    fn budget<'b>(&'b self, memory: &'b dyn Budget) -> TimedBudget<'b> {
        TimedBudget { memory, cancel: self.cancel, deadline: Instant::now().checked_add(self.timeout) }
    }
}

/// Samples of a piece by series.
#[derive(Default)]
struct Piece {
    floats: BTreeMap<Labels, Series>,
    histograms: BTreeMap<Labels, HistogramSeries>,
}

/// Memory of one piece; the shortest piece may exceed it.
#[derive(Debug)]
struct PieceMemory {
    left: AtomicUsize,
    bounded: bool,
}

impl Budget for PieceMemory {
    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| if self.bounded { left.checked_sub(bytes) } else { Some(left.saturating_sub(bytes)) };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Collects lines and sends them.
struct Out {
    text: String,
    skipped: IntCounter,
    send: mpsc::Sender<Result<Bytes, ReadError>>,
}

impl Out {
    fn floats(&mut self, series: &Series) -> Result<(), Ended> {
        self.line(&series.labels, &series.times, |text| jsonl::push(text, series))
    }

    fn histograms(&mut self, series: &HistogramSeries) -> Result<(), Ended> {
        self.line(&series.labels, &series.times, |text| jsonl::push_histograms(text, series))
    }

    fn line(&mut self, labels: &Labels, times: &[i64], push: impl FnOnce(&mut String)) -> Result<(), Ended> {
        if times.is_empty() {
            return Ok(());
        }
        // An import would refuse it.
        if !is_admitted(labels) {
            self.skipped.inc();
            return Ok(());
        }
        push(&mut self.text);
        if self.text.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        if self.text.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.text);
        self.send.blocking_send(Ok(chunk.into())).map_err(|_| Ended::Left)
    }
}

/// A streamed body. An error aborts the connection, so that a client cannot mistake a part for the whole.
struct Stream {
    chunks: mpsc::Receiver<Result<Bytes, ReadError>>,
    _cancel: CancelOnDrop,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = ReadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ReadError>>> {
        self.chunks.poll_recv(context).map(|chunk| chunk.map(|c| c.map(Frame::data)))
    }
}
