//! Files of the store, of forwarding queues and of spools.

use super::file;
use super::sender::otlp;
use crate::paths::scratch;
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_uplink::spool::{Limits, Now, Spool};
use fabriclens_model::Labels;
use fabriclens_store::log_record;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A request under each number of a compression, as a spool keeps it.
pub(crate) fn kept() -> Vec<Vec<u8>> {
    let request = otlp().swap_remove(1);
    let gzipped = {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(&request).expect("memory takes bytes");
        out.finish().expect("memory takes bytes")
    };
    let zstd = zstd::bulk::compress(&request, 1).expect("memory takes bytes");
    let message = |code: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        [&[code, u8::from(code > 0)], &length[..], body].concat()
    };
    vec![message(0, &request), message(1, &gzipped), message(2, &zstd)]
}

const STORES: &str = "collector/store/tests/fixtures/stores";

pub(crate) fn blocks() -> Vec<Vec<u8>> {
    ["v1", "v2"].iter().flat_map(|v| file(&format!("{STORES}/{v}/blocks/000000000001.blk"))).collect()
}

pub(crate) fn logs() -> Vec<Vec<u8>> {
    ["v1", "v2"].iter().flat_map(|v| file(&format!("{STORES}/{v}/wal/000000000002-0000.wal"))).collect()
}

pub(crate) fn queues() -> Vec<Vec<u8>> {
    let mut queue = b"FABLENSF\x02\0\0\0\x01".to_vec();
    queue.resize(40, 0);
    let columns = ["a", "b", "c"].map(|name| Labels::new([("__name__", name), ("host", "h1")]));
    log_record::put_layout(&mut queue, 1, &columns);
    for t in 0..4 {
        log_record::put_rows(&mut queue, 1, &[t * 1000, t * 1000 + 500], &[1.0, 2.0, 0.5, f64::NAN, t as f64, -7.0]);
    }
    vec![queue]
}

/// Creates a spool with these requests; returns its directory and segment.
pub(crate) fn spool(requests: &[&[u8]]) -> (TempDir, PathBuf) {
    let dir = scratch();
    let (mut spool, _) = opened(dir.path());
    let now = Now::of(&Clock::new());
    for (n, request) in requests.iter().enumerate() {
        spool.append(request, 0, n as u64 + 1, now).1.expect("the spool has space");
    }
    spool.seal().expect("the disk is intact");
    let mut files = fs::read_dir(dir.path()).expect("its directory").flatten().map(|entry| entry.path());
    let other = |path: &PathBuf| !["lock", "cursor"].iter().any(|name| path.ends_with(name));
    let segment = files.find(other).expect("a segment");
    (dir, segment)
}

/// Opens the spool of a directory; returns the time, too.
pub(crate) fn opened(dir: &Path) -> (Spool, Instant) {
    let now = Now::of(&Clock::new());
    let limits = Limits { bytes: 64 << 20, age: Duration::from_secs(86_400) };
    (Spool::open(dir, limits, now).expect("a directory of its own"), now.at)
}

pub(crate) fn spools() -> Vec<Vec<u8>> {
    let (_dir, segment) = spool(&[b"one", &[7; 300], b""]);
    vec![fs::read(segment).expect("it was written")]
}
