//! Entry point for the fuzzer: opens a queue whose only segment holds the given bytes, and reads it to its end.

use super::queue::{Limits, Queue};
use super::reader::Reader;
use super::segment;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_store::io::OsFiles;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Opens a queue in the empty directory `dir`.
pub fn segment(dir: &Path, bytes: &[u8], telemetry: &Telemetry) {
    const LIMITS: Limits = Limits { bytes: u64::MAX, age: None, refuses: false };
    let written = std::fs::write(dir.join(segment::name(1)), bytes);
    written.expect("the directory is writable");
    let Ok(queue) = Queue::open(Arc::new(OsFiles), dir, vec![], LIMITS, Arc::new(now_ms), telemetry.forward("fuzz"))
    else {
        return;
    };
    let queue = Arc::new(queue);
    let mut reader = Reader::new(queue.clone());
    while let Ok(Some(window)) = reader.window(100, Duration::ZERO) {
        assert!(window.until > window.from, "each window advances");
        queue.advance(window.segment, window.until, window.samples);
    }
}
