//! Names of switches: by GUID, as series of InfiniBand exporters tell them, and as the topology has them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fabriclens_base::{host_name, infiniband};
use fabriclens_foreign::{SOURCES, SwitchFrom};
use fabriclens_model::Labels;
use parking_lot::RwLock;

/// Longest name of a switch, bytes; DNS allows 253. Lists of switches keep names for as long as the collector runs.
pub(super) const NAME_BYTES: usize = 255;
/// Most GUIDs that are remembered.
const GUIDS: usize = 100_000;

/// All names of switches.
#[derive(Default)]
pub(super) struct SwitchNames {
    /// Switch by GUID.
    guids: RwLock<HashMap<u64, String>>,
    /// Name in the topology by lower-case name and by the part before its first dot; `None` if several share the key.
    topology: RwLock<HashMap<String, Option<String>>>,
    version: AtomicU64,
}

impl SwitchNames {
    /// Changes whenever a name changes.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Takes the names that series tell together with a GUID.
    pub(super) fn learn(&self, list: &[Labels]) {
        for labels in list {
            let told = SOURCES.iter().flat_map(|source| source.switch.iter().map(move |from| (source, from)));
            for (source, from) in told {
                let SwitchFrom::Guid(guid, name) = *from else { continue };
                let known = source.prefixes.iter().any(|prefix| labels.metric().starts_with(prefix));
                let (Some(guid), name) = (number(labels.get(guid)), labels.get(name)) else { continue };
                let fits = (1..=NAME_BYTES).contains(&name.len());
                if known && fits && !infiniband::is_factory(name) {
                    self.set_guid(guid, infiniband::switch(name));
                }
            }
        }
    }

    fn set_guid(&self, guid: u64, name: String) {
        let known = self.guids.read();
        if known.get(&guid) == Some(&name) || (known.len() >= GUIDS && !known.contains_key(&guid)) {
            return;
        }
        drop(known);
        self.guids.write().insert(guid, name);
        self.version.fetch_add(1, Relaxed);
    }

    /// Name of the switch with a GUID; the GUID itself, as topologies write it, while the name is unknown.
    pub(super) fn of_guid(&self, text: &str) -> String {
        let Some(guid) = number(text) else { return text.to_owned() };
        self.guids.read().get(&guid).cloned().unwrap_or_else(|| infiniband::hex(guid))
    }

    /// Replaces the switches of the topology.
    pub(super) fn set_topology(&self, switches: impl Iterator<Item = String>) {
        let mut names: HashMap<String, Option<String>> = HashMap::new();
        for switch in switches {
            let (whole, short) = (host_name::key(&switch), host_name::key(host_name::short(&switch)));
            let keys = if whole == short { vec![whole] } else { vec![whole, short] };
            for key in keys {
                let entry = names.entry(key).or_insert_with(|| Some(switch.clone()));
                if entry.as_deref() != Some(&switch) {
                    *entry = None;
                }
            }
        }
        if *self.topology.read() != names {
            *self.topology.write() = names;
            self.version.fetch_add(1, Relaxed);
        }
    }

    /// The name as the topology has it: another case, or with its domain, or without.
    pub(super) fn as_in_topology(&self, name: &str) -> std::sync::Arc<str> {
        let names = self.topology.read();
        let found = |key: &str| names.get(&host_name::key(key)).and_then(Option::as_deref);
        let short = || Some(host_name::short(name)).filter(|_| name.parse::<std::net::IpAddr>().is_err());
        found(name).or_else(|| found(short()?)).unwrap_or(name).into()
    }
}

/// Parses `0x2c90300c00081`, `0002c90300c00081` and `0c42:a103:0065:0001`.
fn number(guid: &str) -> Option<u64> {
    let digits: String = guid.trim().trim_start_matches("0x").chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(&digits, 16).ok().filter(|guid| *guid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_topology() {
        let names = SwitchNames::default();
        let version = names.version();
        let all = ["leaf1.example", "Leaf2", "spine.a", "spine.b"].map(str::to_owned);
        names.set_topology(all.clone().into_iter());
        assert!(names.version() > version);
        let told = ["leaf1", "LEAF1.example", "leaf2.example", "spine", "spine.b", "10.0.0.7", "new"];
        let want = ["leaf1.example", "leaf1.example", "Leaf2", "spine", "spine.b", "10.0.0.7", "new"];
        assert_eq!(told.map(|name| names.as_in_topology(name).to_string()), want);
        let version = names.version();
        names.set_topology(all.into_iter());
        assert_eq!(names.version(), version, "nothing changed");
    }

    #[test]
    fn guids_have_the_names_that_series_tell() {
        let names = SwitchNames::default();
        let info =
            |guid, switch| Labels::new([("__name__", "infiniband_switch_info"), ("guid", guid), ("switch", switch)]);
        assert_eq!(names.of_guid("0x506b4b03005c2740"), "0x506b4b03005c2740");
        names.learn(&[info("0x506b4b03005c2740", "ib-i4l1s01"), info("0x2", "SwitchX -  Mellanox Technologies")]);
        assert_eq!(names.of_guid("506b:4b03:005c:2740"), "ib-i4l1s01");
        assert_eq!(names.of_guid("0x2"), "0x0000000000000002", "a factory name is no name");
    }
}
