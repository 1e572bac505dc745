//! The exchange with a RAS service. All that this program ever sends to one is in this file.

use super::input::Input;
use super::{Limits, RasError, json, text};
use crate::model::Snapshot;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longest line of an answer to anything but the status, bytes.
const LINE: usize = 512;

/// A line that is sent. There is none that changes a job.
#[derive(Debug, Clone, Copy)]
enum Line {
    /// Opens the exchange.
    Hello,
    /// Longest time that the service waits for the other processes of the job, seconds.
    Timeout(u64),
    /// Asks for JSON.
    Json,
    /// Asks for the status in JSON.
    Status,
    /// Asks for the status in text form, which names more ranks if it is verbose.
    VerboseStatus,
}

impl Line {
    fn text(self) -> String {
        match self {
            Self::Hello => "CLIENT PROTOCOL 2\n".into(),
            Self::Timeout(seconds) => format!("TIMEOUT {seconds}\n"),
            Self::Json => "SET FORMAT json\n".into(),
            Self::Status => "STATUS\n".into(),
            Self::VerboseStatus => "VERBOSE STATUS\n".into(),
        }
    }
}

/// Asks the service at this address for the status of its job.
///
/// # Errors
/// [`RasError`]; an answer that is not complete gives no snapshot.
pub fn ask(address: SocketAddr, limits: &Limits) -> Result<Snapshot, RasError> {
    let stream = TcpStream::connect_timeout(&address, limits.connect).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => RasError::Silent,
        _ => error.into(),
    })?;
    ask_stream(&stream, limits)
}

/// Asks on an open connection.
///
/// # Errors
/// As [`ask`].
pub fn ask_stream(stream: &TcpStream, limits: &Limits) -> Result<Snapshot, RasError> {
    let end = Instant::now() + limits.whole;
    let mut line = Timed { stream, end: end.min(Instant::now() + limits.first) };
    greet(&mut line)?;
    line.end = end;
    // The service must give up before this client does, so that it answers with the ranks that did not answer it.
    let patience = limits.whole.saturating_sub(Duration::from_secs(5)).as_secs().max(1);
    line.ask(Line::Timeout(patience))?;
    if line.ask(Line::Json)? == "OK" {
        line.send(Line::Status)?;
        json::snapshot(&mut Input::new(line, limits.bytes), limits)
    } else {
        // NCCL before 2.28 does not know the command.
        line.send(Line::VerboseStatus)?;
        text::snapshot(&mut Input::new(line, limits.bytes), limits)
    }
}

/// Recognizes the service at its first answer.
fn greet(line: &mut Timed<'_>) -> Result<(), RasError> {
    let answer = line.ask(Line::Hello).map_err(|error| match error {
        RasError::Slow => RasError::Silent,
        // Another service may close what it does not understand.
        RasError::Cut => RasError::Foreign(String::new()),
        other => other,
    })?;
    let number = answer.strip_prefix("SERVER PROTOCOL ").and_then(|number| number.trim().parse::<u32>().ok());
    match number {
        Some(_) => Ok(()),
        None => Err(RasError::Foreign(answer.chars().take(60).collect())),
    }
}

/// Connection whose reads and writes end at a time.
struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn send(&mut self, line: Line) -> Result<(), RasError> {
        Ok(self.write_all(line.text().as_bytes())?)
    }

    /// Sends a line and takes one, without its end.
    fn ask(&mut self, line: Line) -> Result<String, RasError> {
        self.send(line)?;
        let mut answer = Vec::new();
        // By byte, because the bytes after the line belong to whoever reads next.
        let mut byte = [0];
        while answer.len() < LINE {
            match self.read(&mut byte) {
                Ok(0) => return Err(RasError::Cut),
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => answer.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A greeting without an end of line shows another service; silence shows none.
                Err(error) if answer.is_empty() => return Err(error.into()),
                Err(_) => break,
            }
        }
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_sent_changes_a_job() {
        let lines = [Line::Hello, Line::Timeout(10), Line::Json, Line::Status, Line::VerboseStatus];
        let sent: Vec<String> = lines.into_iter().map(Line::text).collect();
        let known = ["CLIENT PROTOCOL ", "TIMEOUT ", "SET FORMAT ", "STATUS\n", "VERBOSE STATUS\n"];
        for line in &sent {
            assert!(known.iter().any(|known| line.starts_with(known)), "{line:?} may change a job");
            assert_eq!(line.matches('\n').count(), 1, "{line:?} must be one line");
        }
    }
}
