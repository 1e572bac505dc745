//! Event source: polls rtnetlink changes of links and of DCB configuration, RDMA uevents, RDMA netlink notifications and asynchronous verbs events.
//!
//! Two sources may report the same change, such as an added device by uevent and netlink. The caller then discovers
//! devices twice, and the second discovery finds nothing new.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::dcb;
use super::error::call_error;
use super::netlink::{ReopeningChannel, Request, attribute, messages, text, u32_at};
use super::rdma::{attr, command};
use super::sys::{Datagram, Socket, poll};
use super::uevent::{self, Uevent};
use super::verbs::Monitor;
use crate::{CallError, Event, EventSource};

const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_DCB: u32 = 23;
const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
/// Size of `struct ifinfomsg`.
const IFINFO: usize = 16;
const IFNAME: u16 = 3;
const CARRIER: u16 = 33;
/// `IFF_LOWER_UP`.
const LOWER_UP: u32 = 1 << 16;

const KOBJECT_GROUP: u32 = 1;
const RDMA_GROUP_NOTIFY: u32 = 4;
const RDMA_MONITOR: u16 = 28;

/// Receive buffer in bytes. Must hold a burst, such as a driver reload with hundreds of VFs, until the thread runs.
const QUEUE_BYTES: i32 = 1 << 20;
const BUFFER: usize = 64 << 10;

/// All event sources, and pending events.
#[derive(Debug)]
pub struct LiveEvents {
    link: Socket,
    kobject: Option<Socket>,
    rdma: Option<Socket>,
    verbs: Monitor,
    links: Links,
    pending: VecDeque<Event>,
    buffer: Vec<u8>,
}

impl LiveEvents {
    /// Opens every source that this kernel supports; only rtnetlink is required.
    pub fn open() -> Result<Self, CallError> {
        let what = "link notifications by rtnetlink";
        let link = subscribe(libc::NETLINK_ROUTE, RTNLGRP_LINK).map_err(|e| call_error(what, e))?;
        // A kernel without DCB has the group, and never writes to it.
        link.join(RTNLGRP_DCB).map_err(|e| call_error(what, e))?;
        let mut links = Links::default();
        // After subscribing, so that no change is missed in between.
        let dump = Request::new(GETLINK, true, &[0; IFINFO]);
        for (index, state) in ReopeningChannel::new(libc::NETLINK_ROUTE).dump(what, dump, link_state)? {
            links.0.insert(index, state);
        }
        let kobject = subscribe(libc::NETLINK_KOBJECT_UEVENT, KOBJECT_GROUP).ok();
        let mut verbs = Monitor::default();
        // Without uevents there is no signal to close a device that is to be removed.
        if kobject.is_some() {
            verbs.open_new();
        }
        // Absent before Linux 6.12; uevents report the same changes.
        let rdma = subscribe(libc::NETLINK_RDMA, RDMA_GROUP_NOTIFY).ok();
        Ok(Self { link, kobject, rdma, verbs, links, pending: VecDeque::new(), buffer: vec![0; BUFFER] })
    }

    fn poll(&mut self, timeout: Duration) -> io::Result<()> {
        let mut fds = vec![self.link.as_fd()];
        fds.extend(self.kobject.as_ref().map(AsFd::as_fd));
        fds.extend(self.rdma.as_ref().map(AsFd::as_fd));
        let own = fds.len();
        fds.extend(self.verbs.descriptors());
        let ready = poll(&fds, timeout)?;
        if !ready.contains(&true) {
            return Ok(());
        }
        self.verbs.read_events(ready.get(own..).unwrap_or_default(), &mut self.pending);
        let Self { link, kobject, rdma, verbs, links, pending, buffer } = self;
        drain(link, buffer, |bytes| {
            pending.extend(links.changes(bytes));
            pending.extend(dcb::changed(bytes).map(Event::DcbChanged));
        })?;
        if let Some(socket) = rdma {
            drain(socket, buffer, |bytes| pending.extend(notifications(bytes)))?;
        }
        if let Some(socket) = kobject {
            drain(socket, buffer, |bytes| match uevent::parse(bytes) {
                Some(Uevent::Added(device)) => pending.push_back(Event::DeviceAdded(device)),
                Some(Uevent::Removed(device)) => pending.push_back(Event::DeviceRemoved(device)),
                Some(Uevent::VerbsAdded) => verbs.open_new(),
                Some(Uevent::VerbsRemoved(uverbs)) => verbs.close(&uverbs),
                None => {}
            })?;
        }
        Ok(())
    }
}

impl EventSource for LiveEvents {
    fn wait(&mut self, timeout: Duration) -> Result<Option<Event>, CallError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // On ENOBUFS the queue overflowed and events are lost. The error makes the caller discover devices again.
            self.poll(left).map_err(|e| call_error("wait for kernel events", e))?;
            if left.is_zero() && self.pending.is_empty() {
                return Ok(None);
            }
        }
    }
}

fn subscribe(protocol: i32, group: u32) -> io::Result<Socket> {
    let socket = Socket::netlink(protocol)?;
    socket.join(group)?;
    socket.queue(QUEUE_BYTES)?;
    Ok(socket)
}

/// Reads all datagrams that are available now.
fn drain(socket: &Socket, buffer: &mut [u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    loop {
        match socket.receive(buffer, false) {
            Ok(Datagram { bytes, from_kernel: true }) => each(bytes),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    name: String,
    up: bool,
}

/// Last state of each netdev, by index. Filters messages about other attributes of a link.
#[derive(Debug, Default)]
struct Links(HashMap<u32, Link>);

impl Links {
    fn changes(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for message in messages(bytes) {
            let Some((index, link)) = link_state(message.payload) else { continue };
            let Link { name, up } = link.clone();
            match message.kind {
                NEWLINK => match self.0.insert(index, link) {
                    None => {
                        events.push(Event::NetdevChanged(name.clone()));
                        events.extend(up.then_some(Event::Carrier { netdev: name, up }));
                    }
                    Some(before) => {
                        if before.name != name {
                            events.push(Event::NetdevChanged(before.name));
                            events.push(Event::NetdevChanged(name.clone()));
                        }
                        if before.up != up {
                            events.push(Event::Carrier { netdev: name, up });
                        }
                    }
                },
                // A port that leaves a bridge is reported as DELLINK of the bridge family; the netdev remains.
                DELLINK if message.payload.first() == Some(&0) => {
                    self.0.remove(&index);
                    events.push(Event::NetdevChanged(name));
                }
                _ => {}
            }
        }
        events
    }
}

/// Index, name and carrier from `struct ifinfomsg` and its attributes.
pub(super) fn link_state(payload: &[u8]) -> Option<(u32, Link)> {
    let index = u32_at(payload, 4)?;
    let flags = u32_at(payload, 8)?;
    let attributes = payload.get(IFINFO..)?;
    let name = text(attribute(attributes, IFNAME)?);
    let carrier = attribute(attributes, CARRIER).and_then(|b| b.first()).map(|up| *up != 0);
    // Some drivers keep the carrier of an administratively down netdev, which passes no traffic.
    let up = flags & LOWER_UP != 0 && carrier.unwrap_or(true);
    Some((index, Link { name, up }))
}

/// Parses RDMA netlink notifications.
pub(super) fn notifications(bytes: &[u8]) -> Vec<Event> {
    let monitor = messages(bytes).filter(|message| message.kind == command(RDMA_MONITOR));
    monitor
        .filter_map(|message| {
            let name = |kind| attribute(message.payload, kind).map(text);
            // Register, unregister, netdev attach, netdev detach, rename, netdev rename.
            match attribute(message.payload, attr::EVENT_TYPE)?.first()? {
                0 | 4 => Some(Event::DeviceAdded(name(attr::DEV_NAME)?)),
                1 => Some(Event::DeviceRemoved(name(attr::DEV_NAME)?)),
                2 | 3 | 5 => Some(Event::NetdevChanged(name(attr::NDEV_NAME)?)),
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, family: u8, index: u32, name: &str, flags: u32, carrier: u8) -> Vec<u8> {
        let mut header = vec![family, 0, 0, 0];
        header.extend(index.to_ne_bytes());
        header.extend(flags.to_ne_bytes());
        header.extend([0; 4]);
        Request::new(kind, false, &header).put_text(IFNAME, name).put(CARRIER, &[carrier]).finished()
    }

    #[test]
    fn only_changes_are_events() {
        let mut links = Links::default();
        let carrier = |up| Event::Carrier { netdev: "eth4".into(), up };
        let changed = |name: &str| Event::NetdevChanged(name.into());
        assert_eq!(links.changes(&message(NEWLINK, 0, 7, "eth4", 0, 0)), [changed("eth4")]);
        assert_eq!(links.changes(&message(NEWLINK, 0, 7, "eth4", LOWER_UP, 1)), [carrier(true)]);
        assert_eq!(links.changes(&message(NEWLINK, 0, 7, "eth4", LOWER_UP | 1, 1)), []);
        assert_eq!(links.changes(&message(NEWLINK, 0, 7, "eth4", LOWER_UP, 0)), [carrier(false)]);
        assert_eq!(links.changes(&message(NEWLINK, 0, 7, "fab0", 0, 0)), [changed("eth4"), changed("fab0")]);
        assert_eq!(links.changes(&message(DELLINK, 7, 7, "fab0", 0, 0)), [], "left a bridge");
        assert_eq!(links.changes(&message(DELLINK, 0, 7, "fab0", 0, 0)), [changed("fab0")]);
        assert!(links.0.is_empty());
    }

    #[test]
    fn rdma_notifications() {
        let of = |event: u8| {
            let request = Request::new(command(RDMA_MONITOR), false, &[]).put_text(attr::DEV_NAME, "rxe0");
            notifications(&request.put_text(attr::NDEV_NAME, "eth4").put(attr::EVENT_TYPE, &[event]).finished())
        };
        assert_eq!(of(0), [Event::DeviceAdded("rxe0".into())]);
        assert_eq!(of(1), [Event::DeviceRemoved("rxe0".into())]);
        assert_eq!(of(2), [Event::NetdevChanged("eth4".into())]);
        assert_eq!(of(9), []);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = (Links::default().changes(&bytes), notifications(&bytes));
        }
    }
}
