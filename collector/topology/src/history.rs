//! All versions of the topology, with the time from which each holds.
//!
//! Table `topology`: key the time, Unix ns, eight bytes big-endian; value gzip of JSON, `{"topology": …, "ports": […]}`.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use fabriclens_correlate::Topology;
use fabriclens_correlate::topology::PortInfo;
use fabriclens_store::Clock;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Versions that are kept, and their bytes together.
const VERSIONS: usize = 10_000;
const BYTES: usize = 256 << 20;
/// Versions that are held in memory, once somebody asked for them.
const HELD: usize = 4;
/// No version is larger when it is unpacked, bytes.
const UNPACKED: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Version<T, P> {
    topology: T,
    ports: P,
}

/// See the module.
pub(super) struct History {
    table: sled::Tree,
    /// Older versions go; zero: never.
    keep: Duration,
    /// What age is measured by, Unix ms.
    age: Clock,
    held: Mutex<Vec<(i64, Arc<Topology>)>>,
}

impl History {
    pub(super) fn open(table: sled::Tree, keep: Duration, age: Clock) -> Result<Self, sled::Error> {
        table.last()?;
        Ok(Self { table, keep, age, held: Mutex::default() })
    }

    /// The newest, with the ports that it was made of.
    pub(super) fn last(&self) -> Option<(i64, Topology, Vec<PortInfo>)> {
        let (key, packed) = self.table.last().ok()??;
        let version: Version<Topology, Vec<PortInfo>> = unpack(&packed)?;
        Some((i64::from_be_bytes(key.as_ref().try_into().ok()?), version.topology, version.ports))
    }

    /// The one that held at a time, or else the first.
    pub(super) fn at(&self, time_ns: i64) -> Option<(i64, Arc<Topology>)> {
        // Keys sort as numbers do, from 1970 on.
        let key = time_ns.max(0).to_be_bytes();
        let before = self.table.range(..=key).next_back();
        let (key, packed) = before.or_else(|| self.table.iter().next())?.ok()?;
        let since = i64::from_be_bytes(key.as_ref().try_into().ok()?);
        let mut held = self.held.lock();
        if let Some(known) = held.iter().find(|(at, _)| *at == since) {
            return Some(known.clone());
        }
        let version: Version<Topology, serde::de::IgnoredAny> = unpack(&packed)?;
        let found = (since, Arc::new(version.topology));
        if held.len() == HELD {
            held.remove(0);
        }
        held.push(found.clone());
        Some(found)
    }

    /// A version that holds from a time on.
    pub(super) fn add(&self, since_ns: i64, topology: &Topology, ports: &[PortInfo]) {
        let done = pack(&Version { topology, ports }).and_then(|packed| {
            self.table.insert(since_ns.to_be_bytes(), packed).map_err(std::io::Error::other)?;
            self.forget().map_err(std::io::Error::other)?;
            self.table.flush().map_err(std::io::Error::other)
        });
        if let Err(error) = done {
            tracing::warn!(%error, "cannot keep the new topology; after a restart the one before is taken up");
        }
    }

    /// Lets go what is too old or too much; what held at the limit is kept.
    fn forget(&self) -> Result<(), sled::Error> {
        let keep = i64::try_from(self.keep.as_nanos()).unwrap_or(i64::MAX);
        let now_ns = (self.age)().saturating_mul(1_000_000);
        let limit = if self.keep.is_zero() { i64::MIN } else { now_ns.saturating_sub(keep) };
        let (mut versions, mut bytes) = (0, 0);
        let mut old = false;
        for entry in self.table.iter().rev() {
            let (key, packed) = entry?;
            versions += 1;
            bytes += packed.len();
            if versions > 1 && (old || versions > VERSIONS || bytes > BYTES) {
                self.table.remove(&key)?;
            }
            let since = key.as_ref().try_into().map_or(i64::MIN, i64::from_be_bytes);
            old |= since <= limit;
        }
        Ok(())
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
    version.map_err(|error| tracing::warn!(error, "a version of the topology cannot be read and is left out")).ok()
}
