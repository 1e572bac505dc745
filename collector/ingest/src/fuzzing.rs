//! Entry points for the fuzzer: request bodies as they are read before anything is stored.

use super::unpack::{Compression, Unpacker};
use super::{http, import, remote, unary, write_v2};
use fabriclens_base::Sender;
use fabriclens_config::Probes;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_probe_plan::{PlanRequest, ReportRequest};
use fabriclens_probing::Probing;
use fabriclens_server::body;
use fabriclens_subnet_paths::{Endpoint, SubnetPaths};
use std::collections::BTreeMap;
use std::time::Instant;

/// Limit of a decompressed body, bytes.
const LIMIT: usize = 1 << 20;

/// Body of remote write, compressed or plain.
pub fn remote_write(bytes: &[u8]) {
    let plain = body::unsnap("snappy", bytes, LIMIT);
    let mut decoder = remote::Decoder::default();
    let body = plain.as_deref().unwrap_or(bytes);
    let first = decoder.decode(body).is_ok();
    assert_eq!(first, decoder.decode(body).is_ok(), "a repeated request decodes like a new one");
    if let Ok(written) = write_v2::to_version_1(body, LIMIT) {
        _ = decoder.decode(&written);
    }
}

/// Gzip body.
pub fn gunzip(bytes: &[u8]) {
    let mut out = Vec::new();
    if body::gunzip_into(&mut out, bytes, LIMIT).is_ok() {
        assert!(out.len() <= LIMIT, "no body exceeds its limit");
    }
}

/// Zstandard body, twice, because decompression contexts are reused.
pub fn unzstd(bytes: &[u8]) {
    let mut unpacker = Unpacker::default();
    let mut unpack = || unpacker.unpack(Compression::Zstd, bytes, LIMIT).map(<[u8]>::to_vec).ok();
    let (first, second) = (unpack(), unpack());
    assert_eq!(first, second, "a reused context decodes the same");
    assert!(first.is_none_or(|plain| plain.len() <= LIMIT), "no body exceeds its limit");
}

/// OTLP in JSON; returns it as protobuf.
pub fn json(bytes: &[u8]) -> Option<bytes::Bytes> {
    http::from_json(bytes).ok()
}

/// JSON lines of an import.
pub fn lines(bytes: &[u8]) {
    if let Ok(request) = import::parse(bytes, 0) {
        remote::Decoder::default().decode(&request).expect("import produces a valid request");
    }
}

/// Forwarding tables of a subnet, framed as in gRPC; taken by an empty table, and all paths computed.
pub fn forwarding_tables(bytes: &[u8]) {
    let Ok(request) = unary::parse::<fabriclens_forwarding_tables::TellRequest>(bytes.to_vec().into()) else { return };
    let end = |port: &fabriclens_forwarding_tables::AdapterPort| Endpoint {
        host: port.host.clone(),
        port: port.name.clone(),
        attached: None,
    };
    let ends: Vec<Endpoint> = request.adapters.iter().take(8).map(end).collect();
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    if paths.tell(Sender::Bound, request, now, |_, _| true).is_err() {
        return;
    }
    let finder = paths.finder(now);
    for (from, to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to))) {
        if let Ok(found) = finder.paths(from, to) {
            assert!(!found.all.is_empty() && found.all.len() <= 256, "{found:?}");
        }
    }
}

/// Question for the lease of a subnet, framed as in gRPC; decided by an empty table.
pub fn lease(bytes: &[u8]) {
    let Ok(request) = unary::parse(bytes.to_vec().into()) else { return };
    let telemetry = Telemetry::new().expect("metrics are declared once");
    if let Ok(decision) = telemetry.reader_leases.ask(Sender::Bound, &request, Instant::now()) {
        assert_eq!(decision.granted, request.reading, "nobody else asked");
    }
    telemetry.text().expect("any accepted name is a label");
}

/// Request for a probe plan, framed as in gRPC.
pub fn probe_plan(bytes: &[u8]) {
    let Ok(request) = unary::parse(bytes.to_vec().into()) else { return };
    _ = probing().ask(Sender::Bound, &request, Instant::now());
}

/// Report of paths and probes, framed as in gRPC, of a host that offered a port.
pub fn probe_report(bytes: &[u8]) {
    let Ok(mut request) = unary::parse::<ReportRequest>(bytes.to_vec().into()) else { return };
    let (probing, now) = (probing(), Instant::now());
    let offer = PlanRequest { host: "gpu-01".to_owned(), agent: 1, ports: Vec::new() };
    probing.ask(Sender::Bound, &offer, now).expect("a valid offer");
    (request.host, request.agent) = (offer.host, offer.agent);
    if let Ok(reply) = probing.report(Sender::Bound, &request, now, 0) {
        assert_eq!(reply.refused as usize, request.paths.len() + request.probes.len(), "there is no plan");
    }
}

fn probing() -> Probing {
    let telemetry = Telemetry::new().expect("metrics are declared once");
    Probing::new(Probes::default(), BTreeMap::new(), telemetry.probes, usize::MAX)
}
