//! Reads settings from the series that agents and switches send.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use fabriclens_correlate::topology::port_name;
use fabriclens_model::{Labels, Read};
use fabriclens_promql::{Engine, QueryError, Sample, Value};

use crate::key::{KEYS, Key, Reading, Series};
use crate::member::Members;
use crate::value;

/// Metric whose labels say what a port is.
pub(crate) const PORT_INFO: &str = "fabric_port_info";
/// Metric that is 1 for ports that can carry data.
const PORT_UP: &str = "fabric_port_up";

/// Most ports, and most values of one port's key; more are no settings but an attack or a mistake, and are left out.
const MOST_PORTS: usize = 1 << 18;
const MOST_VALUES: usize = 256;

/// Host and name of a port or device.
pub(crate) type PortId = (String, String);

/// Host, device and port of a series; the place of `device` is taken by `port` if a series has only the latter.
type Port<'a> = [&'a str; 3];

/// Source of samples, and the time at which they are read.
#[derive(Clone, Copy)]
pub(crate) struct SettingsReader<'a> {
    pub engine: &'a Engine,
    pub read: &'a dyn Read,
    /// Unix ms.
    pub at_ms: i64,
}

impl SettingsReader<'_> {
    fn samples(&self, query: &str) -> Result<Vec<Sample>, QueryError> {
        Ok(match self.engine.instant(self.read, query, self.at_ms)?.value {
            Value::Vector(samples) => samples,
            _ => Vec::new(),
        })
    }

    /// Reads all ports and devices with all settings.
    ///
    /// # Errors
    /// [`QueryError`] of the first query that fails.
    pub(crate) fn members(&self) -> Result<Members, QueryError> {
        let up = self.samples(PORT_UP)?;
        let up: BTreeSet<PortId> =
            up.iter().filter(|sample| sample.value > 0.0).map(|sample| id(&sample.labels)).collect();
        let infos = self.port_infos("")?;
        let mut members = Members::of_ports(infos.values(), &up);
        // Equal values share memory: there are few values, and many ports.
        let mut known: HashMap<String, Arc<str>> = HashMap::new();
        for (at, key) in KEYS.iter().enumerate() {
            let mut set = |[host, device, port]: Port<'_>, value: String| {
                let value = known.entry(value).or_insert_with_key(|value| value.as_str().into()).clone();
                members.set(host, &name(device, port), at, value);
            };
            match key.reading {
                Reading::Info(label) => texts(infos.values(), label).for_each(|(port, value)| set(port, value)),
                _ => self.each_value(key, "", set)?,
            }
        }
        Ok(members)
    }

    /// Reads one key of one port or device; `None` without samples at that time.
    ///
    /// # Errors
    /// [`QueryError`].
    pub(crate) fn value(&self, key: &Key, host: &str, name: &str) -> Result<Option<String>, QueryError> {
        let (device, port) = name.rsplit_once('/').unwrap_or((name, ""));
        let mut matchers = String::new();
        for (label, value) in [("host", host), ("device", device), ("port", port)] {
            // Writing to a string does not fail.
            _ = write!(matchers, "{label}={value:?},");
        }
        let mut found = None;
        self.each_value(key, &matchers, |_, value| found = Some(value))?;
        Ok(found)
    }

    /// Calls `set` with the value of each port or device that has one.
    fn each_value(&self, key: &Key, matchers: &str, mut set: impl FnMut(Port<'_>, String)) -> Result<(), QueryError> {
        match key.reading {
            Reading::Number(metric, unit) => {
                let samples = self.samples(&format!("{metric}{{{matchers}}}"))?;
                let finite = samples.iter().filter(|sample| sample.value.is_finite());
                finite.for_each(|sample| set(port(&sample.labels), unit.text(sample.value)));
            }
            Reading::Set(series) => {
                let on = |entries: &[(&str, f64)]| {
                    value::set(entries.iter().filter(|(_, value)| *value != 0.0).map(|(name, _)| *name))
                };
                self.by_label(series, matchers, on, set)?;
            }
            Reading::Map(series) => self.by_label(series, matchers, value::map, set)?,
            Reading::Info(label) => {
                let infos = self.port_infos(matchers)?;
                texts(infos.values(), label).for_each(|(port, value)| set(port, value));
            }
        }
        Ok(())
    }

    /// Calls `set` with the text of the series of each port.
    fn by_label(
        &self,
        series: Series,
        matchers: &str,
        text: impl Fn(&[(&str, f64)]) -> String,
        mut set: impl FnMut(Port<'_>, String),
    ) -> Result<(), QueryError> {
        let only = series.only.map_or_else(String::new, |(label, value)| format!("{label}={value:?},"));
        let samples = self.samples(&format!("{}{{{matchers}{only}}}", series.metric))?;
        // By borrowed labels: names of ports are made once for each port, not for each sample.
        let mut ports: HashMap<Port<'_>, Vec<(&str, f64)>> = HashMap::new();
        for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
            let entries = ports.entry(port(&sample.labels)).or_default();
            if entries.len() < MOST_VALUES {
                entries.push((sample.labels.get(series.by), sample.value));
            }
        }
        ports.into_iter().for_each(|(port, entries)| set(port, text(&entries)));
        Ok(())
    }

    /// What ports are, by the newest series of each: after a change of a label, two series exist for a while.
    fn port_infos(&self, matchers: &str) -> Result<BTreeMap<PortId, Labels>, QueryError> {
        let samples = self.samples(&format!("timestamp({PORT_INFO}{{{matchers}}})"))?;
        let mut newest: BTreeMap<PortId, Sample> = BTreeMap::new();
        for sample in samples {
            let at = id(&sample.labels);
            if newest.len() >= MOST_PORTS && !newest.contains_key(&at) {
                continue;
            }
            if newest.get(&at).is_none_or(|known| known.value < sample.value) {
                newest.insert(at, sample);
            }
        }
        Ok(newest.into_iter().map(|(at, sample)| (at, sample.labels)).collect())
    }
}

fn id(labels: &Labels) -> PortId {
    (labels.get("host").to_owned(), port_name(labels))
}

/// Like [`port_name`], without copies.
fn port(labels: &Labels) -> Port<'_> {
    match (labels.get("device"), labels.get("port")) {
        ("", port) => [labels.get("host"), port, ""],
        (device, port) => [labels.get("host"), device, port],
    }
}

/// Name as [`port_name`] has it, without a copy for devices.
fn name<'a>(device: &'a str, port: &str) -> Cow<'a, str> {
    if port.is_empty() { device.into() } else { format!("{device}/{port}").into() }
}

/// One label of each port that has it.
fn texts<'a>(infos: impl Iterator<Item = &'a Labels>, label: &'a str) -> impl Iterator<Item = (Port<'a>, String)> {
    infos.map(move |labels| (port(labels), labels.get(label).to_owned())).filter(|(_, value)| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{port, samples};
    use fabriclens_model::Memory;

    fn read(memory: &Memory, at_ms: i64) -> Members {
        SettingsReader { engine: &Engine::default(), read: memory, at_ms }.members().unwrap()
    }

    #[test]
    fn settings_of_a_port_are_read() {
        let memory = samples(&[
            ("fabric_port_info", "", &[(0, 1.0), (60_000, 1.0)]),
            ("fabric_port_up", "", &[(0, 1.0), (60_000, 1.0)]),
            ("fabric_pfc_enabled", "priority=0", &[(60_000, 0.0)]),
            ("fabric_pfc_enabled", "priority=3", &[(60_000, 1.0)]),
            ("fabric_dcb_app_priority", "dscp=26", &[(60_000, 3.0)]),
            ("fabric_ecn_enabled", "priority=3,role=np", &[(60_000, 0.0)]),
            ("fabric_ecn_enabled", "priority=3,role=rp", &[(60_000, 1.0)]),
            ("fabric_port_rate_bytes_per_second", "", &[(60_000, 50e9)]),
            ("fabric_pcie_width", "port=", &[(60_000, 16.0)]),
        ]);
        let members = read(&memory, 60_000);
        let port = members.get("h1", "mlx5_0/1").unwrap();
        let read = ["pfc_priorities", "dscp_map", "ecn_notification_point", "ecn_reaction_point", "speed", "trust"];
        let values = read.map(|key| port.named(key));
        assert_eq!(values, [Some("3"), Some("26=3"), Some("none"), Some("3"), Some("400 Gb/s"), None]);
        assert_eq!(members.get("h1", "mlx5_0").unwrap().named("pcie_width"), Some("16"), "the device");
        assert_eq!(port.named("pcie_width"), None);
    }

    #[test]
    fn ports_that_are_down_are_no_members_and_devices_of_them_neither() {
        let memory = samples(&[
            ("fabric_port_info", "", &[(0, 1.0)]),
            ("fabric_port_up", "", &[(0, 0.0)]),
            ("fabric_netdev_mtu_bytes", "", &[(0, 1500.0)]),
            ("fabric_dcb_trust", "mode=pcp", &[(0, 1.0)]),
        ]);
        assert_eq!(read(&memory, 0).iter().filter(|member| !member.of_switch).count(), 0);
    }

    #[test]
    fn port_without_a_device_is_named_by_its_port() {
        let of = |metric, more: &[(&str, &str)]| fabriclens_model::Series {
            labels: Labels::new([("__name__", metric), ("host", "leaf"), ("port", "swp1")].iter().chain(more).copied()),
            times: vec![0],
            values: vec![1.0],
        };
        let memory = Memory(vec![
            of("fabric_pfc_enabled", &[("priority", "3")]),
            of("fabric_pfc_enabled", &[("priority", "4")]),
            of("fabric_dcb_trust", &[("mode", "dscp")]),
        ]);
        let members = read(&memory, 0);
        let port = members.get("leaf", "swp1").unwrap();
        assert!(port.of_switch);
        assert_eq!((port.named("pfc_priorities"), port.named("trust")), (Some("3,4"), Some("dscp")));
        assert_eq!(members.iter().count(), 1);
    }

    #[test]
    fn values_of_a_setting_are_bounded() {
        let names: Vec<String> = (0..MOST_VALUES + 50).map(|dscp| format!("dscp={dscp}")).collect();
        let mut series = vec![("fabric_port_info", "", &[(0, 1.0)][..]), ("fabric_port_up", "", &[(0, 1.0)])];
        series.extend(names.iter().map(|name| ("fabric_dcb_app_priority", &**name, &[(0, 3.0)][..])));
        let members = read(&samples(&series), 0);
        let map = members.get("h1", "mlx5_0/1").and_then(|port| port.named("dscp_map")).unwrap();
        assert_eq!(map.split(',').count(), MOST_VALUES);
    }

    #[test]
    fn newest_info_counts() {
        let mut memory = samples(&[("fabric_port_up", "", &[(60_000, 1.0)])]);
        for (firmware, at_ms) in [("28.43", 50_000), ("28.41", 60_000)] {
            let facts = port("h1", "0");
            let labels = facts.iter().chain([("firmware", firmware)]).collect::<Vec<_>>();
            memory.0.push(fabriclens_model::Series {
                labels: Labels::new(labels),
                times: vec![at_ms],
                values: vec![1.0],
            });
        }
        assert_eq!(
            read(&memory, 60_000).get("h1", "mlx5_0/1").unwrap().named("firmware"),
            Some("28.41"),
            "a downgrade"
        );
    }
}
