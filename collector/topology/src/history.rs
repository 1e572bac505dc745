//! All versions of the topology with the time from which each is valid.
//!
//! Table `topology`: the key is the time, Unix ns, eight bytes big-endian; the value is gzip of JSON, `{"topology": …,
//! "ports": […]}`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::Topology;
use fabriclens_correlate::topology::PortInfo;
use fabriclens_store::{Clock, MetadataBatch, MetadataTable, StoreError};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Most versions, and their total bytes.
const VERSIONS: usize = 10_000;
const BYTES: usize = 256 << 20;
/// Most versions cached in memory after they were requested.
const CACHED: usize = 4;
/// Largest uncompressed version, bytes.
const UNPACKED: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Version<T, P> {
    topology: T,
    ports: P,
}

/// The stored versions.
pub(super) struct History {
    table: MetadataTable,
    /// Older versions are deleted; zero keeps all.
    keep: Duration,
    /// Clock by which age is measured, Unix ms.
    age: Clock,
    cached: Mutex<Vec<(i64, Arc<Topology>)>>,
}

impl History {
    pub(super) fn open(table: MetadataTable, keep: Duration, age: Clock) -> Result<Self, StoreError> {
        table.last()?;
        Ok(Self { table, keep, age, cached: Mutex::default() })
    }

    /// The newest version, with the ports it was made from.
    pub(super) fn last(&self) -> Option<(i64, Topology, Vec<PortInfo>)> {
        let (key, packed) = self.table.last().ok()??;
        let version: Version<Topology, Vec<PortInfo>> = unpack(&packed)?;
        Some((i64::from_be_bytes(key.try_into().ok()?), version.topology, version.ports))
    }

    /// The version valid at a time, or else the first one.
    pub(super) fn at(&self, time_ns: i64) -> Option<(i64, Arc<Topology>)> {
        // Keys sort like numbers from 1970 on.
        let key = time_ns.max(0).to_be_bytes();
        let before = self.table.last_until(key).transpose().or_else(|| self.table.first().transpose());
        let (key, packed) = before?.ok()?;
        let since = i64::from_be_bytes(key.try_into().ok()?);
        let mut cached = self.cached.lock();
        if let Some(known) = cached.iter().find(|(at, _)| *at == since) {
            return Some(known.clone());
        }
        let version: Version<Topology, serde::de::IgnoredAny> = unpack(&packed)?;
        let found = (since, Arc::new(version.topology));
        if cached.len() == CACHED {
            cached.remove(0);
        }
        cached.push(found.clone());
        Some(found)
    }

    /// Adds a version valid from `since_ns` on.
    pub(super) fn add(&self, since_ns: i64, topology: &Topology, ports: &[PortInfo]) {
        let done = pack(&Version { topology, ports })
            .and_then(|packed| self.store(since_ns, packed).map_err(std::io::Error::other));
        if let Err(error) = done {
            tracing::warn!(%error, "cannot store the new topology; a restart would restore the previous one");
        }
    }

    /// Stores a version, and deletes versions beyond the limits; the one valid at the age limit stays.
    fn store(&self, since_ns: i64, packed: Vec<u8>) -> Result<(), StoreError> {
        let keep = i64::try_from(self.keep.as_nanos()).unwrap_or(i64::MAX);
        let now_ns = (self.age)().saturating_mul(1_000_000);
        let limit = if self.keep.is_zero() { i64::MIN } else { now_ns.saturating_sub(keep) };
        let mut sizes = BTreeMap::new();
        self.table.each(|key, packed| _ = sizes.insert(key.to_vec(), packed.len()))?;
        sizes.insert(since_ns.to_be_bytes().to_vec(), packed.len());
        let mut batch = MetadataBatch::default();
        batch.put(&self.table, since_ns.to_be_bytes(), packed);
        let (mut bytes, mut old) = (0, false);
        for (n, (key, size)) in sizes.iter().rev().enumerate() {
            bytes += size;
            if n > 0 && (old || n >= VERSIONS || bytes > BYTES) {
                batch.remove(&self.table, key);
            }
            let since = key.as_slice().try_into().map_or(i64::MIN, i64::from_be_bytes);
            old |= since <= limit;
        }
        self.table.commit(&batch)
    }
}

fn pack(version: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&serde_json::to_vec(version)?)?;
    packed.finish()
}

fn unpack<T: serde::de::DeserializeOwned>(packed: &[u8]) -> Option<T> {
    let mut text = Vec::new();
    let read = GzDecoder::new(packed).take(UNPACKED).read_to_end(&mut text);
    let version =
        read.map_err(|e| e.to_string()).and_then(|_| serde_json::from_slice(&text).map_err(|e| e.to_string()));
    version.map_err(|error| tracing::warn!(error, "cannot read a version of the topology; it is skipped")).ok()
}
