//! Maintains the probe's maps of own addresses (to interfaces) and of destination networks (to classes).

use crate::destinations::{Destinations, Network, classes};
use aya::Ebpf;
use aya::maps::lpm_trie::{Key, LpmTrie};
use aya::maps::{Array, HashMap, MapData, MapError};
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::text;
use fabriclens_base::error_chain::with_causes;
use fabriclens_ebpf_abi::{Address, FIRST_EPOCH, INTERFACES, destination, mapped};
use fabriclens_kernel::{InterfaceAddress, KernelCalls};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maps of own addresses and destinations.
pub struct Peers {
    local: HashMap<MapData, Address, u32>,
    networks: LpmTrie<MapData, Address, u32>,
    epochs: Array<MapData, u32>,
    epoch: u32,
    own: Vec<InterfaceAddress>,
    /// Place of an interface in the probe's maps, by kernel index. A place is never reused, because its counts cannot
    /// be reset.
    places: BTreeMap<u32, (u32, String)>,
}

impl Peers {
    pub(crate) fn take(probe: &mut Ebpf) -> Result<Self, SampleError> {
        let mut map = |name: &str| {
            probe.take_map(name).ok_or_else(|| SampleError::Failed(format!("the probe has no map {name}")))
        };
        Ok(Self {
            local: HashMap::try_from(map("LOCAL")?).map_err(failed)?,
            networks: LpmTrie::try_from(map("NETWORKS")?).map_err(failed)?,
            epochs: Array::try_from(map("EPOCH")?).map_err(failed)?,
            epoch: FIRST_EPOCH,
            own: Vec::new(),
            places: BTreeMap::new(),
        })
    }

    /// Reads the host's addresses and updates the maps if they changed.
    ///
    /// # Errors
    /// When the kernel reports no addresses or rejects an entry.
    pub fn refresh(
        &mut self,
        roots: &Roots,
        calls: &dyn KernelCalls,
        destinations: &Destinations,
    ) -> Result<(), SampleError> {
        let own = calls.addresses()?;
        if own == self.own {
            return Ok(());
        }
        let changed = self.change(&interfaces(roots), destinations, &own);
        // Also after a partial change: results cached by the probe are outdated.
        self.epochs.set(0, self.epoch, 0).map_err(failed)?;
        self.epoch = self.epoch.wrapping_add(1).max(FIRST_EPOCH);
        changed?;
        self.own = own;
        Ok(())
    }

    fn change(
        &mut self,
        names: &BTreeMap<u32, String>,
        destinations: &Destinations,
        own: &[InterfaceAddress],
    ) -> Result<(), SampleError> {
        for address in own {
            let next = self.places.len() as u32 + 1;
            if (next as usize) < INTERFACES
                && let Some(name) = names.get(&address.interface)
            {
                self.places.entry(address.interface).or_insert_with(|| (next, name.clone()));
            }
        }
        for gone in self.own.iter().filter(|had| !own.contains(had)) {
            // It may be gone already; the next refresh corrects it.
            _ = self.local.remove(&address(gone.address));
            _ = self.networks.remove(&key(Network { address: gone.address, prefix: gone.prefix }));
            _ = self.networks.remove(&Key::new(128, address(gone.address)));
        }
        for (network, class) in classes(destinations, own) {
            self.networks.insert(&key(network), class, 0).map_err(failed)?;
        }
        for own in own {
            let place = self.places.get(&own.interface).map_or(0, |(place, _)| *place);
            self.local.insert(address(own.address), place, 0).map_err(failed)?;
        }
        Ok(())
    }

    /// Kernel index of each interface, and its number in the maps.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.places.iter().map(|(index, (number, _))| (*index, *number))
    }

    /// Place, interface name and class name of each record of a map. Interfaces without a place of their own are
    /// counted under `other`.
    pub fn places(&self) -> impl Iterator<Item = (u32, &str, &'static str)> {
        let known = self.places.values().map(|(place, name)| (*place, name.as_str()));
        std::iter::once((0, "other")).chain(known).flat_map(|(interface, name)| {
            let classes = destination::NAMES.iter().zip(0..);
            classes.map(move |(class, number)| (fabriclens_ebpf_abi::place(interface, number), name, *class))
        })
    }
}

fn failed(error: MapError) -> SampleError {
    SampleError::Failed(format!("telling the probe this host's addresses: {}", with_causes(&error)))
}

/// Interface names by index.
fn interfaces(roots: &Roots) -> BTreeMap<u32, String> {
    let entries = std::fs::read_dir(roots.sys().join("class/net")).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let index = text(&entry.path().join("ifindex")).ok()?.trim().parse().ok()?;
        Some((index, entry.file_name().into_string().ok()?))
    });
    named.collect()
}

fn address(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(v4) => mapped(u32::from_ne_bytes(v4.octets())),
        IpAddr::V6(v6) => {
            let bytes = v6.octets();
            std::array::from_fn(|i| {
                u32::from_ne_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
            })
        }
    }
}

fn key(network: Network) -> Key<Address> {
    let shift = if network.address.is_ipv4() { 96 } else { 0 };
    Key::new(shift + u32::from(network.prefix), address(network.address))
}
