//! One question to a service, on a thread of its own that ends with it: the thread enters the network namespace, gives up all
//! other rights, and connects.

use super::services::Service;
use fabriclens_agent_collectives::model::Snapshot;
use fabriclens_agent_collectives::ras::{Limits, RasError, ask};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

/// Gives up all rights of a thread but that to connect to the port.
pub type Enter = Arc<dyn Fn() + Send + Sync>;

/// Stack of the thread.
const STACK: usize = 256 << 10;

/// Asks the service.
pub fn question(proc: &Path, service: &Service, limits: &Limits, enter: &Enter) -> Result<Snapshot, RasError> {
    // Opened here: once restricted, a thread may not look at other processes.
    let path = service.enter.map(|pid| proc.join(pid.to_string()).join("ns/net"));
    let namespace = path.map(File::open).transpose().map_err(RasError::Failed)?;
    let (address, limits, enter) = (service.id.1, limits.clone(), Arc::clone(enter));
    let body = move || {
        if let Some(namespace) = namespace {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| RasError::Failed(error.into()))?;
        }
        enter();
        ask(address, &limits)
    };
    let thread = std::thread::Builder::new().name("ras".into()).stack_size(STACK).spawn(body);
    let ended = thread.map_err(RasError::Failed)?.join();
    ended.unwrap_or_else(|_| Err(RasError::Failed(io::Error::other("the thread of the question panicked"))))
}
