//! Names of switches: by GUID, as series of InfiniBand exporters tell them, and as the topology has them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fabriclens_base::{Sender, SenderUsage, host_name, infiniband};
use fabriclens_foreign::{SOURCES, SwitchFrom};
use fabriclens_model::Labels;
use parking_lot::{Mutex, RwLock};

/// Longest name of a switch, bytes; DNS allows 253. Lists of switches keep names for as long as the collector runs.
pub(super) const NAME_BYTES: usize = 255;
/// Most GUIDs that are remembered; of one sender, see [`Sender::may_keep`].
const GUIDS: usize = 100_000;
/// Shortest time between two versions that names of GUIDs make: with each, all decoders translate all lists of foreign columns
/// anew.
const VERSION: Duration = Duration::from_secs(5);

/// All names of switches.
#[derive(Default)]
pub(super) struct SwitchNames {
    /// Switches by GUID.
    guids: RwLock<Guids>,
    /// Name in the topology by lower-case name and by the part before its first dot; `None` if several share the key.
    topology: RwLock<HashMap<String, Option<String>>>,
    version: AtomicU64,
    /// Whether names of GUIDs changed since the last version.
    is_changed: AtomicBool,
    /// When names of GUIDs made the last version.
    made: Mutex<Option<Instant>>,
}

/// Switches by GUID, and for each sender the number of GUIDs that it was the first to name.
#[derive(Default)]
struct Guids {
    switches: HashMap<u64, Switch>,
    usage: SenderUsage,
}

/// Name of a switch, and the credential of the sender that named it first. Senders with another credential cannot rename it. All
/// senders without authentication have the same one, the empty text.
struct Switch {
    name: String,
    credential: Arc<str>,
}

impl SwitchNames {
    /// Changes after a name has changed: at once if it is one of the topology, else within [`VERSION`].
    pub(super) fn version(&self) -> u64 {
        self.version_at(Instant::now)
    }

    fn version_at(&self, now: impl Fn() -> Instant) -> u64 {
        if self.is_changed.load(Relaxed)
            && let Some(mut made) = self.made.try_lock()
            && made.is_none_or(|made| now().saturating_duration_since(made) >= VERSION)
        {
            self.is_changed.store(false, Relaxed);
            *made = Some(now());
            self.version.fetch_add(1, Relaxed);
        }
        self.version.load(Relaxed)
    }

    /// Takes the names that series of a sender, which is bound to no host, tell together with a GUID. `credential` is empty without
    /// authentication.
    pub(super) fn learn<'a>(&self, [sender, credential]: [&str; 2], series: impl Iterator<Item = &'a Labels>) {
        for labels in series {
            let told = SOURCES.iter().flat_map(|source| source.switch.iter().map(move |from| (source, from)));
            for (source, from) in told {
                let SwitchFrom::Guid(guid, name) = *from else { continue };
                let known = source.prefixes.iter().any(|prefix| labels.metric().starts_with(prefix));
                let (Some(guid), name) = (number(labels.get(guid)), labels.get(name)) else { continue };
                let fits = (1..=NAME_BYTES).contains(&name.len());
                if known && fits && !infiniband::is_factory(name) {
                    self.set_guid([sender, credential], guid, infiniband::switch(name));
                }
            }
        }
    }

    fn set_guid(&self, [sender, credential]: [&str; 2], guid: u64, name: String) {
        let changes = |known: &Guids| match known.switches.get(&guid) {
            Some(switch) => switch.name != name && *switch.credential == *credential,
            None => known.usage.room(Sender::Unbound(sender), GUIDS) > 0,
        };
        if !changes(&self.guids.read()) {
            return;
        }
        let mut known = self.guids.write();
        // Another decoder may have added some meanwhile.
        if !changes(&known) {
            return;
        }
        match known.switches.get_mut(&guid) {
            Some(switch) => switch.name = name,
            None => {
                known.usage.add(Sender::Unbound(sender), 1);
                known.switches.insert(guid, Switch { name, credential: credential.into() });
            }
        }
        self.is_changed.store(true, Relaxed);
    }

    /// Name of the switch with a GUID; the GUID itself, as topologies write it, while the name is unknown.
    pub(super) fn of_guid(&self, text: &str) -> String {
        let Some(guid) = number(text) else { return text.to_owned() };
        self.guids.read().switches.get(&guid).map_or_else(|| infiniband::hex(guid), |switch| switch.name.clone())
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
    pub(super) fn as_in_topology(&self, name: &str) -> Arc<str> {
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
        let told = [info("0x506b4b03005c2740", "ib-i4l1s01"), info("0x2", "SwitchX -  Mellanox Technologies")];
        names.learn(["exporter", ""], told.iter());
        assert_eq!(names.of_guid("506b:4b03:005c:2740"), "ib-i4l1s01");
        assert_eq!(names.of_guid("0x2"), "0x0000000000000002", "a factory name is no name");
    }

    #[test]
    fn one_sender_cannot_fill_the_names() {
        let names = SwitchNames::default();
        let fill = |sender: &str, first: u64| {
            (first..first + GUIDS as u64 / 3).for_each(|guid| names.set_guid([sender, "token"], guid, "leaf".into()));
            names.guids.read().switches.len()
        };
        assert_eq!(fill("a", 1), GUIDS / 4);
        names.set_guid(["z", "token"], 1, "spine".into());
        assert_eq!(names.of_guid("0x1"), "spine", "a known one may be renamed");
        names.set_guid(["a", "other token"], 1, "other".into());
        assert_eq!(names.of_guid("0x1"), "spine", "but not with another credential");
        let filled = [("b", 200_000), ("c", 300_000), ("d", 400_000)].map(|(sender, first)| fill(sender, first));
        assert_eq!(filled, [GUIDS / 2, GUIDS / 4 * 3, GUIDS / 4 * 3]);
    }

    #[test]
    fn one_sender_cannot_make_all_decoders_translate_again_and_again() {
        let (names, began) = (SwitchNames::default(), Instant::now());
        let version = |ms| names.version_at(|| began + Duration::from_millis(ms));
        let versions: Vec<u64> = (0..100)
            .map(|n| {
                names.set_guid(["a", ""], 1, format!("leaf{n}"));
                version(n * 100)
            })
            .collect();
        assert_eq!((versions[0], versions[49], versions[50], versions[99]), (1, 1, 2, 2));
        assert_eq!((version(15_000), version(25_000)), (3, 3), "the last name counts, and then nothing is new");
    }
}
