//! Rail of each device: configured, or derived from the order of equal adapters. Updated by `schedule` at each
//! discovery, read by the sampler `port_info`. One per host.
//!
//! Hosts of a cluster are built alike, so the n-th fabric adapter of a host connects to the n-th rail. Adapters are
//! equal by driver, model, board and link layer; the largest group of them is taken for the fabric's, and a single
//! storage adapter has no rail. Links need not be up: unplugging a cable changes no rail.

use crate::inventory::{Class, Device, Inventory, LinkLayer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Origin of a rail: label `rail_source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RailSource {
    /// Configuration.
    Config,
    /// Order of PCI addresses.
    Order,
}

impl RailSource {
    /// Value of the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Order => "order",
        }
    }
}

/// Rails of the devices of a host.
#[derive(Debug, Default)]
pub struct Rails {
    /// Configured rails by device; if there are any, none are derived. An empty rail means none.
    configured: BTreeMap<String, String>,
    by_order: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// Attributes in which adapters of one group are equal.
type Kind<'a> = (&'a str, Option<&'a str>, Option<&'a str>, bool);

impl Rails {
    /// Rails with the configured assignment of devices.
    pub fn new(configured: BTreeMap<String, String>) -> Self {
        Self { configured, by_order: Mutex::default() }
    }

    /// Derives rails for the current inventory.
    pub fn update(&self, inventory: &Inventory) {
        *self.by_order.lock() = if self.configured.is_empty() { by_order(inventory) } else { BTreeMap::new() };
    }

    /// Rail of a device, and its origin.
    pub fn of(&self, device: &str) -> Option<(String, RailSource)> {
        let configured = self.configured.get(device).filter(|rail| !rail.is_empty());
        let by_order = || Some((self.by_order.lock().get(device)?.to_string(), RailSource::Order));
        configured.map(|rail| (rail.clone(), RailSource::Config)).or_else(by_order)
    }
}

fn by_order(inventory: &Inventory) -> BTreeMap<Arc<str>, usize> {
    let mut kinds: BTreeMap<Kind<'_>, Vec<(&str, &Device)>> = BTreeMap::new();
    for device in inventory.devices.iter().filter(|d| d.class == Class::Physical && !d.ports.is_empty()) {
        let Some(pci) = device.pci.as_deref() else { continue };
        let infiniband = device.ports.iter().any(|port| port.link_layer == LinkLayer::InfiniBand);
        let kind = (&*device.driver, device.model.as_deref(), device.board.as_deref(), infiniband);
        kinds.entry(kind).or_default().push((pci, device));
    }
    let most = kinds.values().map(Vec::len).max().unwrap_or(0);
    let mut largest = kinds.into_values().filter(|devices| devices.len() == most);
    // Of two groups of equal size it is unknown which one is the fabric's.
    let (Some(mut rails), None, true) = (largest.next(), largest.next(), most > 1) else { return BTreeMap::new() };
    rails.sort_unstable_by_key(|(pci, device)| (*pci, Arc::clone(&device.name)));
    rails.into_iter().enumerate().map(|(n, (_, device))| (Arc::clone(&device.name), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{Port, Transport};

    fn device(name: &str, pci: &str, board: &str, class: Class) -> Arc<Device> {
        let port = Port {
            number: 1,
            link_layer: LinkLayer::Ethernet,
            transport: Transport::RoceV2,
            netdev: None,
            link: None,
            dir: "/nowhere".into(),
        };
        Arc::new(Device {
            model: Some("MT4129".into()),
            board: Some(board.into()),
            pci: Some(pci.into()),
            class,
            ports: vec![port],
            ..Device::bare(name, "mlx5_core")
        })
    }

    fn of(rails: &Rails, devices: &[Arc<Device>]) -> Vec<String> {
        rails.update(&Inventory { devices: devices.to_vec(), ..Inventory::default() });
        let text = |(rail, known): (String, RailSource)| format!("{rail} {}", known.name());
        devices.iter().map(|d| rails.of(&d.name).map_or_else(String::new, text)).collect()
    }

    #[test]
    fn equal_adapters_get_rails_by_address() {
        let devices = [
            device("mlx5_0", "0000:9a:00.0", "gpu", Class::Physical),
            device("mlx5_1", "0000:18:00.0", "gpu", Class::Physical),
            device("mlx5_2", "0000:29:00.0", "storage", Class::Physical),
            device("mlx5_3", "0000:18:00.2", "gpu", Class::Virtual),
        ];
        assert_eq!(of(&Rails::default(), &devices), ["1 order", "0 order", "", ""]);
        let two_and_two = [&devices[..3], &[device("mlx5_4", "0000:2a:00.0", "storage", Class::Physical)]].concat();
        assert_eq!(of(&Rails::default(), &two_and_two), ["", "", "", ""], "which of them is the fabric?");
        assert_eq!(of(&Rails::default(), &devices[..1]), [""], "one is no rail");
        let configured =
            [("mlx5_0", "blue"), ("mlx5_2", "")].map(|(device, rail)| (device.to_owned(), rail.to_owned()));
        assert_eq!(of(&Rails::new(configured.into()), &devices), ["blue config", "", "", ""]);
    }
}
