//! From names that sources use for hosts and their ports to those that agents, and so series, have.

use super::agents::PortInfo;
use super::ib;
use super::source::CableEnd;
use std::collections::{BTreeMap, HashMap, hash_map::Entry};

/// See the module.
#[derive(Default)]
pub struct HostNames {
    /// By host, in order.
    hosts: BTreeMap<String, Vec<PortInfo>>,
    /// Hosts by lower-case name, by the part before its first dot, and by what else they are called; `None`: several.
    called: HashMap<String, Option<String>>,
    /// Host and place in its list by the GUID of a port; of a node any port of it. `None`: several claim it.
    guids: HashMap<u64, Option<(String, usize)>>,
    /// The same by node description.
    descriptions: HashMap<String, Option<(String, usize)>>,
}

/// An end as series call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedEnd {
    pub node: String,
    /// `None`: nobody knows.
    pub port: Option<String>,
}

impl HostNames {
    /// Of all ports that agents tell of, and names of hosts by other names of theirs.
    pub fn new(ports: &[PortInfo], aliases: &BTreeMap<String, String>) -> Self {
        let mut names = Self::default();
        for port in ports {
            names.hosts.entry(port.host.clone()).or_default().push(port.clone());
        }
        for (host, ports) in &mut names.hosts {
            ports.sort_unstable();
            ports.dedup();
            for (at, port) in ports.iter().enumerate() {
                let place = (host.clone(), at);
                for guid in port.guids.into_iter().flatten() {
                    // One HCA's GUID for all of its ports.
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

    /// The host that is meant by a name.
    pub fn host(&self, name: &str) -> Option<&str> {
        if let Some((host, _)) = self.hosts.get_key_value(name) {
            return Some(host);
        }
        let by = |name: &str| self.called.get(&name.to_lowercase());
        by(name).or_else(|| by(short(name))).and_then(|host| host.as_deref())
    }

    /// The rail of a port.
    pub(super) fn rail(&self, host: &str, port: &str) -> Option<&str> {
        let port = self.hosts.get(host)?.iter().find(|p| p.port == port)?;
        Some(port.rail.as_str()).filter(|rail| !rail.is_empty())
    }

    /// Host, port and rail of all ports that have one.
    pub(super) fn rails(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = self.hosts.values().flatten().filter(|port| !port.rail.is_empty());
        all.map(|port| (port.host.as_str(), port.port.as_str(), port.rail.as_str()))
    }

    /// Ports of a host's HCAs.
    pub(super) fn rdma(&self, host: &str) -> impl Iterator<Item = &str> {
        let ports = self.hosts.get(host).map_or(&[][..], Vec::as_slice);
        ports.iter().filter(|p| !p.device.is_empty()).map(|p| p.port.as_str())
    }

    /// What a side is in series.
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

    /// The port of a host that agents know.
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
            // A number beside the only HCA, or a name from before HCAs were named after their place.
            (None, "") if side.port.bytes().all(|b| b.is_ascii_digit()) => only().or_else(|| Some(side.port.clone())),
            (None, device) if device.starts_with("HCA-") => only().or_else(|| Some(format!("{device}/{}", side.port))),
            (None, "") => Some(side.port.clone()),
            (None, device) => Some(format!("{device}/{}", side.port)),
        }
    }
}

/// The first that claims a key has it, until another does.
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

/// A host without its domain; an address and `switch.3.1` have none.
pub(super) fn short(name: &str) -> &str {
    match name.split_once('.') {
        Some((first, domain)) if !first.is_empty() && domain.starts_with(|c: char| c.is_ascii_alphabetic()) => first,
        _ => name,
    }
}
