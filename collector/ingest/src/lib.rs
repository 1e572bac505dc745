//! The way in: OTLP over gRPC and HTTP, and Prometheus remote write, to rows of the store; durable before the answer.
//!
//! Network code only bounds and hands over bytes; decoding and writing run on the blocking pool, at most
//! `ingest.in_flight` requests at a time: [`gate`] says whose. OTLP requests are small and many, so a few `otlp::Desk`s
//! take them in turn.

#![forbid(unsafe_code)]

pub mod admission;
mod conflict;
pub mod fuzzing;
pub mod gate;
pub mod grpc;
mod hosts;
pub mod http;
mod import;
mod otlp;
mod own;
mod priority_class;
mod remote;
mod report;
#[cfg(test)]
mod tests;
mod unpack;

pub use crate::priority_class::Rank;
pub use own::run as store_own_metrics;
pub use report::{IngestError, Report};
pub use unpack::Packing;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use bytes::Bytes;
use fabriclens_store::{Metadata, Store};
use fabriclens_wire::decode::{Meta, cut};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use admission::Admission;
use fabriclens_config as config;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::protocol::Protocol;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_forward::Sink;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::body::{self, BODY_TIME};
use gate::{Away, Gate, Turn};
use unpack::Unpacker;

/// Decoders that work side by side. Each remembers label sets, so a sender stays with one of them.
const DECODERS: usize = 4;
/// How long is waited for a decoder of remote write, to have it forget; without it, it does so the next time.
const SOON: Duration = Duration::from_millis(250);
/// Metrics whose metadata are kept, and bytes of each of its texts: a longer description is cut.
const METRICS: usize = 50_000;
const TEXT: usize = 1024;

/// One for the whole process; every listener shares it.
pub struct Ingest {
    store: Arc<Store>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    limits: config::Ingest,
    gate: Arc<Gate>,
    admission: Admission,
    /// Unpacks requests that must wait, one at a time, to classify them.
    classifier: Arc<tokio::sync::Mutex<Unpacker>>,
    /// Requests in JSON are read one at a time, since each takes many times its size.
    json: Arc<Semaphore>,
    otlp: Vec<otlp::Desk>,
    remote: Vec<Mutex<remote::Decoder>>,
    conflicts: conflict::Watch,
}

impl Ingest {
    /// Nothing is remembered yet.
    pub fn new(
        store: Arc<Store>,
        sink: Arc<Sink>,
        telemetry: Telemetry,
        limits: config::Ingest,
        pressure: Arc<Pressure>,
    ) -> Self {
        Self {
            store,
            sink,
            limits,
            gate: Gate::new(limits.in_flight, limits.message_size, pressure.clone()),
            admission: Admission::new(pressure),
            classifier: Arc::default(),
            json: Arc::new(Semaphore::new(1)),
            otlp: (0..DECODERS).map(|_| otlp::Desk::default()).collect(),
            remote: (0..DECODERS).map(|_| Mutex::default()).collect(),
            conflicts: conflict::Watch::new(telemetry.host_conflicts.clone()),
            telemetry,
        }
    }

    /// Largest request in bytes, compressed or not.
    pub fn message_size(&self) -> usize {
        self.limits.message_size
    }

    /// Forgets senders that were not heard of since the call before. Waits for no request for long: who asks watches
    /// memory.
    pub fn forget_idle(&self) {
        self.otlp.iter().for_each(otlp::Desk::forget_idle);
        for decoder in &self.remote {
            if let Some(mut decoder) = decoder.try_lock_for(SOON) {
                decoder.forget_idle();
            }
        }
        self.admission.forget_idle(Instant::now());
    }

    /// Who may come in.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Who is served while memory is short.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Reads a body while there is room for it, then waits for a turn by what is in it and who sends it; hold both until
    /// the request is answered. What is `json` waits for those before it first, so that many of them take no turns of others.
    ///
    /// # Errors
    /// [`IngestError::Away`], [`IngestError::Slow`], or what is wrong with the body.
    pub async fn receive(
        &self,
        way: Protocol,
        caller: &Caller,
        headers: &HeaderMap,
        body: axum::body::Body,
        json: bool,
        packing: impl FnOnce(&Bytes) -> Option<(Packing, Bytes)>,
    ) -> Result<Received, IngestError> {
        let mut room = self.gate.body(caller.address).map_err(|away| self.away(way, None, away))?;
        let read = body::read(headers, body, self.message_size(), |bytes| {
            room.take(bytes).map_err(|away| self.away(way, None, away))
        });
        let bytes = tokio::time::timeout(BODY_TIME, read).await.map_err(|_| IngestError::Slow)??;
        let alone = if json { Some(self.alone(way).await?) } else { None };
        let tight = self.gate.tight() || self.admission.tight();
        let (mut rank, mut payload) = (Rank::Live, Payload::Packed(bytes));
        if tight {
            let plain;
            (rank, plain) = self.classify(way, caller, packing(payload.bytes())).await?;
            // Within the quota the plain bytes are kept, so that the request is not unpacked again at its turn.
            if let Some(plain) = plain.filter(|plain| room.try_keep(plain.len())) {
                payload = Payload::Plain(plain);
            }
        }
        let turn = self.gate.turn(rank).await.map_err(|away| self.away(way, Some(rank), away))?;
        Ok(Received { payload, alone, _turn: turn, _room: room })
    }

    /// Waits until no other request in JSON is read.
    async fn alone(&self, way: Protocol) -> Result<OwnedSemaphorePermit, IngestError> {
        match tokio::time::timeout(gate::PATIENCE, self.json.clone().acquire_owned()).await {
            Ok(Ok(alone)) => Ok(alone),
            _ => Err(self.away(way, None, self.gate.busy())),
        }
    }

    /// Waits for a turn for what is already here.
    ///
    /// # Errors
    /// [`IngestError::Away`].
    pub async fn enter(&self, way: Protocol) -> Result<Turn, IngestError> {
        let rank = Rank::Late;
        self.gate.turn(rank).await.map_err(|away| self.away(way, Some(rank), away))
    }

    /// The class of a request whose sender is admitted, and its plain bytes. A request that is damaged or larger than
    /// [`priority_class::LOOK`] is live; the decoder reports what is wrong with it.
    async fn classify(
        &self,
        way: Protocol,
        caller: &Caller,
        packed: Option<(Packing, Bytes)>,
    ) -> Result<(Rank, Option<Bytes>), IngestError> {
        let plain = match packed {
            Some((packing, bytes)) => match self.unpack(packing, bytes).await {
                Some(plain) => Some(plain),
                None => return Ok((Rank::Live, None)),
            },
            None => None,
        };
        let looked_at = plain.as_deref().unwrap_or_default();
        let rank = priority_class::of(way, looked_at, now_ms());
        let sender = admission::sender(way, looked_at, caller);
        self.admission.admit(&sender, Instant::now()).map_err(|away| self.away(way, Some(rank), away))?;
        Ok((rank, plain))
    }

    /// The plain bytes of a request of at most [`priority_class::LOOK`], unpacked on a thread that may block.
    async fn unpack(&self, packing: Packing, bytes: Bytes) -> Option<Bytes> {
        if packing == Packing::None {
            return Some(bytes).filter(|plain| plain.len() <= priority_class::LOOK);
        }
        let mut unpacker = self.classifier.clone().lock_owned().await;
        let unpack = move || {
            let plain = unpacker.unpack(packing, &bytes, priority_class::LOOK).ok()?;
            Some(Bytes::copy_from_slice(plain))
        };
        tokio::task::spawn_blocking(unpack).await.ok()?
    }

    /// Counts who is turned away.
    fn away(&self, way: Protocol, rank: Option<Rank>, away: Away) -> IngestError {
        let rank = rank.map_or("unknown", Rank::name);
        self.telemetry.shed.with_label_values(&[way.name(), rank, away.reason.name()]).inc();
        IngestError::Away { away, in_flight: self.limits.in_flight }
    }

    /// Stores an OTLP request given as protobuf.
    ///
    /// # Errors
    /// [`IngestError`]; then nothing of the request is acknowledged.
    pub async fn otlp(
        self: &Arc<Self>,
        way: Protocol,
        caller: Caller,
        packing: Packing,
        body: Bytes,
    ) -> Result<Report, IngestError> {
        let (answer, answered) = oneshot::channel();
        let shard = shard(caller.address);
        self.telemetry.in_flight.inc();
        if self.otlp[shard].put(otlp::Job { way, caller, packing, body, answer }) {
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.otlp[shard].work(&this));
        }
        let result = answered.await;
        self.telemetry.in_flight.dec();
        // The work at the desk ended in a panic, and this request need not be what caused it.
        let result = result.unwrap_or_else(|_| Err(IngestError::Unavailable("the request was dropped".to_owned())));
        self.count(way, &result);
        result
    }

    /// Stores a remote-write request (or an import in the same form), already decompressed.
    ///
    /// # Errors
    /// [`IngestError`]; then nothing of the request is acknowledged.
    pub async fn remote_write(
        self: &Arc<Self>,
        way: Protocol,
        caller: Caller,
        body: Bytes,
    ) -> Result<Report, IngestError> {
        self.blocking(way, body.len(), move |this| {
            // Senders use many connections for the same series, so the address decides here too, not the connection.
            let sender = admission::sender(way, &body, &caller);
            this.admission.took(&sender, Instant::now());
            let (rows, mut report) = {
                let mut decoder = this.remote[shard(caller.address)].lock();
                let mut rows = decoder.decode(&body)?;
                let mut report = std::mem::take(&mut rows.report);
                // Prometheus sends metadata in requests of their own, and which host they are of nobody can say.
                let apart = rows.groups.is_empty() && report.rejected() == 0 && caller.hosts == Hosts::Any;
                decoder.owners.keep_own(&mut rows.groups, &caller, &mut report);
                if rows.groups.is_empty() && !apart {
                    rows.metadata.clear();
                }
                (rows, report)
            };
            this.remember(&rows.metadata);
            if way == Protocol::RemoteWrite {
                rows.groups.iter().for_each(|g| this.conflicts.rows(caller.address, g));
            }
            let timer = this.telemetry.append_seconds.start_timer();
            let appended = this.sink.append(rows.groups).map_err(IngestError::from_sink)?;
            timer.observe_duration();
            report.add(&appended, || this.store.refusal());
            Ok(report)
        })
        .await
    }

    /// Keeps what metrics mean, of as many as there is room for; samples matter more, so a failure only says so.
    fn remember(&self, metadata: &[Meta]) {
        if metadata.is_empty() {
            return;
        }
        let known = self.store.metadata();
        let mut room = known.len()..METRICS;
        let kept = metadata.iter().filter(|m| {
            let fits = m.name.len().max(m.unit.len()) <= TEXT;
            fits && (known.contains_key(&m.name) || room.next().is_some())
        });
        let entries = kept.map(|m| {
            let help = cut(&m.help, TEXT).to_owned();
            let meta = Metadata { kind: m.kind.to_owned(), unit: m.unit.clone(), help };
            (m.name.as_str(), meta)
        });
        if let Err(error) = self.store.put_metadata(entries) {
            tracing::warn!(%error, "cannot store metric metadata");
        }
    }

    /// Runs `work` off the async threads and counts what came of it.
    async fn blocking(
        self: &Arc<Self>,
        way: Protocol,
        bytes: usize,
        work: impl FnOnce(&Self) -> Result<Report, IngestError> + Send + 'static,
    ) -> Result<Report, IngestError> {
        let t = &self.telemetry;
        t.bytes.with_label_values(&[way.name()]).inc_by(bytes as u64);
        t.in_flight.inc();
        let this = self.clone();
        let result = tokio::task::spawn_blocking(move || work(&this)).await;
        t.in_flight.dec();
        let result = result.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string())));
        self.count(way, &result);
        result
    }

    fn count(&self, way: Protocol, result: &Result<Report, IngestError>) {
        let t = &self.telemetry;
        match result {
            Ok(report) => {
                t.samples.with_label_values(&[way.name()]).inc_by(report.accepted);
                for (reason, points) in report.reasons() {
                    t.rejected.with_label_values(&[way.name(), reason]).inc_by(points);
                }
                let word = if report.rejected() > 0 { "partial" } else { "ok" };
                t.requests.with_label_values(&[way.name(), word]).inc();
            }
            Err(e) => t.requests.with_label_values(&[way.name(), e.reason()]).inc(),
        }
    }

    /// Counts a request that was refused before it could be decoded.
    pub fn refused(&self, way: Protocol, reason: &str) {
        self.telemetry.requests.with_label_values(&[way.name(), reason]).inc();
    }
}

/// The bytes of a request whose turn it is.
pub struct Received {
    /// Its body.
    pub payload: Payload,
    /// While it lives, no other request in JSON is read.
    pub alone: Option<OwnedSemaphorePermit>,
    _turn: Turn,
    _room: gate::Body,
}

/// The body of a request, as far as it is unpacked.
#[derive(Clone, Debug)]
pub enum Payload {
    /// As it arrived.
    Packed(Bytes),
    /// Unpacked while it waited for its turn.
    Plain(Bytes),
}

impl Payload {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Packed(bytes) | Self::Plain(bytes) => bytes,
        }
    }
}

/// Which decoder a sender uses: the same each time, so that its label sets are known there.
fn shard(peer: IpAddr) -> usize {
    let last = match peer {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    usize::from(last) % DECODERS
}
