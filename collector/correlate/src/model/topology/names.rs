//! Resolves host and port names of a source to the names in series.

use super::agents::PortInfo;
use super::ib;
use super::source::CableEnd;
use std::collections::{BTreeMap, HashMap, hash_map::Entry};

/// Host and port names that agents report, by every key that sources may use.
#[derive(Default)]
pub struct HostNames {
    /// Ports of each host.
    hosts: BTreeMap<String, Vec<PortInfo>>,
    /// Host by lower-case name, by the part before its first dot, and by alias; `None` if several share the key.
    called: HashMap<String, Option<String>>,
    /// Host and index of its port by GUID of a port or HCA; `None` if several claim it.
    guids: HashMap<u64, Option<(String, usize)>>,
    /// Host and index of its port by node description.
    descriptions: HashMap<String, Option<(String, usize)>>,
}

/// A cable end by the names in series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedEnd {
    pub node: String,
    /// `None` if unknown.
    pub port: Option<String>,
}

impl HostNames {
    /// Indexes the ports that agents report, and aliases of hosts.
    pub fn new(ports: &[PortInfo], aliases: &BTreeMap<String, String>) -> Self {
        let mut names = Self::default();
        // Switches of an InfiniBand subnet are no hosts, and their ports have no adapter.
        for port in ports.iter().filter(|port| !port.of_switch) {
            names.hosts.entry(port.host.clone()).or_default().push(port.clone());
        }
        for (host, ports) in &mut names.hosts {
            ports.sort_unstable();
            ports.dedup();
            for (at, port) in ports.iter().enumerate() {
                let place = (host.clone(), at);
                for guid in port.guids.into_iter().flatten() {
                    // The ports of one HCA share its GUID.
                    let same = |old: &(String, usize)| old.0 == *host && ports[old.1].device == port.device;
                    note(names.guids.entry(guid), &place, same);
                }
                if !port.node_desc.is_empty() {
                    let same = |old: &(String, usize)| old.0 == *host && ports[old.1].device == port.device;
                    note(names.descriptions.entry(port.node_desc.clone()), &place, same);
                }
            }
        }
        for host in names.hosts.keys() {
            for name in [host.to_lowercase(), short(host).to_lowercase()] {
                note(names.called.entry(name), host, |old| old == host);
            }
        }
        for (alias, host) in aliases.iter().filter(|(_, host)| names.hosts.contains_key(*host)) {
            names.called.insert(alias.to_lowercase(), Some(host.clone()));
        }
        names
    }

    /// The host that a name denotes.
    pub fn host(&self, name: &str) -> Option<&str> {
        if let Some((host, _)) = self.hosts.get_key_value(name) {
            return Some(host);
        }
        let by = |name: &str| self.called.get(&name.to_lowercase());
        by(name).or_else(|| by(short(name))).and_then(|host| host.as_deref())
    }

    /// Rail of a port.
    pub(super) fn rail(&self, host: &str, port: &str) -> Option<&str> {
        let port = self.hosts.get(host)?.iter().find(|p| p.port == port)?;
        Some(port.rail.as_str()).filter(|rail| !rail.is_empty())
    }

    /// Host, port and rail of all ports with a rail.
    pub(super) fn rails(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = self.hosts.values().flatten().filter(|port| !port.rail.is_empty());
        all.map(|port| (port.host.as_str(), port.port.as_str(), port.rail.as_str()))
    }

    /// Ports of a host's HCAs.
    pub(super) fn rdma(&self, host: &str) -> impl Iterator<Item = &str> {
        let ports = self.hosts.get(host).map_or(&[][..], Vec::as_slice);
        ports.iter().filter(|p| !p.device.is_empty()).map(|p| p.port.as_str())
    }

    /// Resolves a cable end.
    pub(super) fn place(&self, side: &CableEnd) -> ResolvedEnd {
        let found = |at: &Option<(String, usize)>| at.clone();
        let mut known = side.guids.iter().rev().find_map(|g| self.guids.get(g).and_then(found));
        if known.is_none() && !side.description.is_empty() {
            known = self.descriptions.get(&side.description).and_then(found);
        }
        if let Some((host, at)) = known {
            let told = &self.hosts[&host][at];
            let port = if side.port.is_empty() { told.port.clone() } else { format!("{}/{}", told.device, side.port) };
            return ResolvedEnd { node: host, port: Some(port) };
        }
        if let Some(host) = self.host(&side.node).filter(|_| !side.node.is_empty()) {
            return ResolvedEnd { node: host.to_owned(), port: self.port(host, side) };
        }
        let node = match side.guids.first() {
            Some(guid) if side.node.is_empty() => ib::hex(*guid),
            _ => side.node.clone(),
        };
        let port = match (&*side.device, &*side.port) {
            ("", "") => None,
            ("", port) => Some(port.to_owned()),
            (device, "") => Some(device.to_owned()),
            (device, port) => Some(format!("{device}/{port}")),
        };
        ResolvedEnd { node, port }
    }

    /// Resolves the port of a known host.
    fn port(&self, host: &str, side: &CableEnd) -> Option<String> {
        let ports = &self.hosts[host];
        let only = || {
            let mut rdma = self.rdma(host);
            rdma.next().filter(|_| rdma.next().is_none()).map(str::to_owned)
        };
        let of_device = |device: &str, port: &str| {
            let mut fit = ports.iter().filter(|p| p.device == device);
            let one = fit.clone().find(|p| p.port == format!("{device}/{port}"));
            one.or_else(|| fit.next().filter(|_| port.is_empty() && fit.next().is_none()))
        };
        let named = match (&*side.device, &*side.port) {
            ("", "") => return only(),
            ("", port) => {
                let exact = ports.iter().find(|p| p.port == port);
                exact.or_else(|| ports.iter().find(|p| p.netdev == port)).or_else(|| of_device(port, ""))
            }
            (device, port) => of_device(device, port),
        };
        match (named, &*side.device) {
            (Some(port), _) => Some(port.port.clone()),
            // A port number on the only HCA, or a device name from before HCAs were named by PCI location.
            (None, "") if side.port.bytes().all(|b| b.is_ascii_digit()) => only().or_else(|| Some(side.port.clone())),
            (None, device) if device.starts_with("HCA-") => only().or_else(|| Some(format!("{device}/{}", side.port))),
            (None, "") => Some(side.port.clone()),
            (None, device) => Some(format!("{device}/{}", side.port)),
        }
    }
}

/// Maps a key to the first value that claims it, or to `None` if a different one claims it too.
fn note<K, V: Clone>(entry: Entry<'_, K, Option<V>>, value: &V, same: impl Fn(&V) -> bool) {
    match entry {
        Entry::Vacant(free) => {
            free.insert(Some(value.clone()));
        }
        Entry::Occupied(mut taken) => {
            if taken.get().as_ref().is_some_and(|old| !same(old)) {
                taken.insert(None);
            }
        }
    }
}

/// Host name without its domain. Addresses and names such as `switch.3.1` have no domain.
pub(super) fn short(name: &str) -> &str {
    match name.split_once('.') {
        Some((first, domain)) if !first.is_empty() && domain.starts_with(|c: char| c.is_ascii_alphabetic()) => first,
        _ => name,
    }
}
