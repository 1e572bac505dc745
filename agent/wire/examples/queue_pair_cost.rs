//! What exported queue pairs cost: time of the agent for each slow sample, bytes on the wire, and requests to send to a collector, to
//! see its memory.
//!
//! ```sh
//! cargo run --release -p fabriclens-wire --example queue_pair_cost -- /tmp/requests
//! ```
//!
//! Writes `PAIRS-PORT.bin` for 64 ports each: OTLP requests in protobuf, for `POST /v1/metrics`.

use fabriclens_catalog::metrics::job::QUEUE_PAIR_INFO;
use fabriclens_wire::encode::request_bytes;
use fabriclens_wire::{Column, Resource, Section, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Queue pairs of a port, and the number of ports for which requests are written.
const PAIRS: [u32; 4] = [512, 2048, 4096, 8192];
const PORTS: u32 = 64;
/// Rounds of which the fastest counts.
const ROUNDS: usize = 20;

fn columns(port: u32, pairs: u32) -> Arc<[Column]> {
    let column = |pair: u32| {
        // Numbers as mlx5 gives them; each process has sixteen queue pairs, and the peers are on several hosts.
        let local = 0x1_0000 + port * 0x1_0000 + pair;
        let remote = 0x80_0000 + (local.wrapping_mul(2_654_435_761) >> 12);
        let (pid, source_port) = (20_000 + pair / 16, 0xC000 + local.wrapping_mul(remote) % 0x4000);
        let labels = [
            ("job", "4711".to_owned()),
            ("local", local.to_string()),
            ("pid", pid.to_string()),
            ("remote", remote.to_string()),
            ("scheduler", "slurm".to_owned()),
            ("source_port", source_port.to_string()),
            ("type", "RC".to_owned()),
        ];
        let labels = labels.iter().map(|(name, value)| (Arc::from(*name), Arc::from(value.as_str()))).collect();
        Column { metric: &QUEUE_PAIR_INFO, labels }
    };
    (0..pairs).map(column).collect()
}

#[expect(clippy::disallowed_methods, reason = "a sample needs a time of day; nothing here measures by it")]
fn section(port: u32, columns: Arc<[Column]>) -> Section {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let resource = Resource {
        host: format!("gpu-{:02}", port / 8).into(),
        device: Some(format!("mlx5_{}", port % 8).into()),
        port: Some(1),
    };
    Section {
        resource: Arc::new(resource),
        begin_ns: now,
        end_ns: now,
        starts: vec![0; columns.len()].into(),
        values: vec![Value::Int(1); columns.len()],
        columns,
        urgent: false,
    }
}

/// The shortest time that a piece of work takes.
fn fastest(work: impl Fn()) -> Duration {
    let once = || {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    (0..ROUNDS).map(|_| once()).min().unwrap_or_default()
}

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "queue-pairs".into()));
    std::fs::create_dir_all(&dir)?;
    println!("pairs  columns us  encoding us  bytes");
    for pairs in PAIRS {
        let made = fastest(|| drop(std::hint::black_box(columns(0, pairs))));
        let one = section(0, columns(0, pairs));
        let encoded = fastest(|| drop(std::hint::black_box(request_bytes(std::slice::from_ref(&one)))));
        let bytes = request_bytes(std::slice::from_ref(&one)).len();
        println!("{pairs:5}  {:10}  {:11}  {bytes:5}", made.as_micros(), encoded.as_micros());
        for port in 0..PORTS {
            let request = request_bytes(&[section(port, columns(port, pairs))]);
            std::fs::write(dir.join(format!("{pairs}-{port:02}.bin")), request)?;
        }
    }
    Ok(())
}
