//! What agents call their hosts and devices. Schedulers have names of their own for both; a job is shown with those of
//! agents, because series have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Hosts that are remembered after their agents have gone silent.
const HOSTS: usize = 200_000;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// As the operator says it.
    table: BTreeMap<String, String>,
    hosts: BTreeSet<String>,
    /// By the part before the first dot; `None` where several hosts have it.
    short: HashMap<String, Option<String>>,
    /// RDMA devices of each host: by their own name and by PCI address.
    devices: HashMap<String, BTreeMap<String, String>>,
}

fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl Agents {
    /// Of no agent yet; the table has the names of hosts by those that schedulers use.
    pub fn new(table: BTreeMap<String, String>) -> Self {
        Self { table, ..Self::default() }
    }

    /// These agents are there, whoever else was before. True when one is new.
    pub fn add<'a>(&mut self, hosts: impl IntoIterator<Item = &'a str>) -> bool {
        let before = self.hosts.len();
        for host in hosts {
            if self.hosts.len() >= HOSTS || !self.hosts.insert(host.to_owned()) {
                continue;
            }
            let of_short = self.short.entry(short(host).to_owned());
            of_short.and_modify(|one| *one = None).or_insert_with(|| Some(host.to_owned()));
        }
        self.hosts.len() > before
    }

    /// Host, device and PCI address (`""` if not known) of all that agents tell now.
    pub fn set_devices<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) {
        self.devices.clear();
        for (host, device, address) in all {
            let of_host = self.devices.entry(host.to_owned()).or_default();
            for name in [device, address].into_iter().filter(|n| !n.is_empty()) {
                of_host.insert(name.to_owned(), device.to_owned());
            }
        }
    }

    /// The agent's name of a host that a scheduler names: what the table says, else the same name, else the only one that
    /// is equal up to the first dot, else as told.
    pub fn host<'a>(&'a self, told: &'a str) -> &'a str {
        if let Some(host) = self.table.get(told) {
            return host;
        }
        if self.hosts.contains(told) {
            return told;
        }
        self.short.get(short(told)).and_then(Option::as_deref).unwrap_or(told)
    }

    /// Whether a name that a scheduler uses is that agent's; cheaper than [`Self::host`] where it mostly is not.
    pub fn is(&self, told: &str, host: &str) -> bool {
        told == host || ((short(told) == short(host) || self.table.contains_key(told)) && self.host(told) == host)
    }

    /// Whether no agent has this name, as far as agents are known at all.
    pub fn lacks(&self, host: &str) -> bool {
        !self.hosts.is_empty() && !self.hosts.contains(host)
    }

    /// The RDMA device that an agent shows under its name or PCI address.
    pub fn device(&self, host: &str, told: &str) -> Option<&str> {
        self.devices.get(host)?.get(told).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_table_by_name_and_by_its_first_label_if_only_one_has_it() {
        let mut agents = Agents::new([("login".to_owned(), "front.example".to_owned())].into());
        assert_eq!((agents.host("gpu-1"), agents.lacks("gpu-1")), ("gpu-1", false), "nothing is known yet");
        assert!(agents.add(["gpu-1.a.example", "gpu-2.a.example", "gpu-2.b.example", "gpu-3"]));
        assert!(!agents.add(["gpu-1.a.example"]));
        assert_eq!(agents.host("gpu-1"), "gpu-1.a.example");
        assert_eq!(agents.host("gpu-1.internal"), "gpu-1.a.example");
        assert_eq!(agents.host("gpu-2"), "gpu-2", "two have it");
        assert_eq!(agents.host("gpu-2.b.example"), "gpu-2.b.example");
        assert_eq!(agents.host("gpu-3.a.example"), "gpu-3");
        assert_eq!(agents.host("login"), "front.example");
        let is = [("gpu-1", "gpu-1.a.example"), ("login", "front.example"), ("gpu-2", "gpu-2.a.example"), ("a", "a")];
        assert_eq!(is.map(|(told, host)| agents.is(told, host)), [true, true, false, true]);
        assert_eq!((agents.lacks("gpu-3"), agents.lacks("gpu-2")), (false, true));
    }

    #[test]
    fn a_device_is_found_by_name_and_by_address() {
        let mut agents = Agents::default();
        agents.set_devices([("h", "mlx5_0", "0000:18:00.0"), ("h", "mlx5_1", "")]);
        assert_eq!(agents.device("h", "0000:18:00.0"), Some("mlx5_0"));
        assert_eq!(agents.device("h", "mlx5_1"), Some("mlx5_1"));
        assert_eq!((agents.device("h", "mlx5_2"), agents.device("g", "mlx5_0")), (None, None));
    }
}
