//! The ports and devices that are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabriclens_base::infiniband::is_switch_type;
use fabriclens_correlate::topology::port_name;
use fabriclens_model::Labels;

use crate::key::{FarEnd, KEYS, Key};

/// A port or a device with its settings. Facts are `""` if unknown.
#[derive(Clone, Debug)]
pub struct Member {
    /// Host; or the switch, if an agent reads its subnet.
    pub host: String,
    /// Port (`mlx5_0/1`) or device (`mlx5_0`).
    pub name: String,
    /// Rail of the port, or of the device's first port.
    pub rail: String,
    /// Number of the port on its adapter; empty for devices.
    pub number: String,
    /// Model of the adapter.
    pub model: String,
    /// Board id of the adapter.
    pub board: String,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// Kind of fabric: `roce`, `infiniband`, `ethernet`, ...
    pub fabric: String,
    /// Kind of PCI function: virtual ones are set unlike physical ones.
    pub function: String,
    /// The port is a switch's. It is the other end of links, and compared with no group.
    pub of_switch: bool,
    /// Values in the order of [`KEYS`]; `None` where the driver tells none.
    values: Vec<Option<Arc<str>>>,
}

impl Member {
    /// Reads the labels of a `fabric_port_info` series, with no values yet.
    fn new(labels: &Labels, name: String) -> Self {
        let get = |name: &str| labels.get(name).to_owned();
        Self {
            host: get("host"),
            name,
            rail: get("rail"),
            number: String::new(),
            model: get("model"),
            board: get("board"),
            link_layer: get("link_layer"),
            fabric: get("fabric"),
            function: get("function"),
            of_switch: is_switch_type(labels.get("node_type")),
            values: vec![None; KEYS.len()],
        }
    }

    /// Whether the port is for RDMA. Interfaces without it, for management and storage, differ from each other as sites like.
    pub fn is_rdma(&self) -> bool {
        self.fabric != "ethernet"
    }

    /// Value of the key at that position of [`KEYS`].
    pub fn value(&self, key: usize) -> Option<&str> {
        self.values.get(key)?.as_deref()
    }

    /// Value of the key of that name.
    pub fn named(&self, key: &str) -> Option<&str> {
        self.value(Key::position(key)?)
    }
}

/// Members by host and name.
#[derive(Default)]
pub struct Members(BTreeMap<String, BTreeMap<String, Member>>);

impl Members {
    /// Members of the reported ports, with no values yet: each port that is `up` by host and name, and each device with such a port.
    /// A port that is down has no speed, and one that is disabled on purpose need not be set like others.
    pub fn of_ports<'a>(infos: impl IntoIterator<Item = &'a Labels>, up: &BTreeSet<(String, String)>) -> Self {
        let mut members = Self::default();
        for labels in infos {
            let port = Member::new(labels, port_name(labels));
            let key = (port.host.clone(), port.name.clone());
            if key.0.is_empty() || key.1.is_empty() || !up.contains(&key) {
                continue;
            }
            let device = labels.get("device");
            if !device.is_empty() && device != port.name && !port.of_switch {
                let of_host = members.0.entry(port.host.clone()).or_default();
                of_host.entry(device.to_owned()).or_insert_with(|| Member::new(labels, device.to_owned()));
            }
            let (host, name) = key;
            members.0.entry(host).or_default().insert(name, Member { number: labels.get("port").to_owned(), ..port });
        }
        members
    }

    /// Sets the value of the key at that position. Ports that agents do not report are those of switches, kept for keys that are
    /// compared with the other end of the link.
    pub fn set(&mut self, host: &str, name: &str, key: usize, value: Arc<str>) {
        // Most members are known: texts are copied only for new ones.
        let known = self.0.get_mut(host).and_then(|of_host| of_host.get_mut(name));
        let member = match (known, KEYS[key].far_end) {
            (Some(known), _) => known,
            (None, FarEnd::Any) => return,
            (None, FarEnd::Equal | FarEnd::AtLeast) => {
                let of_host = self.0.entry(host.to_owned()).or_default();
                of_host.entry(name.to_owned()).or_insert_with(|| Member {
                    of_switch: true,
                    ..Member::new(&Labels::new([("host", host)]), name.to_owned())
                })
            }
        };
        member.values[key] = Some(value);
    }

    /// The member of that host and name.
    pub fn get(&self, host: &str, name: &str) -> Option<&Member> {
        self.0.get(host)?.get(name)
    }

    /// All members in order of hosts and names.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.values().flat_map(BTreeMap::values)
    }
}
