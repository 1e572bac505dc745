//! Writes the settings of a healthy host as baselines for all hosts.

use std::collections::{BTreeMap, BTreeSet};

use crate::baseline::{BaselineFile, Expected, Written};
use crate::key::KEYS;
use crate::member::{Member, Members};

/// Baselines with the settings of that host, as a TOML file; `None` if none of its ports is up. What is the same on all of its ports
/// of one model is one baseline; what differs by rail is a baseline of the rail.
pub fn learn(members: &Members, host: &str) -> Option<String> {
    let own: Vec<&Member> = members.iter().filter(|member| member.host == host && !member.of_switch).collect();
    let kinds: BTreeSet<(&str, &str)> = own.iter().map(|member| (&*member.model, &*member.fabric)).collect();
    let mut file = BaselineFile::default();
    for (model, fabric) in kinds {
        let of_kind: Vec<&Member> =
            own.iter().copied().filter(|member| member.model == model && member.fabric == fabric).collect();
        let mut all = baseline(host, model, fabric, None);
        let mut by_rail: BTreeMap<&str, Written> = BTreeMap::new();
        for (at, key) in KEYS.iter().enumerate() {
            let only = |rail: Option<&str>| {
                let of_rail = of_kind.iter().filter(|member| rail.is_none_or(|rail| member.rail == rail));
                let values: BTreeSet<&str> = of_rail.filter_map(|member| member.value(at)).collect();
                values.first().filter(|_| values.len() == 1).map(|value| Expected::Text((*value).to_owned()))
            };
            if let Some(value) = only(None) {
                all.settings.insert(key.name.to_owned(), value);
                continue;
            }
            for rail in of_kind.iter().map(|member| &*member.rail).filter(|rail| !rail.is_empty()) {
                let Some(value) = only(Some(rail)) else { continue };
                let of_rail = by_rail.entry(rail).or_insert_with(|| baseline(host, model, fabric, Some(rail)));
                of_rail.settings.insert(key.name.to_owned(), value);
            }
        }
        file.baseline.extend(by_rail.into_values().chain([all]).filter(|written| !written.settings.is_empty()));
    }
    if file.baseline.is_empty() {
        return None;
    }
    toml::to_string_pretty(&file).ok()
}

fn baseline(host: &str, model: &str, fabric: &str, rail: Option<&str>) -> Written {
    let list = |value: &str| if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
    let of_rail = rail.map_or_else(String::new, |rail| format!(", rail {rail}"));
    Written {
        name: format!("{model} {fabric} as on {host}{of_rail}").trim().to_owned(),
        rails: rail.map(str::to_owned).into_iter().collect(),
        models: list(model),
        fabrics: list(fabric),
        ..Written::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::SettingsBaseline;
    use crate::judge::judge;
    use crate::testing::{fleet, set};

    #[test]
    fn learned_baselines_find_the_host_right_and_others_wrong() {
        let mut members = fleet([("h1", "0"), ("h1", "1"), ("h2", "0"), ("h2", "1")]);
        for (host, rail, pfc, numa) in
            [("h1", "0", "3", "0"), ("h1", "1", "3", "1"), ("h2", "0", "3", "0"), ("h2", "1", "none", "0")]
        {
            set(&mut members, host, rail, "pfc_priorities", pfc);
            set(&mut members, host, rail, "numa_node", numa);
        }
        let text = learn(&members, "h1").unwrap();
        let baselines = SettingsBaseline::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let found =
            judge(&members, &fabriclens_correlate::Topology::default(), &baselines.iter().collect::<Vec<_>>()).drifts;
        let of: Vec<_> = found.iter().map(|f| (&*f.host, &*f.port, &*f.key, &*f.value, &*f.expected)).collect();
        let expected = [("h2", "mlx5_1/1", "pfc_priorities", "none", "3"), ("h2", "mlx5_1/1", "numa_node", "0", "1")];
        assert_eq!(of, expected, "{text}");
        assert_eq!(learn(&members, "h3"), None);
    }
}
