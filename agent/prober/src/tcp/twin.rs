//! The TCP twin of a target: one connection that is kept, one message at a time.

use super::message::{SIZE, decode, encode};
use super::socket::connect;
use crate::flights::{STALL, TIMEOUT, nanoseconds};
use fabriclens_probe_plan::{ProbeResult, ProbeTransport, Target, address};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

/// Time without an answer after which the connection is made anew.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Pause before a connection that failed is made anew.
const RETRY: Duration = Duration::from_secs(5);

/// A message that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Duration,
    unix_ns: u64,
    sequence: u64,
    stalled: Duration,
    /// Its time is over, and that was told.
    told: bool,
}

#[derive(Debug)]
enum State {
    Closed { retry: Duration },
    Connecting { stream: TcpStream, since: Duration },
    Open { stream: TcpStream, part: [u8; SIZE], length: usize, sent: Option<Sent> },
}

/// What a twin has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwinResult {
    /// Unix nanoseconds at which the message was sent.
    pub sent_ns: u64,
    /// Round trip; `None`: not within the time-out.
    pub rtt: Option<Duration>,
    /// Time that this thread did not run.
    pub own: Duration,
}

/// The twin.
#[derive(Debug)]
pub struct Twin {
    from: IpAddr,
    to: SocketAddr,
    class: u8,
    state: State,
    sequence: u64,
}

impl Twin {
    /// A twin that is not connected; `None` if the target answers no TCP.
    pub fn new(target: &Target, from: IpAddr, now: Duration) -> Option<Self> {
        let port = target.to.as_ref()?;
        let number = u16::try_from(port.tcp_port).ok().filter(|number| *number != 0)?;
        let to = SocketAddr::new(address(&port.address)?, number);
        let class = u8::try_from(target.traffic_class).ok()?;
        let state = State::Closed { retry: now };
        (to.is_ipv4() == from.is_ipv4()).then_some(Self { from, to, class, state, sequence: 0 })
    }

    /// Its stream, if it has one.
    pub fn stream(&self) -> Option<&TcpStream> {
        match &self.state {
            State::Closed { .. } => None,
            State::Connecting { stream, .. } | State::Open { stream, .. } => Some(stream),
        }
    }

    /// A probe is due: sends a message, or tells that the last one has no answer yet. Connects first, if it must; true if there
    /// is a new stream.
    pub fn due(&mut self, now: Duration, unix_ns: u64) -> (Option<TwinResult>, bool) {
        match &mut self.state {
            State::Closed { retry } if now >= *retry => {
                self.state = match connect(self.from, self.to, self.class) {
                    Ok(stream) => State::Connecting { stream, since: now },
                    Err(_) => State::Closed { retry: now + RETRY },
                };
                (None, self.stream().is_some())
            }
            State::Closed { .. } => (None, false),
            State::Connecting { since, .. } => {
                let waited = now.saturating_sub(*since);
                let late = waited >= TIMEOUT;
                if waited >= GIVE_UP {
                    self.state = State::Closed { retry: now };
                }
                // Nobody answers, not even to refuse: the network or the host is away.
                (late.then_some(TwinResult { sent_ns: unix_ns, rtt: None, own: Duration::ZERO }), false)
            }
            State::Open { sent: Some(sent), .. } => {
                let waited = now.saturating_sub(sent.at);
                let found = (waited >= TIMEOUT && sent.stalled < STALL).then_some(TwinResult {
                    sent_ns: if sent.told { unix_ns } else { sent.unix_ns },
                    rtt: None,
                    own: sent.stalled,
                });
                sent.told |= found.is_some();
                if waited >= GIVE_UP {
                    self.state = State::Closed { retry: now };
                }
                (found, false)
            }
            State::Open { stream, sent, .. } => {
                self.sequence += 1;
                let message = encode(self.class, self.sequence);
                match stream.write_all(&message) {
                    Ok(()) => {
                        let (sequence, stalled) = (self.sequence, Duration::ZERO);
                        *sent = Some(Sent { at: now, unix_ns, sequence, stalled, told: false });
                    }
                    Err(_) => self.state = State::Closed { retry: now + RETRY },
                }
                (None, false)
            }
        }
    }

    /// The stream is ready: the connection is made or refused, or an answer has come. What was found.
    pub fn ready(&mut self, now: Duration) -> Option<TwinResult> {
        match self.read(now) {
            Ok(found) => found,
            Err(_) => {
                self.state = State::Closed { retry: now + RETRY };
                None
            }
        }
    }

    /// The thread did not run for so long.
    pub fn stalled(&mut self, pause: Duration) {
        match &mut self.state {
            State::Open { sent: Some(sent), .. } => sent.stalled += pause,
            State::Connecting { since, .. } => *since += pause,
            _ => {}
        }
    }

    fn read(&mut self, now: Duration) -> io::Result<Option<TwinResult>> {
        let state = std::mem::replace(&mut self.state, State::Closed { retry: now + RETRY });
        let mut found = None;
        self.state = match state {
            State::Connecting { stream, since } => match stream.take_error()? {
                Some(error) => return Err(error),
                None if stream.peer_addr().is_ok() => State::Open { stream, part: [0; SIZE], length: 0, sent: None },
                None => State::Connecting { stream, since },
            },
            State::Open { mut stream, mut part, mut length, mut sent } => {
                loop {
                    match stream.read(&mut part[length..]) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(read) => length += read,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => return Err(error),
                    }
                    if length < SIZE {
                        continue;
                    }
                    length = 0;
                    let (_, sequence) = decode(&part).ok_or(io::ErrorKind::InvalidData)?;
                    let answered =
                        sent.take().filter(|sent| sent.sequence == sequence).ok_or(io::ErrorKind::InvalidData)?;
                    let rtt = now.saturating_sub(answered.at);
                    if !answered.told {
                        found = Some(TwinResult { sent_ns: answered.unix_ns, rtt: Some(rtt), own: answered.stalled });
                    }
                }
                State::Open { stream, part, length, sent }
            }
            closed @ State::Closed { .. } => closed,
        };
        Ok(found)
    }
}

impl TwinResult {
    /// As it is reported.
    pub fn result(&self) -> ProbeResult {
        ProbeResult {
            sent_ns: self.sent_ns,
            rtt_ns: self.rtt.map(nanoseconds),
            own_ns: nanoseconds(self.own),
            transport: ProbeTransport::Tcp as i32,
            ..ProbeResult::default()
        }
    }
}
