//! The reader's thread: opens the port, and opens it again when it is lost.

use super::IbFabric;
use super::host::Host;
use super::permission::Permission;
use super::reader::Reader;
use fabriclens_agent_mad::packet::Get;
use fabriclens_agent_mad::transport::Mad;
use fabriclens_base::error_chain::with_causes;
use std::io;
use std::time::{Duration, Instant};

/// Pause after the port could not be opened.
const RETRY: Duration = Duration::from_secs(10);

/// Reads until the engine stops, as far as this host may; opens the port again when it is lost.
pub fn run(config: &IbFabric, host: &Host<'_>) {
    let mut reader = Reader::new(config, host);
    while !(host.stopping)() {
        let ended = (host.open)().map_err(Into::into).and_then(|(mad, name)| {
            tracing::info!(port = name, "port to the InfiniBand subnet is open");
            reader.serve(&mut Stoppable { mad, stopping: host.stopping, permission: Permission(host.lease) })
        });
        match ended {
            Err(error) if !(host.stopping)() => {
                // The next host takes over.
                reader.permission.end();
                (host.problem)(Some(with_causes(&*error)));
            }
            _ => {}
        }
        if (host.wait)(Instant::now() + RETRY) {
            break;
        }
    }
    reader.close();
}

/// Ends an exchange when the engine stops, or when this host may no longer read.
struct Stoppable<'a> {
    mad: Box<dyn Mad>,
    stopping: &'a (dyn Fn() -> bool + Sync),
    permission: Permission<'a>,
}

impl Mad for Stoppable<'_> {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        self.mad.send(get, transaction)
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        if (self.stopping)() || self.permission.is_lost() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.mad.receive(wait, into)
    }

    fn window(&self) -> usize {
        self.mad.window()
    }
}
