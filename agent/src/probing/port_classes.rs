//! Traffic classes of this host's RoCE ports, by its settings. The agent tells them to the collector, which plans probes of these
//! classes. On InfiniBand the service level takes their place, which neither the kernel nor the device tells.

use fabriclens_agent_host::inventory::{Inventory, Transport};
use fabriclens_agent_host::roce_class::{ClassSetting, RoceClass, roce_class};
use fabriclens_probe_plan::{ClassSource, ProbedPort};
use std::collections::BTreeMap;

/// Classes by port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortClasses {
    roce: BTreeMap<String, Option<RoceClass>>,
    /// InfiniBand and Omni-Path ports.
    infiniband: Vec<String>,
}

impl PortClasses {
    /// Reads the settings of all ports.
    pub fn read(inventory: &Inventory) -> Self {
        let devices = inventory.devices.iter().filter(|device| device.class.may_read());
        let mut all = Self::default();
        for (device, port) in devices.flat_map(|device| device.ports.iter().map(move |port| (device, port))) {
            let name = format!("{}/{}", device.name, port.number);
            match port.transport {
                Transport::RoceV2 => _ = all.roce.insert(name, roce_class(device, port.number)),
                Transport::InfiniBand | Transport::OmniPath => all.infiniband.push(name),
                _ => {}
            }
        }
        all
    }

    /// Offers of ports with their classes.
    pub fn with(&self, mut ports: Vec<ProbedPort>) -> Vec<ProbedPort> {
        for port in &mut ports {
            let Some(Some(RoceClass { class, setting })) = self.roce.get(&port.name) else { continue };
            port.traffic_class = Some((*class).into());
            port.set_class_source(match setting {
                ClassSetting::Driver => ClassSource::Driver,
                ClassSetting::RdmaCm => ClassSource::RdmaCm,
            });
        }
        ports
    }

    /// State as a sentence; empty without RoCE v2 and InfiniBand ports.
    pub fn words(&self) -> String {
        let known = |(port, class): (&String, &Option<RoceClass>)| {
            class.map(|class| format!("{port} {} ({})", class.class, class.setting.words()))
        };
        let known: Vec<String> = self.roce.iter().filter_map(known).collect();
        let unknown: Vec<&str> =
            self.roce.iter().filter(|(_, class)| class.is_none()).map(|(port, _)| &**port).collect();
        let mut parts = Vec::new();
        if !known.is_empty() {
            parts.push(format!("traffic class of probes unless the collector sets one: {}", known.join(", ")));
        }
        if !unknown.is_empty() {
            parts.push(format!(
                "no setting tells the traffic class that queue pairs of {} use: it is 0 unless the collector sets one \
                 (probes.traffic_class there)",
                unknown.join(", ")
            ));
        }
        if !self.infiniband.is_empty() {
            parts.push(format!(
                "no host tells the service level that queue pairs of {} use: it is 0 unless the collector sets one \
                 (probes.service_level there)",
                self.infiniband.join(", ")
            ));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_agent_host::inventory::{Device, LinkLayer, Port};
    use std::path::Path;
    use std::sync::Arc;

    fn device(sys: &Path, name: &str, transport: Transport) -> Arc<Device> {
        let dir = sys.join("class/infiniband").join(name);
        let link_layer = if transport == Transport::InfiniBand { LinkLayer::InfiniBand } else { LinkLayer::Ethernet };
        let port = Port { number: 1, link_layer, transport, netdev: None, link: None, dir: dir.join("ports/1") };
        Arc::new(Device { ports: vec![port], dir, ..Device::bare(name, "mlx5_core") })
    }

    #[test]
    fn infiniband_ports_have_no_traffic_class_and_an_unknown_service_level() {
        let sys = tempfile::tempdir().unwrap();
        let devices = vec![device(sys.path(), "mlx5_0", Transport::InfiniBand)];
        let classes = PortClasses::read(&Inventory { devices, ..Inventory::default() });
        let told = classes.with(vec![ProbedPort { name: "mlx5_0/1".into(), lid: 7, ..ProbedPort::default() }]);
        assert_eq!(told[0].traffic_class, None);
        let words = classes.words();
        assert!(words.starts_with("no host tells the service level that queue pairs of mlx5_0/1 use"), "{words}");
        assert!(words.contains("probes.service_level there"), "{words}");
        assert_eq!(PortClasses::default().words(), "");
    }

    #[test]
    fn offers_say_the_class_and_where_it_comes_from() {
        let sys = tempfile::tempdir().unwrap();
        let device = |name: &str| device(sys.path(), name, Transport::RoceV2);
        let tc = sys.path().join("class/infiniband/mlx5_0/tc/1");
        std::fs::create_dir_all(&tc).unwrap();
        std::fs::write(tc.join("traffic_class"), "Global tclass=106\n").unwrap();
        let inventory = Inventory { devices: vec![device("mlx5_0"), device("mlx5_1")], ..Inventory::default() };
        let classes = PortClasses::read(&inventory);
        let port = |name: &str| ProbedPort { name: name.into(), ..ProbedPort::default() };
        let told = classes.with(vec![port("mlx5_0/1"), port("mlx5_1/1")]);
        assert_eq!((told[0].traffic_class, told[0].class_source()), (Some(106), ClassSource::Driver));
        assert_eq!((told[1].traffic_class, told[1].class_source()), (None, ClassSource::Unknown));
        let words = classes.words();
        assert!(words.contains("mlx5_0/1 106 (forced by the driver, tc/N/traffic_class)"), "{words}");
        assert!(words.contains("no setting tells the traffic class that queue pairs of mlx5_1/1 use"), "{words}");
    }
}
