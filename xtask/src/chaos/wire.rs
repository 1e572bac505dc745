//! The wire between an agent and the collector: bytes are passed on, late, or not at all.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// In place of a delay: connections are broken, and new ones at once.
const CUT: u64 = u64::MAX;

/// Listens for one agent and passes on to one address.
pub struct Wire {
    /// Where the agent connects.
    pub port: u16,
    delay_ms: Arc<AtomicU64>,
}

impl Wire {
    /// Passes connections on to a port of this machine until the program ends.
    pub fn to(port: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen for an agent")?;
        let wire = Self { port: listener.local_addr()?.port(), delay_ms: Arc::default() };
        let delay_ms = wire.delay_ms.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // A collector that is away breaks the agent's connection, as a host that refuses it would.
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                pass(&near, &far, &delay_ms);
                pass(&far, &near, &delay_ms);
            }
        });
        Ok(wire)
    }

    /// From now on bytes wait for so long, each way.
    pub fn delay(&self, time: Duration) {
        self.delay_ms.store(time.as_millis() as u64, Relaxed);
    }

    /// From now on connections break with the next byte.
    pub fn cut(&self) {
        self.delay_ms.store(CUT, Relaxed);
    }
}

/// One way, on a thread that ends with the connection.
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
    fn a_wire_passes_bytes_until_it_is_cut() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let wire = Wire::to(echo.local_addr().unwrap().port()).unwrap();
        std::thread::spawn(move || {
            let mut one = echo.accept().unwrap().0;
            let mut bytes = [0; 2];
            while one.read_exact(&mut bytes).is_ok() && one.write_all(&bytes).is_ok() {}
        });
        let mut agent = TcpStream::connect(("127.0.0.1", wire.port)).unwrap();
        let mut back = [0; 2];
        agent.write_all(b"ab").unwrap();
        agent.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ab");
        wire.cut();
        agent.write_all(b"cd").unwrap();
        assert!(agent.read_exact(&mut back).is_err());
    }
}
