//! Host side of the command channel to a guest; `fabriclens_guest` has the format.

use anyhow::{Context, Result, bail, ensure};
use fabriclens_guest::{Frame, Op, write_bytes};
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Exit status and output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit status, or 128 + the signal's number.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// Standard output of a command that must have succeeded.
    ///
    /// # Errors
    /// With status and both outputs if it failed.
    pub fn ok(self) -> Result<String> {
        ensure!(self.status == 0, "status {}: {}{}", self.status, self.out, self.err);
        Ok(self.out)
    }
}

/// Address of a guest's channel.
#[derive(Clone, Copy, Debug)]
pub struct Channel(pub SocketAddr);

impl Channel {
    /// Runs a shell script and waits for it. Its background processes are killed with it, except those under `setsid`.
    ///
    /// # Errors
    /// When the guest is gone or `limit` has passed; the guest then kills the command.
    pub fn exec(&self, script: &str, limit: Duration) -> Result<Output> {
        self.request(limit, |to| {
            to.write_all(&[Op::Exec as u8])?;
            write_bytes(to, script.as_bytes())
        })
        .with_context(|| format!("in the guest: {script}"))
    }

    /// Copies a file of this host to `to` in the guest, with its mode.
    ///
    /// # Errors
    /// When either side cannot read or write.
    pub fn put(&self, file: &Path, to: &str, mode: u32, limit: Duration) -> Result<()> {
        let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        self.put_bytes(&bytes, to, mode, limit)
    }

    /// Writes `bytes` to a file in the guest.
    ///
    /// # Errors
    /// When the guest cannot write it.
    pub fn put_bytes(&self, bytes: &[u8], to: &str, mode: u32, limit: Duration) -> Result<()> {
        let done = self.request(limit, |stream| {
            stream.write_all(&[Op::Put as u8])?;
            write_bytes(stream, to.as_bytes())?;
            stream.write_all(&mode.to_le_bytes())?;
            stream.write_all(bytes)?;
            stream.shutdown(Shutdown::Write)
        });
        done.and_then(Output::ok).with_context(|| format!("copying to {to} in the guest"))?;
        Ok(())
    }

    /// Sets the guest's wall clock to this host's.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn set_clock(&self, limit: Duration) -> Result<()> {
        self.request(limit, |to| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            to.write_all(&[Op::Clock as u8])?;
            to.write_all(&(now.as_nanos() as u64).to_le_bytes())
        })?
        .ok()?;
        Ok(())
    }

    /// The guest's wall clock, nanoseconds since 1970.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn now_ns(&self, limit: Duration) -> Result<u64> {
        let told = self.request(limit, |to| to.write_all(&[Op::Now as u8]))?.ok()?;
        told.parse().with_context(|| format!("the guest's clock says {told}"))
    }

    fn request(&self, limit: Duration, send: impl FnOnce(&mut TcpStream) -> io::Result<()>) -> Result<Output> {
        let end = Instant::now() + limit;
        let mut stream = TcpStream::connect_timeout(&self.0, limit).context("connecting to the guest")?;
        stream.set_nodelay(true)?;
        send(&mut stream).context("sending to the guest")?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no end after {limit:?}; so far: {}{}", text(&out), text(&err));
            }
            stream.set_read_timeout(Some(left))?;
            match Frame::read(&mut stream) {
                Ok(Frame::Out(bytes)) => out.extend(bytes),
                Ok(Frame::Err(bytes)) => err.extend(bytes),
                Ok(Frame::Exit(status)) => return Ok(Output { status, out: text(&out), err: text(&err) }),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("reading from the guest"),
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
