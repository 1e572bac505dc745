//! Clients that send malformed input to every listener.

use crate::random::Random;
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Timeout of reads and writes.
const ANSWER: Duration = Duration::from_millis(300);

/// Time from one round of all inputs to the next: the same load on a slow machine and on a fast one, because the CPU that an agent may
/// use is bounded.
const ROUND: Duration = Duration::from_millis(150);

/// A kind of malformed input: name and bytes.
type Malformed = (&'static str, fn(&mut Random) -> Vec<u8>);

const ALL: &[Malformed] = &[
    ("noise", |random| random.bytes(4096)),
    ("zeros", |_| vec![0; 65536]),
    ("a truncated TLS hello", |random| [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &random.bytes(100)].concat()),
    ("an endless request header", |_| {
        [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec(), vec![b'a'; 200_000]].concat()
    }),
    ("thousands of headers", |_| {
        [b"GET / HTTP/1.1\r\nHost: localhost\r\n".to_vec(), b"a: b\r\n".repeat(20_000), b"\r\n".to_vec()].concat()
    }),
    ("two content lengths", |_| {
        b"POST /api/v1/write HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics".to_vec()
    }),
    ("a huge content length", |_| {
        b"POST /v1/metrics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 18446744073709551615\r\n\r\nx"
            .to_vec()
    }),
    ("random bytes as remote write", |random| {
        let headers = "Content-Encoding: snappy\r\nContent-Type: application/x-protobuf";
        post("/api/v1/write", headers, &random.bytes(500))
    }),
    ("a decompression bomb", |_| BOMB.clone()),
    ("a deeply nested query", |_| {
        let query = "query=".to_owned() + &"-".repeat(20_000) + &"(".repeat(20_000) + "1";
        post("/api/v1/query", "Content-Type: application/x-www-form-urlencoded", query.as_bytes())
    }),
    ("deeply nested JSON", |_| post("/api/v1/jobs", "Content-Type: application/json", &b"[".repeat(200_000))),
    ("random HTTP/2 frames", |random| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec();
        for _ in 0..50 {
            let body = random.bytes(60);
            bytes.extend([0, 0, body.len() as u8, random.below(12) as u8, random.below(256) as u8, 0, 0, 0, 1]);
            bytes.extend(body);
        }
        bytes
    }),
    ("streams opened and reset", |_| {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec();
        for stream in (1u32..4000).step_by(2) {
            // HEADERS with GET, http and /, then RST_STREAM.
            bytes.extend([0, 0, 3, 1, 5]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend([0x82, 0x86, 0x84, 0, 0, 4, 3, 0]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend([0, 0, 0, 8]);
        }
        bytes
    }),
];

/// 64 MiB of zeros, compressed to 64 KiB.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let packed = (0..64).try_for_each(|_| packer.write_all(&[0; 1 << 20])).and_then(|()| packer.finish());
    post("/v1/metrics", "Content-Encoding: gzip\r\nContent-Type: application/x-protobuf", &packed.unwrap_or_default())
});

/// A POST request.
fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Sends every malformed input to every port, each [`ROUND`] for about `hold`; describes the number of inputs and answers.
pub fn send_malformed(ports: &[u16], random: &mut Random, hold: Duration) -> Result<String> {
    let (begin, mut sent, mut answered) = (Instant::now(), 0, 0);
    // Idle connections that stay open.
    let mut idle = Vec::new();
    while begin.elapsed() < hold || sent == 0 {
        let next = Instant::now() + ROUND;
        for (_, input) in ALL {
            for port in ports {
                let mut peer = TcpStream::connect(("127.0.0.1", *port))?;
                peer.set_read_timeout(Some(ANSWER))?;
                peer.set_write_timeout(Some(ANSWER))?;
                // A connection closed by the server counts as answered.
                let written = peer.write_all(&input(random));
                let mut answer = [0; 16];
                answered += usize::from(written.is_err() || peer.read(&mut answer).is_ok());
                sent += 1;
                match random.below(4) {
                    0 if idle.len() < 200 => idle.push(peer),
                    _ => drop(peer.shutdown(Shutdown::Both)),
                }
            }
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(format!("{sent} malformed inputs of {} kinds, {answered} answered or closed at once", ALL.len()))
}
