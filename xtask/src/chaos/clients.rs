//! Clients with an address of their own: what a collector keeps of callers without credentials, it keeps by address.

use anyhow::{Context as _, Result};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// The address of attackers; all others use 127.0.0.1.
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest part of an answer that is read.
const ANSWER: u64 = 64 << 10;

/// A connection from an address of this host.
pub fn connected(from: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &SocketAddrV4::new(from, 0))?;
    connect(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).context("connect as an attacker")?;
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Sends a request and returns the begin of the answer.
pub fn post(from: Ipv4Addr, port: u16, path: &str, content_type: &str, body: &[u8]) -> Result<String> {
    let mut stream = connected(from, port)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Calls a gRPC method over HTTP/1; returns its status, 0 for success.
pub fn call(from: Ipv4Addr, port: u16, path: &str, message: &[u8]) -> Result<u32> {
    let answer = post(from, port, path, "application/grpc", message)?;
    status(&answer).with_context(|| format!("{path} is answered with {answer:?}"))
}

/// The status of a call: a header if it failed, and behind the message otherwise, where HTTP/1 has none.
fn status(answer: &str) -> Option<u32> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let is_ok = lines.next()?.split(' ').nth(1)? == "200";
    let failed = lines.find_map(|line| line.to_ascii_lowercase().strip_prefix("grpc-status:")?.trim().parse().ok());
    failed.or(is_ok.then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_calls_name_their_status() {
        assert_eq!(status("HTTP/1.1 200 OK\r\nGrpc-Status: 8\r\n\r\n"), Some(8));
        assert_eq!(status("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"), Some(0));
        assert_eq!(status("HTTP/1.1 503 Service Unavailable\r\n\r\n"), None);
        assert_eq!(status(""), None);
    }
}
