//! Made-up fleets for the tests of this crate.

use std::collections::{BTreeMap, BTreeSet};

use fabriclens_model::{Labels, Memory, Series};

use crate::key::Key;
use crate::member::Members;

/// Labels of the port of a host on a rail: `mlx5_<rail>/1`.
pub(crate) fn port(host: &str, rail: &str) -> Labels {
    let device = format!("mlx5_{rail}");
    let facts = [("host", host), ("device", &device), ("port", "1"), ("rail", rail), ("fabric", "roce")];
    let more = [("__name__", "fabric_port_info"), ("link_layer", "Ethernet"), ("model", "MT4129"), ("board", "MT_1")];
    Labels::new(facts.into_iter().chain(more))
}

/// Members of hosts and rails; all ports are up.
pub(crate) fn fleet<'a>(ports: impl IntoIterator<Item = (&'a str, &'a str)>) -> Members {
    fleet_with(ports.into_iter().map(|(host, rail)| (host, rail, Vec::new())))
}

/// Members of hosts and rails, with other labels of their ports.
pub(crate) fn fleet_with<'a>(ports: impl IntoIterator<Item = (&'a str, &'a str, Vec<(&'a str, &'a str)>)>) -> Members {
    let of = |(host, rail, other): (&str, &str, Vec<(&'a str, &'a str)>)| {
        let facts = port(host, rail);
        let mut labels: BTreeMap<&str, &str> = facts.iter().collect();
        labels.extend(other);
        Labels::new(labels)
    };
    let infos: Vec<Labels> = ports.into_iter().map(of).collect();
    let up: BTreeSet<_> =
        infos.iter().map(|labels| (labels.get("host").to_owned(), format!("{}/1", labels.get("device")))).collect();
    Members::of_ports(&infos, &up)
}

/// Sets a key of a port.
pub(crate) fn set(members: &mut Members, host: &str, rail: &str, key: &str, value: &str) {
    let at = Key::position(key).unwrap_or_else(|| panic!("no key {key}"));
    members.set(host, &format!("mlx5_{rail}/1"), at, value.into());
}

/// Metric, further labels as `name=value,...`, and samples (Unix ms).
pub(crate) type Written<'a> = (&'a str, &'a str, &'a [(i64, f64)]);

/// Series of the port `mlx5_0/1` of the host `h1`.
pub(crate) fn samples(series: &[Written<'_>]) -> Memory {
    let of = |(metric, more, samples): &Written<'_>| {
        let mut labels: BTreeMap<String, String> = [("host", "h1"), ("device", "mlx5_0"), ("port", "1")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        if *metric == "fabric_port_info" {
            labels = port("h1", "0").iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        }
        labels.insert("__name__".into(), (*metric).into());
        labels
            .extend(more.split(',').filter_map(|pair| pair.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())));
        labels.retain(|_, value| !value.is_empty());
        let (times, values) = samples.iter().copied().unzip();
        Series { labels: Labels::new(labels), times, values }
    };
    Memory(series.iter().map(of).collect())
}
