//! Receives samples by OTLP (gRPC and HTTP), Prometheus remote write and import, and writes them to the store; they are
//! durable before the answer.
//!
//! The async handlers only bound and pass on bytes. Decoding and writing run on the blocking pool, at most
//! `ingest.in_flight` requests at a time; [`gate`] decides which. OTLP requests are small and many, so a few
//! `otlp::Batcher`s process them in batches.

#![forbid(unsafe_code)]

pub mod admission;
mod agent_identity;
mod agent_methods;
mod conflict;
mod direct;
mod exponential;
mod foreign;
mod forwarding_tables;
pub mod fuzzing;
pub mod gate;
pub mod grpc;
mod grpc_frame;
mod grpc_status;
mod hosts;
pub mod http;
mod import;
pub mod judge;
mod metadata;
mod otlp;
mod own;
mod priority_class;
mod probes;
mod reader_lease;
mod refusal;
mod relay;
mod remote;
mod report;
mod reserved;
mod snappy_buffers;
pub mod switches;
#[cfg(test)]
mod tests;
mod unary;
mod unpack;
mod write_v2;

pub use crate::priority_class::PriorityClass;
pub use own::run as store_own_metrics;
pub use relay::Relay;
pub use report::{IngestError, Report};
pub use unpack::Compression;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use bytes::Bytes;
use fabriclens_base::Sender;
use fabriclens_model::LayoutId;
use fabriclens_store::Store;
use fabriclens_wire::decode::{CacheBudget, Meta};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use admission::Admission;
use fabriclens_config as config;
use fabriclens_core::fair_turn::FairTurn;
use fabriclens_core::pressure::Pressure;
use fabriclens_core::protocol::Protocol;
use fabriclens_core::switch_list::SwitchSource;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_forward::Sink;
use fabriclens_probing::Probing;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::body::{self, BODY_TIME};
use gate::{Gate, Permit, Rejection};
use reserved::may_write_reserved;
use snappy_buffers::SnappyBuffers;
use unpack::Unpacker;

/// Parallel decoders. Each remembers label sets, so a sender always uses the same one.
const DECODERS: usize = 4;
/// Largest request that is decompressed where it arrived, in bytes before and after: to pass it to another thread would cost more
/// than its decompression.
const SMALL_PACKED: usize = 16 << 10;
const SMALL_PLAIN: usize = 128 << 10;
/// Longest wait for a busy decoder when idle senders are forgotten; otherwise it is skipped until the next time.
const DECODER_WAIT: Duration = Duration::from_millis(250);

/// The ingest service, shared by all listeners.
pub struct Ingest {
    store: Arc<Store>,
    sink: Arc<Sink>,
    telemetry: Telemetry,
    limits: config::Ingest,
    gate: Arc<Gate>,
    admission: Admission,
    /// Decompresses waiting requests for inspection, one at a time.
    inspector: Arc<tokio::sync::Mutex<Unpacker>>,
    /// JSON requests are decoded one at a time, because each takes many times its size.
    json: Arc<Semaphore>,
    /// Forwarding tables are decoded one request at a time: small parts of a message take many times its size.
    tables: Semaphore,
    otlp: Vec<otlp::Batcher>,
    remote: Vec<Mutex<remote::Decoder>>,
    buffers: SnappyBuffers,
    conflicts: conflict::ConflictDetector,
    foreign: foreign::Foreign,
    caches: Arc<CacheBudget>,
    metadata: metadata::MetadataGate,
    probes: probes::ProbeMethods,
    /// Turn to list switches.
    list_turn: Arc<FairTurn>,
    /// Names of the topology's switches.
    switch_names: Mutex<Arc<[String]>>,
    /// The way to the judge, in an ingest collector.
    relay: Option<Relay>,
}

impl Ingest {
    /// Creates the service.
    pub fn new(
        store: Arc<Store>,
        sink: Arc<Sink>,
        telemetry: Telemetry,
        limits: config::Ingest,
        switches: config::Switches,
        pressure: Arc<Pressure>,
        probing: Arc<Probing>,
    ) -> Self {
        let caches = CacheBudget::new(cache_bytes(pressure.limit()), 2 * DECODERS);
        Self {
            store,
            sink,
            limits,
            gate: Gate::new(limits.in_flight, limits.message_size, pressure.clone()),
            admission: Admission::new(pressure),
            inspector: Arc::default(),
            json: Arc::new(Semaphore::new(1)),
            tables: Semaphore::new(1),
            otlp: (0..DECODERS).map(|_| otlp::Batcher::new(caches.clone())).collect(),
            remote: (0..DECODERS).map(|_| Mutex::new(remote::Decoder::new(caches.clone()))).collect(),
            buffers: SnappyBuffers::default(),
            foreign: foreign::Foreign::new(switches, &telemetry),
            conflicts: conflict::ConflictDetector::new(telemetry.host_conflicts.clone()),
            telemetry,
            caches,
            metadata: metadata::MetadataGate::default(),
            probes: probes::ProbeMethods::new(probing),
            list_turn: FairTurn::new(),
            switch_names: Mutex::new([].into()),
            relay: None,
        }
    }

    /// Passes what agents ask and tell besides samples on to a judge.
    #[must_use]
    pub fn with_relay(self, relay: Option<Relay>) -> Self {
        Self { relay, ..self }
    }

    /// Number of column lists that are remembered to check and translate their names.
    #[cfg(test)]
    fn known_lists(&self) -> usize {
        let remote = self.remote.iter().map(|decoder| decoder.lock().reserved.len());
        self.otlp.iter().map(otlp::Batcher::known_lists).chain(remote).sum()
    }

    /// Bytes of the label sets that all decoders remember.
    pub fn cache_bytes(&self) -> usize {
        self.caches.used()
    }

    /// Switches that send samples or are read, ordered by name.
    pub fn switches(&self) -> Vec<SwitchSource> {
        self.telemetry.switches.list(now_ms())
    }

    /// Takes over how the topology calls its switches, so that their series have these names.
    pub fn name_switches_as(&self, names: impl Iterator<Item = String>) {
        let names: Arc<[String]> = names.collect();
        self.foreign.name_as(names.iter().cloned());
        *self.switch_names.lock() = names;
    }

    /// Largest request, compressed or not, bytes.
    pub fn message_size(&self) -> usize {
        self.limits.message_size
    }

    /// Forgets senders that sent nothing since the previous call. Does not wait long, because the caller watches
    /// memory.
    pub fn forget_idle(&self) {
        self.otlp.iter().for_each(otlp::Batcher::forget_idle);
        for decoder in &self.remote {
            if let Some(mut decoder) = decoder.try_lock_for(DECODER_WAIT) {
                decoder.forget_idle();
            }
        }
        self.admission.forget_idle(Instant::now());
    }

    /// Hands out permits.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Decides which senders are served while memory is short.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Reads a body within the quota, then waits for a permit by priority class and sender. JSON requests first wait
    /// for each other, so that many of them do not use up the permits.
    ///
    /// # Errors
    /// [`IngestError::Rejected`], [`IngestError::Slow`], or the error of the body.
    pub async fn receive(
        &self,
        protocol: Protocol,
        caller: &Caller,
        headers: &HeaderMap,
        body: axum::body::Body,
        json: bool,
        compression: impl FnOnce(&Bytes) -> Option<(Compression, Bytes)>,
    ) -> Result<Received, IngestError> {
        let mut lease = self.gate.body(caller.address).map_err(|rejection| self.reject(protocol, None, rejection))?;
        let read = body::read(headers, body, self.message_size(), |bytes| {
            lease.take(bytes).map_err(|rejection| self.reject(protocol, None, rejection))
        });
        let bytes = tokio::time::timeout(BODY_TIME, read).await.map_err(|_| IngestError::Slow)??;
        let json_permit = if json { Some(self.json_permit(protocol).await?) } else { None };
        let tight = self.gate.tight() || self.admission.tight();
        let (mut class, mut payload) = (PriorityClass::Live, Payload::Packed(bytes));
        if tight {
            let plain;
            (class, plain) = self.inspect(protocol, caller, compression(payload.bytes())).await?;
            // Within the quota the plain bytes are kept, so that the request is not decompressed again.
            if let Some(plain) = plain.filter(|plain| lease.try_keep(plain.len())) {
                payload = Payload::Plain(plain);
            }
        }
        let permit =
            self.gate.permit(class).await.map_err(|rejection| self.reject(protocol, Some(class), rejection))?;
        Ok(Received { payload, json_permit, _permit: permit, _body: lease })
    }

    /// Waits until no other JSON request is decoded.
    async fn json_permit(&self, protocol: Protocol) -> Result<OwnedSemaphorePermit, IngestError> {
        match tokio::time::timeout(gate::PERMIT_TIMEOUT, self.json.clone().acquire_owned()).await {
            Ok(Ok(json_permit)) => Ok(json_permit),
            _ => Err(self.reject(protocol, None, self.gate.busy())),
        }
    }

    /// Waits for a permit for data that is already received.
    ///
    /// # Errors
    /// [`IngestError::Rejected`].
    pub async fn enter(&self, protocol: Protocol) -> Result<Permit, IngestError> {
        let class = PriorityClass::Late;
        self.gate.permit(class).await.map_err(|rejection| self.reject(protocol, Some(class), rejection))
    }

    /// Admits the sender and returns the priority class and the plain bytes. Damaged requests and those larger than
    /// [`priority_class::INSPECT_BYTES`] are live; the decoder reports their errors.
    async fn inspect(
        &self,
        protocol: Protocol,
        caller: &Caller,
        packed: Option<(Compression, Bytes)>,
    ) -> Result<(PriorityClass, Option<Bytes>), IngestError> {
        let plain = match packed {
            Some((compression, bytes)) => match self.unpack(compression, bytes).await {
                Some(plain) => Some(plain),
                None => return Ok((PriorityClass::Live, None)),
            },
            None => None,
        };
        let inspected = plain.as_deref().unwrap_or_default();
        let class = priority_class::of(protocol, inspected, now_ms());
        let sender = admission::sender(protocol, inspected, caller);
        self.admission
            .admit(&sender, Instant::now())
            .map_err(|rejection| self.reject(protocol, Some(class), rejection))?;
        Ok((class, plain))
    }

    /// Plain bytes of a request of at most [`priority_class::INSPECT_BYTES`]; large ones are decompressed on a blocking thread.
    async fn unpack(&self, compression: Compression, bytes: Bytes) -> Option<Bytes> {
        if compression == Compression::None {
            return Some(bytes).filter(|plain| plain.len() <= priority_class::INSPECT_BYTES);
        }
        let mut unpacker = self.inspector.clone().lock_owned().await;
        if bytes.len() <= SMALL_PACKED
            && let Ok(plain) = unpacker.unpack(compression, &bytes, SMALL_PLAIN)
        {
            return Some(Bytes::copy_from_slice(plain));
        }
        let unpack = move || {
            let plain = unpacker.unpack(compression, &bytes, priority_class::INSPECT_BYTES).ok()?;
            Some(Bytes::copy_from_slice(plain))
        };
        tokio::task::spawn_blocking(unpack).await.ok()?
    }

    /// Counts a rejection.
    fn reject(&self, protocol: Protocol, class: Option<PriorityClass>, rejection: Rejection) -> IngestError {
        let class = class.map_or("unknown", PriorityClass::name);
        self.telemetry.shed.with_label_values(&[protocol.name(), class, rejection.reason.name()]).inc();
        IngestError::Rejected { rejection, in_flight: self.limits.in_flight }
    }

    /// Stores an OTLP request in protobuf.
    ///
    /// # Errors
    /// [`IngestError`]; nothing of the request is acknowledged.
    pub async fn otlp(
        self: &Arc<Self>,
        protocol: Protocol,
        caller: Caller,
        compression: Compression,
        body: Bytes,
    ) -> Result<Report, IngestError> {
        let (answer, answered) = oneshot::channel();
        let shard = shard(caller.address);
        self.telemetry.in_flight.inc();
        if self.otlp[shard].push(otlp::Job { protocol, caller, compression, body, answer }) {
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.otlp[shard].work(&this));
        }
        let result = answered.await;
        self.telemetry.in_flight.dec();
        // The batcher panicked; this request need not be the cause.
        let result = result.unwrap_or_else(|_| Err(IngestError::Unavailable("the request was dropped".to_owned())));
        self.count(protocol, &result);
        result
    }

    /// Stores a decompressed remote-write request, or an import in the same form; `forwarded` if it says that a collector
    /// forwards it.
    ///
    /// # Errors
    /// [`IngestError`]; nothing of the request is acknowledged.
    pub async fn remote_write(
        self: &Arc<Self>,
        protocol: Protocol,
        caller: Caller,
        forwarded: bool,
        body: Bytes,
    ) -> Result<Report, IngestError> {
        let reserved = may_write_reserved(protocol, &caller, forwarded);
        self.blocking(protocol, body.len(), move |this| {
            // By address and not by connection, because senders use many connections for the same series.
            let sender = admission::sender(protocol, &body, &caller);
            this.admission.record(&sender, Instant::now());
            let (rows, lists, mut report) = {
                let mut decoder = this.remote[shard(caller.address)].lock();
                let mut rows = decoder.decode(&body)?;
                let mut report = std::mem::take(&mut rows.report);
                // Prometheus sends metadata in separate requests, which belong to no host.
                let decoded = report.rejected();
                let mut lists: Vec<LayoutId> = rows.groups.iter().map(|group| group.series.id()).collect();
                let apart = rows.groups.is_empty() && report.rejected() == 0 && caller.hosts == Hosts::Any;
                let (groups, metadata) = (&mut rows.groups, &mut rows.metadata);
                decoder.translations.apply(&this.foreign, &caller, groups, metadata, &mut report);
                decoder.owners.keep_own(&mut rows.groups, &caller, &mut report);
                if !reserved {
                    decoder.reserved.drop_from(&mut rows.groups, &mut report);
                }
                if report.rejected() > decoded {
                    // Series that the caller may not write.
                    decoder.forget(rows.request);
                    decoder.forget_lists(&this.foreign, &caller, &lists);
                }
                lists.extend(rows.groups.iter().map(|group| group.series.id()));
                if rows.groups.is_empty() && !apart {
                    rows.metadata.clear();
                }
                (rows, lists, report)
            };
            this.remember(&caller, &rows.metadata, reserved);
            if protocol == Protocol::RemoteWrite {
                rows.groups.iter().for_each(|g| this.conflicts.rows(caller.address, g));
            }
            let timer = this.telemetry.append_seconds.start_timer();
            let unbound = caller.unbound();
            let sender = Sender::of(unbound.as_deref());
            let appended = this.sink.append_from(rows.groups, sender).map_err(IngestError::from_sink)?;
            timer.observe_duration();
            if appended.over_series_limit > 0 {
                let mut decoder = this.remote[shard(caller.address)].lock();
                decoder.forget(rows.request);
                decoder.forget_lists(&this.foreign, &caller, &lists);
            }
            report.add(&appended, || this.store.refusal());
            Ok(report)
        })
        .await
    }

    /// Stores metadata within the limits. Samples matter more, so a failure is only logged.
    fn remember(&self, caller: &Caller, metadata: &[Meta], reserved: bool) {
        if metadata.is_empty() {
            return;
        }
        if let Err(error) = self.metadata.store(&self.store, caller, metadata, reserved) {
            tracing::warn!(%error, "cannot store metric metadata");
        }
    }

    /// Runs `work` on the blocking pool and counts the result.
    async fn blocking(
        self: &Arc<Self>,
        protocol: Protocol,
        bytes: usize,
        work: impl FnOnce(&Self) -> Result<Report, IngestError> + Send + 'static,
    ) -> Result<Report, IngestError> {
        let t = &self.telemetry;
        t.bytes.with_label_values(&[protocol.name()]).inc_by(bytes as u64);
        t.in_flight.inc();
        let this = self.clone();
        let result = tokio::task::spawn_blocking(move || work(&this)).await;
        t.in_flight.dec();
        let result = result.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string())));
        self.count(protocol, &result);
        result
    }

    fn count(&self, protocol: Protocol, result: &Result<Report, IngestError>) {
        let t = &self.telemetry;
        match result {
            Ok(report) => {
                t.samples.with_label_values(&[protocol.name()]).inc_by(report.accepted);
                for (reason, points) in report.reasons() {
                    t.rejected.with_label_values(&[protocol.name(), reason]).inc_by(points);
                }
                let word = if report.rejected() > 0 { "partial" } else { "ok" };
                t.requests.with_label_values(&[protocol.name(), word]).inc();
            }
            Err(e) => t.requests.with_label_values(&[protocol.name(), e.reason()]).inc(),
        }
    }

    /// Counts a request that was refused before decoding.
    pub fn refused(&self, protocol: Protocol, reason: &str) {
        self.telemetry.requests.with_label_values(&[protocol.name(), reason]).inc();
    }
}

/// A received body with its permit.
pub struct Received {
    /// The body.
    pub payload: Payload,
    /// While held, no other JSON request is decoded.
    pub json_permit: Option<OwnedSemaphorePermit>,
    _permit: Permit,
    _body: gate::BodyLease,
}

/// Body of a request, as received or already decompressed.
#[derive(Clone, Debug)]
pub enum Payload {
    /// As received.
    Packed(Bytes),
    /// Decompressed for inspection while the request waited.
    Plain(Bytes),
}

impl Payload {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Packed(bytes) | Self::Plain(bytes) => bytes,
        }
    }
}

/// Bytes of the caches of all decoders: a quarter of the memory that the process may use. A series takes about 500, and if those of all
/// senders do not fit, caches are dropped and built again without end.
fn cache_bytes(memory: u64) -> usize {
    usize::try_from((memory / 4).clamp(32 << 20, 8 << 30)).unwrap_or(32 << 20)
}

/// Decoder of a sender: always the same one, which knows its label sets.
fn shard(peer: IpAddr) -> usize {
    let last = match peer {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    usize::from(last) % DECODERS
}
