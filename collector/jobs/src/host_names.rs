//! Maps the names that schedulers use for hosts and devices to the names that agents use. Views of jobs use the
//! agents' names because series carry them.

use fabriclens_base::host_name::{self, key, short};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Hosts kept after their agents have gone silent.
const HOSTS: usize = 200_000;

/// Names of hosts and devices as agents report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    /// Scheduler name to agent name, from the configuration.
    table: BTreeMap<String, String>,
    hosts: BTreeSet<String>,
    /// Agent name by its key, and by that of the part before the first dot; `None` if several hosts share it.
    full: HashMap<String, Option<String>>,
    short: HashMap<String, Option<String>>,
    /// RDMA devices of each host, by name and by PCI address.
    devices: HashMap<String, BTreeMap<String, String>>,
}

impl HostNames {
    /// No agents yet; `table` maps schedulers' host names to agents' host names.
    pub fn new(table: BTreeMap<String, String>) -> Self {
        Self { table, ..Self::default() }
    }

    /// Adds hosts; known ones stay. Returns whether one is new.
    pub fn add_hosts<'a>(&mut self, hosts: impl IntoIterator<Item = &'a str>) -> bool {
        let before = self.hosts.len();
        for host in hosts {
            if self.hosts.len() >= HOSTS || !self.hosts.insert(host.to_owned()) {
                continue;
            }
            for (names, name) in [(&mut self.full, host), (&mut self.short, short(host))] {
                names.entry(key(name)).and_modify(|one| *one = None).or_insert_with(|| Some(host.to_owned()));
            }
        }
        self.hosts.len() > before
    }

    /// Replaces all devices: host, device, and PCI address (`""` if unknown).
    pub fn set_devices<'a>(&mut self, all: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) {
        self.devices.clear();
        for (host, device, address) in all {
            let of_host = self.devices.entry(host.to_owned()).or_default();
            for name in [device, address].into_iter().filter(|n| !n.is_empty()) {
                of_host.insert(name.to_owned(), device.to_owned());
            }
        }
    }

    /// The agent's name of a host: from the table, else the same name, else the only host with that name in another case,
    /// else the only one that is equal up to the first dot, else `name` unchanged.
    pub fn host<'a>(&'a self, name: &'a str) -> &'a str {
        if let Some(host) = self.table.get(name) {
            return host;
        }
        if self.hosts.contains(name) {
            return name;
        }
        let known = |names: &'a HashMap<String, Option<String>>, name| names.get(&key(name)).and_then(Option::as_deref);
        known(&self.full, name).or_else(|| known(&self.short, short(name))).unwrap_or(name)
    }

    /// Whether the scheduler's name `name` means the agent's `host`; cheaper than [`Self::host`] for names that
    /// differ.
    pub fn is_same(&self, name: &str, host: &str) -> bool {
        let alike = host_name::is_same(short(name), short(host)) || self.table.contains_key(name);
        name == host || (alike && self.host(name) == host)
    }

    /// Whether no agent has this name; false while no agent is known.
    pub fn is_unknown(&self, host: &str) -> bool {
        !self.hosts.is_empty() && !self.hosts.contains(host)
    }

    /// The RDMA device with this name or PCI address.
    pub fn device(&self, host: &str, name: &str) -> Option<&str> {
        self.devices.get(host)?.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_matches_by_table_name_or_short_name() {
        let mut agents = HostNames::new([("login".to_owned(), "front.example".to_owned())].into());
        assert_eq!((agents.host("gpu-1"), agents.is_unknown("gpu-1")), ("gpu-1", false), "no agent yet");
        assert!(agents.add_hosts(["gpu-1.a.example", "gpu-2.a.example", "gpu-2.b.example", "gpu-3"]));
        assert!(!agents.add_hosts(["gpu-1.a.example"]));
        assert_eq!(agents.host("gpu-1"), "gpu-1.a.example");
        assert_eq!(agents.host("gpu-1.internal"), "gpu-1.a.example");
        assert_eq!((agents.host("GPU-2.A.example"), agents.host("GPU-3")), ("gpu-2.a.example", "gpu-3"));
        assert!(agents.is_same("GPU-3", "gpu-3") && !agents.is_same("GPU-2", "gpu-2.a.example"));
        assert_eq!(agents.host("gpu-2"), "gpu-2", "ambiguous short name");
        assert_eq!(agents.host("gpu-2.b.example"), "gpu-2.b.example");
        assert_eq!(agents.host("gpu-3.a.example"), "gpu-3");
        assert_eq!(agents.host("login"), "front.example");
        let is = [("gpu-1", "gpu-1.a.example"), ("login", "front.example"), ("gpu-2", "gpu-2.a.example"), ("a", "a")];
        assert_eq!(is.map(|(name, host)| agents.is_same(name, host)), [true, true, false, true]);
        assert_eq!((agents.is_unknown("gpu-3"), agents.is_unknown("gpu-2")), (false, true));
    }

    #[test]
    fn device_matches_by_name_or_address() {
        let mut agents = HostNames::default();
        agents.set_devices([("h", "mlx5_0", "0000:18:00.0"), ("h", "mlx5_1", "")]);
        assert_eq!(agents.device("h", "0000:18:00.0"), Some("mlx5_0"));
        assert_eq!(agents.device("h", "mlx5_1"), Some("mlx5_1"));
        assert_eq!((agents.device("h", "mlx5_2"), agents.device("g", "mlx5_0")), (None, None));
    }
}
