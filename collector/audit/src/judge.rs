//! Judges all members: by the site's baselines, by the other end of the link, by the majority of the group, and by other settings of
//! the same host.

use std::collections::HashMap;

use fabriclens_correlate::Topology;

use crate::baseline::{Declared, SettingsBaseline, declared};
use crate::drift::{Drift, Reason, Split};
use crate::host_rules;
use crate::key::{FarEnd, KEYS, Key};
use crate::majority::compare;
use crate::member::{Member, Members};
use crate::value::difference;

/// Drifts, the worst first, and groups that are split.
#[derive(Debug, Default, PartialEq)]
pub struct Judgment {
    /// Settings that differ.
    pub drifts: Vec<Drift>,
    /// Groups without a majority.
    pub splits: Vec<Split>,
}

/// Judges members.
pub fn judge(members: &Members, topology: &Topology, baselines: &[&SettingsBaseline]) -> Judgment {
    let far_ends = far_ends(topology);
    let judged: Vec<&Member> = members.iter().filter(|member| !member.of_switch).collect();
    let mut judgment = Judgment::default();
    for (at, key) in KEYS.iter().enumerate() {
        // Those for which no better reason tells the expected value.
        let mut rest = Vec::new();
        for member in &judged {
            let Some(value) = member.value(at) else { continue };
            match declared(baselines, member, at, value) {
                Some(Declared::Right) => {}
                Some(Declared::Wrong(name, expected)) => {
                    let reason = Reason::Baseline { name: name.to_owned() };
                    judgment.drifts.push(drift(key, member, value, &expected, reason));
                }
                None => match far_end(&far_ends, members, member).and_then(|far| Some((far, far.value(at)?))) {
                    Some((far, expected)) if key.far_end != FarEnd::Any => {
                        if !fits(key.far_end, value, expected) {
                            let reason = Reason::FarEnd { node: far.host.clone(), port: far.name.clone() };
                            judgment.drifts.push(drift(key, member, value, expected, reason));
                        }
                    }
                    _ => rest.push(*member),
                },
            }
        }
        let (outliers, splits) = compare(at, &rest);
        judgment.splits.extend(splits);
        let of = |o: crate::majority::Outlier<'_>| drift(key, o.member, o.value, o.expected, o.reason);
        judgment.drifts.extend(outliers.into_iter().map(of));
    }
    judgment.drifts.extend(host_rules::check(&judged));
    let rank = |drift: &Drift| (std::cmp::Reverse(drift.severity), drift.reason.clone());
    judgment.drifts.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then_with(|| (&a.host, &a.port, &a.key).cmp(&(&b.host, &b.port, &b.key)))
    });
    judgment
}

/// A drift of a member's value.
pub(crate) fn drift(key: &Key, member: &Member, value: &str, expected: &str, reason: Reason) -> Drift {
    let (value, expected) = difference(value, expected);
    Drift {
        host: member.host.clone(),
        port: member.name.clone(),
        rail: member.rail.clone(),
        key: key.name.to_owned(),
        title: key.title.to_owned(),
        severity: key.severity,
        value,
        expected,
        reason,
        consequence: key.consequence.to_owned(),
        changed: None,
    }
}

fn fits(far_end: FarEnd, value: &str, far: &str) -> bool {
    match (far_end, value.parse::<f64>(), far.parse::<f64>()) {
        (FarEnd::Any, ..) => true,
        (FarEnd::AtLeast, Ok(value), Ok(far)) => far >= value,
        _ => value == far,
    }
}

type PortName<'a> = (&'a str, &'a str);

/// The port at the other end of each cable.
fn far_ends(topology: &Topology) -> HashMap<PortName<'_>, PortName<'_>> {
    let mut far = HashMap::new();
    for link in &topology.links {
        let [a, b] = link.ends.each_ref().map(|end| (&*topology.nodes[end.node].name, &*end.port));
        far.extend([(a, b), (b, a)]);
    }
    far
}

fn far_end<'a>(
    far_ends: &HashMap<PortName<'_>, PortName<'_>>,
    members: &'a Members,
    member: &Member,
) -> Option<&'a Member> {
    let (node, port) = far_ends.get(&(&*member.host, &*member.name))?;
    members.get(node, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fleet, set};
    use fabriclens_correlate::Role;
    use fabriclens_correlate::topology::{Link, LinkEnd, Node};

    const HOSTS: [&str; 5] = ["h1", "h2", "h3", "h4", "h5"];

    fn rail() -> Members {
        let mut members = fleet(HOSTS.map(|host| (host, "0")));
        HOSTS.iter().for_each(|host| set(&mut members, host, "0", "pfc_priorities", "3"));
        members
    }

    /// Each host is cabled to the port of its name at `leaf`.
    fn wiring() -> Topology {
        let mut nodes = vec![Node { name: "leaf".into(), role: Role::Leaf }];
        nodes.extend(HOSTS.map(|host| Node { name: host.into(), role: Role::Host }));
        let ends = |at: usize| {
            [LinkEnd { node: at + 1, port: "mlx5_0/1".into() }, LinkEnd { node: 0, port: format!("swp{at}") }]
        };
        Topology::new(nodes, (0..HOSTS.len()).map(|at| Link::new(ends(at), None)).collect())
    }

    fn reasons(members: &Members, baselines: &str) -> Vec<(String, Reason)> {
        let baselines = SettingsBaseline::parse(baselines).unwrap();
        let judgment = judge(members, &wiring(), &baselines.iter().collect::<Vec<_>>());
        judgment.drifts.into_iter().map(|drift| (drift.host, drift.reason)).collect()
    }

    fn majority(agree: usize, of: usize) -> Reason {
        Reason::Majority { group: "rail 0, MT4129, roce".into(), agree, of }
    }

    #[test]
    fn equal_settings_give_no_finding() {
        assert_eq!(judge(&rail(), &wiring(), &[]), Judgment::default());
    }

    #[test]
    fn baseline_is_trusted_before_the_switch_and_the_switch_before_the_majority() {
        let mut members = rail();
        set(&mut members, "h5", "0", "pfc_priorities", "none");
        assert_eq!(reasons(&members, ""), [("h5".to_owned(), majority(4, 5))]);
        let pfc = Key::position("pfc_priorities").unwrap();
        members.set("leaf", "swp4", pfc, "none".into());
        assert_eq!(reasons(&members, ""), [], "both ends of the cable agree");
        members.set("leaf", "swp4", pfc, "3".into());
        let far = Reason::FarEnd { node: "leaf".into(), port: "swp4".into() };
        assert_eq!(reasons(&members, ""), [("h5".to_owned(), far)]);
        let declared = "[[baseline]]\nname = \"lossy\"\nhosts = \"h5\"\nsettings = { pfc_priorities = \"none\" }";
        assert_eq!(reasons(&members, declared), [], "the site wants it so");
        let wrong = declared.replace("h5", "h1");
        let named = Reason::Baseline { name: "lossy".into() };
        assert_eq!(reasons(&members, &wrong)[0], ("h1".to_owned(), named), "the others are not what the site wants");
    }

    #[test]
    fn mtu_of_a_switch_may_be_larger() {
        let mut members = rail();
        let mtu = Key::position("netdev_mtu").unwrap();
        for (at, host) in HOSTS.iter().enumerate() {
            set(&mut members, host, "0", "netdev_mtu", "9000");
            members.set("leaf", &format!("swp{at}"), mtu, if at == 2 { "1500" } else { "9216" }.into());
        }
        let far = Reason::FarEnd { node: "leaf".into(), port: "swp2".into() };
        assert_eq!(reasons(&members, ""), [("h3".to_owned(), far)]);
    }

    #[test]
    fn worst_findings_are_first() {
        let mut members = rail();
        for (host, firmware) in HOSTS.iter().zip(["1", "1", "1", "1", "2"]) {
            set(&mut members, host, "0", "firmware", firmware);
        }
        set(&mut members, "h5", "0", "pfc_priorities", "none");
        let keys = judge(&members, &wiring(), &[]).drifts.into_iter().map(|f| f.key).collect::<Vec<_>>();
        assert_eq!(keys, ["pfc_priorities", "firmware"]);
    }
}
