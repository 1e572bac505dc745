//! A port that sends and receives unreliable datagrams by libibverbs ([`DatagramPort`]).
//!
//! One completion queue serves all queue pairs of the port. Where the NIC stamps completions (mlx5, ionic, mlx4, irdma), times
//! are the NIC's; elsewhere the host's. A device that is removed while it is open is closed as soon as the kernel announces
//! it, because drivers without support for surprise removal wait for that.

mod abi;
mod address_handles;
mod functions;
mod header;
mod memory;
mod queue;
mod resources;
mod software_time;
mod ticks;

pub use abi::Pd;
pub use functions::{Functions, functions};

use super::super::sys::{Socket, poll, set_nonblocking};
use super::super::uevent::{self, Uevent};
use super::event_kinds::{DEVICE_FATAL, KINDS};
use super::ffi;
use crate::datagrams::{
    Completion, DatagramPort, LONGEST, OpenError, PortFacts, PortLost, PortSource, QueuePair, Received, Route,
    SendError, SourcePorts, rxe_source_port,
};
use address_handles::{AddressHandles, Found};
use header::HEADER;
use queue::{Raw, Stamp};
use resources::Resources;
use software_time::SoftwareTime;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

/// Queue pairs of a port whose driver fixes their source ports: each takes another path.
const FIXED: usize = 8;
/// Completions read at once.
const BATCH: usize = 64;
/// Bytes of an uevent.
const UEVENT: usize = 8 << 10;
/// Group of the kernel's own uevents.
const KOBJECT_GROUP: u32 = 1;

/// An open port. Used by the thread that opened it.
#[derive(Debug)]
pub struct UdPort {
    facts: PortFacts,
    device: String,
    is_v4: bool,
    /// Dropped before the resources that it uses.
    handles: AddressHandles,
    resources: Resources,
    software: SoftwareTime,
    uevents: Socket,
    /// Whether the completion queue will wake the channel.
    armed: bool,
    /// Index of the queue pair that sends next, where the route does not name one.
    next: usize,
    raw: Vec<Raw>,
    uevent: Vec<u8>,
}

impl UdPort {
    /// Opens a port.
    ///
    /// # Errors
    /// Each reason by its name, with the remedy.
    pub fn open(source: &PortSource) -> Result<Self, OpenError> {
        let name = source.name();
        let device = source.device.as_str();
        let refused = |step| {
            let port = name.clone();
            move |source| OpenError::Refused { port, step, source }
        };
        // Before the device is opened, so that no removal is missed.
        let uevents = Socket::netlink(libc::NETLINK_KOBJECT_UEVENT).map_err(refused("tell removals"))?;
        uevents.join(KOBJECT_GROUP).map_err(refused("tell removals"))?;
        let context = open_device(device)?;
        set_nonblocking(context.events()).map_err(refused("read events without blocking"))?;
        let number = source.port;
        let is_fixed = source.source_ports == SourcePorts::Fixed;
        let queue_pairs = if is_fixed { FIXED } else { 1 };
        let resources = Resources::create(context, number, &name, source.gid.is_none(), queue_pairs)?;
        let handles = AddressHandles::new(
            resources.functions,
            resources.pd,
            number,
            source.gid.map(|gid| gid.0),
            source.source_ports == SourcePorts::Chosen,
        );
        let pair = |number| QueuePair { number, source_port: is_fixed.then(|| rxe_source_port(number)) };
        let facts = PortFacts {
            address: source.gid.map(|gid| gid.1),
            queue_pairs: resources.numbers().map(pair).collect(),
            source_ports: source.source_ports,
            hardware_time: resources.queue.has_hardware_time(),
        };
        let is_v4 = facts.address.is_some_and(|address| address.is_ipv4());
        Ok(Self {
            facts,
            device: device.to_owned(),
            is_v4,
            handles,
            resources,
            software: SoftwareTime::new(),
            uevents,
            armed: false,
            next: 0,
            raw: Vec::with_capacity(BATCH),
            uevent: vec![0; UEVENT],
        })
    }

    /// Reads what is complete; `software` is its time where the NIC tells none.
    fn drain(&mut self, software: u64, out: &mut Vec<Completion>) -> Result<usize, PortLost> {
        self.raw.clear();
        let lost = |error: io::Error| PortLost(format!("completions of {} cannot be read: {error}", self.device));
        self.resources.queue.poll(&mut self.raw, BATCH).map_err(lost)?;
        for index in 0..self.raw.len() {
            let raw = self.raw[index];
            out.extend(self.completion(raw, software)?);
        }
        Ok(self.raw.len())
    }

    fn completion(&mut self, raw: Raw, software: u64) -> Result<Option<Completion>, PortLost> {
        let (is_receive, pair, slot) = memory::decode(raw.wr_id);
        let at = match raw.at {
            Stamp::Hardware(at) => at,
            Stamp::Software if is_receive => software,
            Stamp::Software => self.resources.memory.posted(slot),
        };
        if !raw.ok {
            return Err(PortLost(format!("a queue pair of {} has failed (status {})", self.device, raw.status)));
        }
        if !is_receive {
            let source_port = match self.facts.source_ports {
                SourcePorts::Fixed => self.facts.queue_pairs.get(pair).and_then(|pair| pair.source_port),
                SourcePorts::Chosen => Some(self.resources.memory.source_port(slot)).filter(|port| *port >= 0xc001),
                SourcePorts::Unknown => None,
            };
            let id = self.resources.memory.sent(slot);
            return Ok(id.map(|id| Completion::Sent { id, at, source_port }));
        }
        let mut bytes = [0; HEADER + LONGEST];
        self.resources.memory.read(slot, &mut bytes);
        // The slot goes back before anything can fail, so that the queue pair does not run dry.
        let posted = self.resources.post_receive(pair, slot);
        posted.map_err(|error| PortLost(format!("{} takes no receive buffer: {error}", self.device)))?;
        let (head, payload) = bytes.split_first_chunk::<HEADER>().unwrap_or((&[0; HEADER], &[]));
        let length = usize::try_from(raw.byte_len).unwrap_or(0).saturating_sub(HEADER);
        let sender = if self.facts.address.is_some() {
            header::sender(head, self.is_v4, raw.src_qp)
        } else {
            Some((crate::datagrams::Peer { address: None, lid: raw.slid, queue_pair: raw.src_qp }, 0))
        };
        let Some((from, traffic_class)) = sender else { return Ok(None) };
        let queue_pair = self.facts.queue_pairs.get(pair).map_or(0, |pair| pair.number);
        let mut received = Received {
            at,
            from,
            queue_pair,
            traffic_class,
            service_level: raw.service_level,
            payload: [0; LONGEST],
            length,
        };
        let taken = length.min(LONGEST);
        if let (Some(to), Some(from)) = (received.payload.get_mut(..taken), payload.get(..taken)) {
            to.copy_from_slice(from);
        }
        Ok(Some(Completion::Received(received)))
    }

    /// Reads the device's events. Fails if it has failed or has another address.
    fn check_events(&self) -> Result<(), PortLost> {
        let lost = |why: &str| Err(PortLost(format!("{} {why}", self.device)));
        loop {
            match self.resources.context().next_event() {
                Ok(event) => {
                    let kind =
                        usize::try_from(event.kind).ok().and_then(|kind| KINDS.get(kind)).map_or("", |kind| kind.0);
                    match kind {
                        DEVICE_FATAL | "qp_fatal" | "cq_err" => return lost("has failed"),
                        "gid_change" | "lid_change" => return lost("has another address"),
                        _ => {}
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(_) => return lost("is gone"),
            }
        }
    }

    /// Reads the kernel's uevents. Fails if the device is to be removed.
    fn check_uevents(&mut self) -> Result<(), PortLost> {
        let lost = |why: &str| Err(PortLost(format!("{} {why}", self.device)));
        loop {
            match self.uevents.receive(&mut self.uevent, false) {
                Ok(message) if message.from_kernel => match uevent::parse(message.bytes) {
                    Some(Uevent::VerbsRemoved(name)) if name == self.resources.context().uverbs => {
                        return lost("is removed");
                    }
                    Some(Uevent::Removed(name)) if name == self.device => return lost("is removed"),
                    _ => {}
                },
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Too long to be one of ours.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                // Events were lost, so a removal may be among them.
                Err(_) => return lost("may be removed: uevents were lost"),
            }
        }
    }
}

fn open_device(device: &str) -> Result<ffi::Context, OpenError> {
    let mut file = None;
    let contexts = ffi::open(|name, uverbs| {
        let wanted = name == device;
        if wanted {
            file = Some(PathBuf::from("/dev/infiniband").join(uverbs));
        }
        wanted
    });
    let opened = contexts.map_err(OpenError::NoLibrary)?.into_iter().next();
    opened.ok_or_else(|| match file {
        Some(file) => OpenError::NoDeviceFile { device: device.to_owned(), file },
        None => OpenError::NoDevice(device.to_owned()),
    })
}

impl DatagramPort for UdPort {
    fn facts(&self) -> &PortFacts {
        &self.facts
    }

    fn send(&mut self, route: &Route, bytes: &[u8], id: u64) -> Result<(), SendError> {
        let handle = match self.handles.get(route) {
            Found::Handle(handle) => handle,
            Found::Resolving => return Err(SendError::Resolving),
            Found::Unreachable => return Err(SendError::Unreachable),
        };
        let pairs = self.facts.queue_pairs.len().max(1);
        let by_number = self.facts.queue_pairs.iter().position(|pair| pair.number == route.queue_pair);
        let by_port = |pair: &QueuePair| pair.source_port == Some(route.source_port);
        let pair = by_number.or_else(|| self.facts.queue_pairs.iter().position(by_port)).unwrap_or_else(|| {
            self.next = (self.next + 1) % pairs;
            self.next
        });
        if self.facts.hardware_time {
            return self.resources.post_send(pair, handle, route, bytes, id).map(|_| ());
        }
        // Its completion is read later than its answer may come, so that it tells no time.
        let post = self.software.begin_post();
        let slot = self.resources.post_send(pair, handle, route, bytes, id)?;
        self.resources.memory.set_posted(slot, self.software.end_post(post));
        Ok(())
    }

    fn poll(&mut self, wait: Duration, out: &mut Vec<Completion>) -> Result<(), PortLost> {
        let mut got = self.drain(self.software.now(), out)?;
        if got == 0 && !self.armed {
            let refused = |error| PortLost(format!("{} does not notify: {error}", self.device));
            self.resources.queue.notify().map_err(refused)?;
            self.armed = true;
            // What came before the notification was requested wakes nobody.
            got = self.drain(self.software.now(), out)?;
        }
        if !self.facts.hardware_time {
            self.software.begin_wait();
        }
        let wait = if got > 0 { Duration::ZERO } else { wait };
        let fds = [self.resources.queue.descriptor(), self.resources.context().events(), self.uevents.as_fd()];
        let ready = poll(&fds, wait).map_err(|error| PortLost(format!("{} cannot be polled: {error}", self.device)))?;
        let woken = self.software.end_wait();
        let is_ready = |index: usize| ready.get(index).copied().unwrap_or(false);
        if is_ready(2) {
            self.check_uevents()?;
        }
        if is_ready(1) {
            self.check_events()?;
        }
        if is_ready(0) {
            self.resources.queue.take_event();
            self.armed = false;
        }
        self.drain(woken, out).map(|_| ())
    }
}
