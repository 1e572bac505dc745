//! Rules that hold within one host, whatever the fleet does.

use std::collections::{BTreeMap, BTreeSet};

use fabriclens_correlate::Severity;

use crate::drift::{Drift, Reason};
use crate::member::Member;
use crate::value::{NONE, entries};

/// A rule: a port, or the ports of a host, contradict themselves.
struct Rule {
    /// Name in the place of a key.
    name: &'static str,
    /// What it is about, for people.
    title: &'static str,
    severity: Severity,
    consequence: &'static str,
    check: Check,
}

/// Value and expected value where a rule is broken.
type Broken = Option<(String, String)>;

/// What a rule looks at.
enum Check {
    Port(fn(&Member) -> Broken),
    /// A port, and all ports of its host.
    Host(fn(&Member, &[&Member]) -> Broken),
}

const RULES: &[Rule] = &[
    Rule {
        name: "roce_priority_has_pfc",
        title: "PFC on the priority of RoCE",
        severity: Severity::Critical,
        consequence: "RoCE is dropped where a queue is full, while PFC protects a priority that carries none",
        check: Check::Port(roce_without_pfc),
    },
    Rule {
        name: "notification_and_reaction",
        title: "priorities that slow down on CNPs",
        severity: Severity::Warning,
        consequence: "the port asks others to slow down, and does not slow down itself",
        check: Check::Port(notifies_without_reaction),
    },
    Rule {
        name: "roce_dscp_is_mapped",
        title: "priority of the DSCP of RoCE",
        severity: Severity::Warning,
        consequence: "RoCE leaves in the priority that is the default for its DSCP, not in one that was chosen",
        check: Check::Port(unmapped_dscp),
    },
    Rule {
        name: "rdma_mtu_fits",
        title: "RDMA MTU within the MTU of the interface",
        severity: Severity::Warning,
        consequence: "packets of the RDMA MTU are larger than the interface lets pass",
        check: Check::Port(rdma_mtu_too_large),
    },
    Rule {
        name: "gpu_memory_is_reached",
        title: "ways between GPU memory and adapter (GPUDirect RDMA)",
        severity: Severity::Warning,
        consequence: "the host has GPUs and RDMA, and data between them goes through host memory: neither a peer memory module is loaded, nor do adapter and GPU driver share memory by dma-buf",
        check: Check::Port(staged_in_host_memory),
    },
    Rule {
        name: "twins_have_one_firmware",
        title: "firmware of the host's adapters of one board",
        severity: Severity::Info,
        consequence: "rails of one host behave differently",
        check: Check::Host(twin_firmware),
    },
];

/// Checks all rules. Members are in the order of hosts.
pub(crate) fn check(members: &[&Member]) -> Vec<Drift> {
    let mut drifts = Vec::new();
    for host in members.chunk_by(|a, b| a.host == b.host) {
        for (member, rule) in host.iter().flat_map(|member| RULES.iter().map(move |rule| (*member, rule))) {
            let broken = match rule.check {
                Check::Port(check) => check(member),
                Check::Host(check) => check(member, host),
            };
            drifts.extend(broken.map(|(value, expected)| Drift {
                host: member.host.clone(),
                port: member.name.clone(),
                rail: member.rail.clone(),
                key: rule.name.to_owned(),
                title: rule.title.to_owned(),
                severity: rule.severity,
                value,
                expected,
                reason: Reason::Host,
                consequence: rule.consequence.to_owned(),
                changed: None,
            }));
        }
    }
    drifts
}

/// DSCP that is forced on RoCE: the upper six bits of the type of service. `None` if none is forced, or not the same on all queue pairs.
fn roce_dscp(port: &Member) -> Option<u64> {
    let forced: BTreeSet<u64> = entries(port.named("roce_tos")?)
        .filter_map(|(_, tos)| tos.parse::<u64>().ok())
        .filter(|tos| *tos > 0)
        .collect();
    match forced.into_iter().collect::<Vec<_>>()[..] {
        [tos] => Some(tos >> 2),
        _ => None,
    }
}

fn trusts_dscp(port: &Member) -> bool {
    port.named("trust") == Some("dscp")
}

fn priority_of(port: &Member, dscp: u64) -> Option<String> {
    let dscp = dscp.to_string();
    entries(port.named("dscp_map")?).find(|(name, _)| *name == dscp).map(|(_, priority)| priority.to_owned())
}

fn roce_without_pfc(port: &Member) -> Broken {
    let protected = port.named("pfc_priorities").filter(|on| *on != NONE)?;
    let priority = roce_dscp(port).filter(|_| trusts_dscp(port)).and_then(|dscp| priority_of(port, dscp))?;
    (!protected.split(',').any(|on| on == priority))
        .then(|| (format!("PFC on {protected}"), format!("PFC on {priority}, the priority of RoCE")))
}

fn notifies_without_reaction(port: &Member) -> Broken {
    let [notifies, reacts] = ["ecn_notification_point", "ecn_reaction_point"].map(|key| port.named(key));
    let (notifies, reacts) = (notifies?, reacts?);
    let reacting: Vec<&str> = reacts.split(',').collect();
    let missing: Vec<&str> = notifies.split(',').filter(|on| *on != NONE && !reacting.contains(on)).collect();
    (!missing.is_empty()).then(|| (reacts.to_owned(), notifies.to_owned()))
}

fn unmapped_dscp(port: &Member) -> Broken {
    let dscp = roce_dscp(port).filter(|_| trusts_dscp(port))?;
    let mapped = port.named("dscp_map").filter(|map| entries(map).next().is_some())?;
    priority_of(port, dscp).is_none().then(|| (mapped.to_owned(), format!("an entry for DSCP {dscp}")))
}

fn rdma_mtu_too_large(port: &Member) -> Broken {
    let number = |key| port.named(key).and_then(|value| value.parse::<u64>().ok());
    let (rdma, netdev) = (number("rdma_mtu")?, number("netdev_mtu")?);
    (port.fabric == "roce" && rdma > netdev).then(|| (rdma.to_string(), format!("at most {netdev}")))
}

/// The agent reports no method only where it is certain that there is none.
fn staged_in_host_memory(device: &Member) -> Broken {
    let methods = device.named("gpudirect").filter(|methods| *methods == NONE)?;
    Some((methods.to_owned(), "peer_memory or dma_buf".to_owned()))
}

fn twin_firmware(port: &Member, host: &[&Member]) -> Broken {
    let own = port.named("firmware")?;
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let twins = host.iter().filter(|twin| !twin.board.is_empty() && twin.board == port.board);
    twins.filter_map(|twin| twin.named("firmware")).for_each(|version| *count.entry(version).or_default() += 1);
    // If two versions are equally frequent, the finding is at the adapters with the lower one by name.
    let usual = count.iter().max_by_key(|(version, count)| (**count, **version)).map(|(version, _)| *version)?;
    (own != usual).then(|| (own.to_owned(), usual.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fleet, set};

    fn broken(settings: &[(&str, &str)]) -> Vec<(String, String, String)> {
        let mut members = fleet([("h1", "0")]);
        settings.iter().for_each(|(key, value)| set(&mut members, "h1", "0", key, value));
        told(&members.iter().collect::<Vec<_>>())
    }

    fn told(members: &[&Member]) -> Vec<(String, String, String)> {
        check(members).into_iter().map(|f| (f.port, f.key, format!("{} / {}", f.value, f.expected))).collect()
    }

    fn one(key: &str, text: &str) -> Vec<(String, String, String)> {
        vec![("mlx5_0/1".into(), key.into(), text.into())]
    }

    #[test]
    fn priority_of_roce_must_have_pfc_if_any_has() {
        let tos = ("roce_tos", "traffic_class=106");
        let of = |pfc| [tos, ("trust", "dscp"), ("dscp_map", "26=3,48=6"), ("pfc_priorities", pfc)];
        assert_eq!(broken(&of("3")), []);
        let told = "PFC on 4 / PFC on 3, the priority of RoCE";
        assert_eq!(broken(&of("4")), one("roce_priority_has_pfc", told));
        assert_eq!(broken(&of(NONE)), [], "a network without PFC may be wanted");
        let [_, _, map, pfc] = of("4");
        assert_eq!(broken(&[tos, ("trust", "pcp"), map, pfc]), [], "the DSCP does not decide");
        assert_eq!(broken(&[("roce_tos", "traffic_class=0"), ("trust", "dscp"), map, pfc]), [], "no class is forced");
    }

    #[test]
    fn forced_dscp_must_be_mapped() {
        let of = |map| [("roce_tos", "traffic_class=106"), ("trust", "dscp"), ("dscp_map", map)];
        assert_eq!(broken(&of("26=3")), []);
        assert_eq!(broken(&of("48=6")), one("roce_dscp_is_mapped", "48=6 / an entry for DSCP 26"));
        assert_eq!(broken(&of("")), [], "without a table the default is wanted");
    }

    #[test]
    fn port_that_notifies_must_react() {
        let of = |np, rp| [("ecn_notification_point", np), ("ecn_reaction_point", rp)];
        assert_eq!(broken(&of("3", "3")), []);
        assert_eq!(broken(&of(NONE, NONE)), []);
        assert_eq!(broken(&of(NONE, "3")), [], "the switch may be asked not to be answered");
        assert_eq!(broken(&of("3,4", "4")), one("notification_and_reaction", "4 / 3,4"));
    }

    #[test]
    fn rdma_mtu_must_fit() {
        assert_eq!(broken(&[("rdma_mtu", "4096"), ("netdev_mtu", "9000")]), []);
        assert_eq!(
            broken(&[("rdma_mtu", "4096"), ("netdev_mtu", "1500")]),
            one("rdma_mtu_fits", "4096 / at most 1500")
        );
    }

    #[test]
    fn gpu_memory_must_be_reached() {
        assert_eq!(broken(&[("gpudirect", "dma_buf")]), []);
        assert_eq!(broken(&[]), [], "no GPU, or not certain");
        assert_eq!(broken(&[("gpudirect", NONE)]), one("gpu_memory_is_reached", "none / peer_memory or dma_buf"));
    }

    #[test]
    fn adapters_of_one_board_have_one_firmware() {
        let mut members = fleet([("h1", "0"), ("h1", "1"), ("h1", "2"), ("h2", "0")]);
        for (host, rail, firmware) in
            [("h1", "0", "28.41"), ("h1", "1", "28.43"), ("h1", "2", "28.41"), ("h2", "0", "28.43")]
        {
            set(&mut members, host, rail, "firmware", firmware);
        }
        let mut members: Vec<Member> = members.iter().cloned().collect();
        let mut other = members[3].clone();
        (other.name, other.board) = ("mlx5_9/1".into(), "MT_2".into());
        members.insert(4, other);
        let told = told(&members.iter().collect::<Vec<_>>());
        assert_eq!(told, [("mlx5_1/1".into(), "twins_have_one_firmware".into(), "28.43 / 28.41".into())]);
    }
}
