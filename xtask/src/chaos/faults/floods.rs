//! Attacks by clients that send: requests with many things that cost nothing to write. The fleet must not notice, and what is
//! kept of them is bounded.

use super::Fault;
use crate::chaos::attackers::{Request, SEND, attack, bounded};
use crate::chaos::otlp;
use crate::chaos::testbed::{TestBed, get};
use anyhow::{Result, ensure};
use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

/// Most bytes that descriptions of metrics take, as the API writes them.
const DESCRIPTIONS: usize = 16 << 20;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "many-descriptions",
        often: false,
        expected: "descriptions of metrics that change with each request take their share of memory, other samples do not wait",
        inject: |bed, _, hold| bounded(bed, |bed| descriptions(bed, hold)),
    },
    Fault {
        name: "empty-resources",
        often: false,
        expected: "requests that decompress to millions of empty resources are refused, other samples do not wait",
        inject: |bed, _, hold| bounded(bed, |bed| attack(bed, hold, SEND, resources)),
    },
];

fn descriptions(bed: &TestBed, hold: Duration) -> Result<String> {
    // Made once: the attackers share the processor with the collector.
    static BODIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let body = |n| otlp::described(&format!("attacker-{n}"), 1000, &format!("{n} {}", "x".repeat(1000)));
        (0..8).map(body).collect()
    });
    let seen = attack(bed, hold, SEND, |n| Request::samples(BODIES[n % BODIES.len()].clone()))?;
    let bytes = get(&format!("{}/api/v1/metadata", bed.url))?.1.len();
    ensure!(bytes <= DESCRIPTIONS, "descriptions take {bytes} bytes");
    Ok(format!("{seen}; {} kB of descriptions are kept", bytes / 1000))
}

/// Sixteen megabytes, compressed a thousand times.
fn resources(_: usize) -> Request {
    static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        // Memory takes all that is written.
        _ = gzip.write_all(&otlp::empty_resources(8_000_000));
        gzip.finish().unwrap_or_default()
    });
    Request { gzip: true, ..Request::samples(BODY.clone()) }
}
