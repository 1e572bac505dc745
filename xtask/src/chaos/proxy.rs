//! TCP proxy between an agent and the collector, which can delay bytes and break connections.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Value of the delay that breaks connections, new ones too.
const CUT: u64 = u64::MAX;

/// Proxy for one agent.
pub struct Proxy {
    /// Port on which the agent connects.
    pub port: u16,
    delay_ms: Arc<AtomicU64>,
}

impl Proxy {
    /// Starts a proxy to a local port, which runs until the program ends.
    pub fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen for an agent")?;
        let proxy = Self { port: listener.local_addr()?.port(), delay_ms: Arc::default() };
        let delay_ms = proxy.delay_ms.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // Dropping `near` closes the agent's connection, as a refused connection would.
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                pass(&near, &far, &delay_ms);
                pass(&far, &near, &delay_ms);
            }
        });
        Ok(proxy)
    }

    /// Delays bytes by `time` each way.
    pub fn delay(&self, time: Duration) {
        self.delay_ms.store(time.as_millis() as u64, Relaxed);
    }

    /// Breaks connections at the next byte.
    pub fn cut(&self) {
        self.delay_ms.store(CUT, Relaxed);
    }
}

/// Copies one direction, on a thread that ends with the connection.
fn pass(from: &TcpStream, to: &TcpStream, delay_ms: &Arc<AtomicU64>) {
    let (Ok(mut from), Ok(mut to), delay_ms) = (from.try_clone(), to.try_clone(), delay_ms.clone()) else { return };
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            match delay_ms.load(Relaxed) {
                0 => {}
                CUT => break,
                ms => std::thread::sleep(Duration::from_millis(ms)),
            }
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_until_the_connection_is_cut() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::to(echo.local_addr().unwrap().port()).unwrap();
        std::thread::spawn(move || {
            let mut one = echo.accept().unwrap().0;
            let mut bytes = [0; 2];
            while one.read_exact(&mut bytes).is_ok() && one.write_all(&bytes).is_ok() {}
        });
        let mut agent = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
        let mut back = [0; 2];
        agent.write_all(b"ab").unwrap();
        agent.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ab");
        proxy.cut();
        agent.write_all(b"cd").unwrap();
        assert!(agent.read_exact(&mut back).is_err());
    }
}
