//! Ports for servers that a test starts as programs of their own.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Below the ports that Linux gives to outgoing connections (32768 to 60999 unless set otherwise): one of those may become a
/// client's before the server listens.
const CHOICE: std::ops::Range<u16> = 18_000..32_000;

/// A port of 127.0.0.1 on which nobody listens. A process gets each port once; different processes start the search at different
/// ports.
///
/// # Errors
/// When every port from 18000 to 31999 is taken.
pub fn free_port() -> io::Result<u16> {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let count = CHOICE.end - CHOICE.start;
    // 137 and the count have no divisor in common, so that processes one after another begin 137 ports apart.
    let begin = (u64::from(std::process::id()) * 137 % u64::from(count)) as u16;
    let mut last = None;
    for _ in 0..count {
        let port = CHOICE.start + (begin + TRIED.fetch_add(1, Relaxed) % count) % count;
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) => return Ok(port),
            Err(e) => last = Some(e),
        }
    }
    Err(last.expect("ports were tried"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_free() {
        let ports: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        let held: Vec<TcpListener> =
            ports.iter().map(|port| TcpListener::bind(("127.0.0.1", *port)).unwrap()).collect();
        assert_eq!(held.len(), 50);
        assert!(ports.iter().all(|port| CHOICE.contains(port)), "{ports:?}");
    }
}
