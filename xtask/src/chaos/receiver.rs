//! A remote-write receiver that refuses a whole request for one metric name that needs quotes, as older servers do.

use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Part of the names that it refuses.
pub const ODD: &str = "odd name";

/// A receiver, which runs until the program ends.
pub struct Receiver {
    pub port: u16,
    /// Requests that it accepted and refused.
    pub counts: Arc<[AtomicUsize; 2]>,
}

impl Receiver {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen for a forwarder")?;
        let receiver = Self { port: listener.local_addr()?.port(), counts: Arc::default() };
        let counts = receiver.counts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = counts.clone();
                std::thread::spawn(move || serve(client, &counts));
            }
        });
        Ok(receiver)
    }
}

/// Answers the requests of a connection until it ends.
fn serve(client: TcpStream, counts: &[AtomicUsize; 2]) -> Result<()> {
    let (mut answers, mut requests) = (client.try_clone()?, BufReader::new(client));
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line)? == 0 {
                bail!("the connection is closed");
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        requests.read_exact(&mut body)?;
        let body = snap::raw::Decoder::new().decompress_vec(&body)?;
        let odd = body.windows(ODD.len()).any(|part| part == ODD.as_bytes());
        counts[usize::from(odd)].fetch_add(1, Ordering::Relaxed);
        let status = if odd { "400 Bad Request" } else { "204 No Content" };
        let end = if odd { "Content-Length: 0\r\n\r\n" } else { "\r\n" };
        answers.write_all(format!("HTTP/1.1 {status}\r\n{end}").as_bytes())?;
    }
}
