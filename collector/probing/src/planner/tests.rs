use super::*;
use crate::fleet::{Fleet, LARGE, name, no_change};
use fabriclens_correlate::{FlowName, PortName, QueuePairFlows};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

fn targets(table: &PlanTable, host: usize) -> Vec<Target> {
    table.reply(&name(host)).map(|reply| PlanReply::decode(reply).unwrap().targets).unwrap_or_default()
}

fn of(targets: &[Target], class: PairClass) -> Vec<&Target> {
    targets.iter().filter(|target| target.class() == class).collect()
}

const SMALL: Fleet = Fleet { leaves: 3, hosts: 6, rails: 1, spines: 4 };

#[test]
fn a_leaf_is_a_mesh_and_others_are_sampled_with_ports_that_cover_the_uplinks() {
    let table = plan(&SMALL.offers(no_change), &SMALL.topology(), &Demand::default(), &Probes::default(), 0);
    let own = targets(&table, 0);
    let mesh: Vec<&str> = of(&own, PairClass::SameLeaf).iter().map(|target| target.host.as_str()).collect();
    assert_eq!(mesh, ["gpu-0001", "gpu-0002", "gpu-0003", "gpu-0004", "gpu-0005"]);
    let remote = of(&own, PairClass::CrossLeaf);
    assert!(remote.iter().any(|target| target.host >= name(6) && target.host < name(12)));
    assert!(remote.iter().any(|target| target.host >= name(12)));
    // 13 ports cover 4 uplinks: each of 12 pairs of the leaf has two, and those of the ways back.
    assert!(remote.iter().all(|target| (2..=4).contains(&target.source_ports.len())), "{remote:?}");
    assert!(own.iter().all(|target| target.to.as_ref().unwrap().queue_pair == 100 && !target.tcp_twin));
    for target in &own {
        let at: usize = target.host.trim_start_matches("gpu-").parse().unwrap();
        let back = targets(&table, at);
        let back = back.iter().find(|back| back.host == name(0)).expect("the way back is traced");
        let ports = |target: &Target| target.source_ports.iter().copied().collect::<BTreeSet<u32>>();
        assert_eq!((ports(back), back.trace_every_ms > 0), (ports(target), true));
    }
    assert_eq!(table.totals.unused, []);
}

#[test]
fn a_leaf_of_four_ports_has_no_mesh() {
    let few = Fleet { hosts: 4, ..SMALL };
    let table = plan(&few.offers(no_change), &few.topology(), &Demand::default(), &Probes::default(), 0);
    assert_eq!(of(&targets(&table, 0), PairClass::SameLeaf).len(), 0, "three targets cannot tell a host from a leaf");
    assert!(!of(&targets(&table, 0), PairClass::CrossLeaf).is_empty());
    assert_eq!(table.totals.pairs.get("same_leaf"), None);
}

#[test]
fn an_address_that_two_ports_claim_is_used_by_neither() {
    let twice = SMALL.offers(|host, _, port| {
        if host == 7 {
            port.address = SMALL.port(0, 0).address;
        } else if host == 8 {
            port.address = vec![224, 0, 0, 1];
        } else if host == 9 {
            port.address.clear();
        }
    });
    let table = plan(&twice, &SMALL.topology(), &Demand::default(), &Probes::default(), 0);
    let unused: Vec<_> = table.totals.unused.iter().map(|(host, _, why)| (&**host, why.name())).collect();
    let shared = "address_shared";
    assert_eq!(
        unused,
        [("gpu-0000", shared), ("gpu-0007", shared), ("gpu-0008", "not_unicast"), ("gpu-0009", "no_address")]
    );
    let all: HashSet<String> = (0..18).flat_map(|host| targets(&table, host)).map(|target| target.host).collect();
    assert_eq!((all.len(), all.contains(&name(0)), targets(&table, 0).len()), (14, false, 0));
}

/// Queue pairs from host 0 to hosts 6 and 12, three times as many to the second.
fn demand() -> Demand {
    let port = |host: usize| PortName { node: name(host), port: "mlx5_0/1".to_owned() };
    let flow = |to: usize, n: u32| FlowName { from: port(0), to: port(to), source_port: Some(50_000 + n as u16) };
    let flows: QueuePairFlows = (0..4).map(|n| (n, flow(if n == 0 { 6 } else { 12 }, n))).collect();
    let of = |host: usize| (name(host), "mlx5_0/1".to_owned());
    let bytes = [0, 6, 12].map(|host| (of(host), [1e9, 1e9]));
    Demand { flows: HashMap::from([(of(0), Arc::new(flows))]), bytes: HashMap::from(bytes), ..Demand::default() }
}

#[test]
fn pairs_of_jobs_come_first_with_the_ports_of_their_queue_pairs() {
    let table = plan(&SMALL.offers(no_change), &SMALL.topology(), &demand(), &Probes::default(), 0);
    let own = targets(&table, 0);
    let jobs: Vec<(&str, &[u32], bool)> =
        own.iter().take(2).map(|t| (t.host.as_str(), t.source_ports.as_slice(), t.tcp_twin)).collect();
    assert_eq!(jobs, [("gpu-0006", &[50_000][..], true), ("gpu-0012", &[50_001, 50_002, 50_003], true)]);
    assert!(own[..2].iter().all(|target| target.class() == PairClass::Job));
    let back = targets(&table, 12);
    let back = back.iter().find(|target| target.host == name(0)).unwrap();
    assert_eq!(back.source_ports, [50_001, 50_002, 50_003], "answers carry the same ports");
}

#[test]
fn suspects_are_probed_ten_times_as_often_and_all_bounds_hold() {
    let suspects = HashSet::from([(name(0), "mlx5_0/1".to_owned())]);
    let usual = plan(&SMALL.offers(no_change), &SMALL.topology(), &demand(), &Probes::default(), 0);
    let dense = Demand { suspects, ..demand() };
    let dense = plan(&SMALL.offers(no_change), &SMALL.topology(), &dense, &Probes::default(), 0);
    let pace = |table: &PlanTable| {
        let target = targets(table, 0).into_iter().find(|target| target.host == name(12)).unwrap();
        (target.probe_every_ms, target.trace_every_ms)
    };
    assert!(
        pace(&dense).0 < pace(&usual).0 && pace(&dense).1 < pace(&usual).1,
        "{:?} {:?}",
        pace(&dense),
        pace(&usual)
    );
    for (table, settings) in [
        (&dense, Probes::default()),
        (
            &plan(
                &SMALL.offers(no_change),
                &SMALL.topology(),
                &demand(),
                &Probes { per_fabric: 5, ..Probes::default() },
                0,
            ),
            Probes { per_fabric: 5, ..Probes::default() },
        ),
    ] {
        let mut sent: BTreeMap<String, f64> = BTreeMap::new();
        let mut received: BTreeMap<String, f64> = BTreeMap::new();
        for host in 0..18 {
            for target in targets(table, host).iter().filter(|target| target.probe_every_ms > 0) {
                let rate = 1e3 / f64::from(target.probe_every_ms) * if target.tcp_twin { 2.0 } else { 1.0 };
                *sent.entry(name(host)).or_default() += rate;
                *received.entry(target.host.clone()).or_default() += rate;
            }
        }
        let most = |rates: &BTreeMap<String, f64>| rates.values().copied().fold(0.0, f64::max);
        assert!(most(&sent) <= f64::from(settings.per_port) + 1e-6, "{sent:?}");
        assert!(most(&received) <= f64::from(settings.per_port) + 1e-6, "{received:?}");
        assert!(sent.values().sum::<f64>() <= f64::from(settings.per_fabric) + 1e-6);
    }
    let none = Probes { per_fabric: 0, traces_per_leaf: 0, ..Probes::default() };
    let none = plan(&SMALL.offers(no_change), &SMALL.topology(), &demand(), &none, 0);
    assert_eq!((0..18).map(|host| targets(&none, host).len()).sum::<usize>(), 0, "zero means none");
}

#[test]
fn ports_on_unknown_leaves_are_sampled_until_traces_tell() {
    let table = plan(&SMALL.offers(no_change), &Topology::default(), &Demand::default(), &Probes::default(), 0);
    let own = targets(&table, 0);
    assert!(!own.is_empty() && own.iter().all(|target| target.class() == PairClass::Unknown));
    let lids = SMALL.offers(|host, _, port| (port.address, port.lid) = (Vec::new(), host as u32 + 1));
    let table = plan(&lids, &Topology::default(), &Demand::default(), &Probes::default(), 0);
    assert_eq!(targets(&table, 0).len(), 0, "nothing says that they are in one subnet");
    let table = plan(&lids, &SMALL.topology(), &Demand::default(), &Probes::default(), 0);
    let own = targets(&table, 0);
    assert!(
        own.iter().all(|t| t.source_ports.is_empty() && t.trace_every_ms == 0 && t.probe_every_ms > 0) && own.len() > 5
    );
}

#[test]
fn fixed_source_ports_are_the_only_ones() {
    let fixed = SMALL.offers(|host, _, port| port.source_ports = vec![49_200 + host as u32, 49_300 + host as u32]);
    let table = plan(&fixed, &SMALL.topology(), &Demand::default(), &Probes::default(), 0);
    let own = targets(&table, 0);
    let remote = own.iter().find(|target| target.class() == PairClass::CrossLeaf && target.probe_every_ms > 0).unwrap();
    assert!(remote.source_ports.contains(&49_200) && remote.source_ports.contains(&49_300));
    let to = remote.to.clone().unwrap();
    let planned = table.pair(&name(0), ["mlx5_0/1", &remote.host, &to.name]).unwrap();
    assert_eq!(planned.answer.map(u32::from), Some(to.source_ports[0]));
    assert!(table.pair(&name(0), ["mlx5_0/1", "gpu-9999", "mlx5_0/1"]).is_none());
}

#[test]
fn a_host_that_exchanges_with_ten_thousand_has_a_bounded_plan() {
    let fleet = Fleet { leaves: 320, hosts: 32, rails: 1, spines: 4 };
    let port = |host: usize| PortName { node: name(host), port: "mlx5_0/1".to_owned() };
    let flow = |to: usize| FlowName { from: port(0), to: port(to), source_port: Some(50_000 + to as u16 % 10_000) };
    let flows: QueuePairFlows = (1..=10_000).map(|n| (n as u32, flow(n))).collect();
    let of = (name(0), "mlx5_0/1".to_owned());
    let demand = Demand { flows: HashMap::from([(of, Arc::new(flows))]), ..Demand::default() };
    let table = plan(&fleet.offers(no_change), &fleet.topology(), &demand, &Probes::default(), 0);
    let own = targets(&table, 0);
    assert_eq!(of_class_count(&own), [16, 5, 0], "its neighbors on the leaf are among the job's pairs");
    PlanReply { lasts_ms: 1, targets: own }.check().unwrap();
}

/// Pairs with a class that are probed: of jobs, between leaves, within the leaf.
fn of_class_count(targets: &[Target]) -> [usize; 3] {
    use PairClass::{CrossLeaf, Job, SameLeaf};
    [Job, CrossLeaf, SameLeaf].map(|class| of(targets, class).iter().filter(|t| t.probe_every_ms > 0).count())
}

/// Two thousand hosts with eight ports. Prints time and bytes.
#[test]
fn a_large_fleet_is_planned_in_bounded_time_and_memory() {
    let (offers, topology) = (LARGE.offers(no_change), LARGE.topology());
    let demand = LARGE.demand();
    let began = Instant::now();
    let settings = Probes::default();
    let table = plan(&offers, &topology, &demand, &settings, 0);
    let (took, totals) = (began.elapsed(), &table.totals);
    println!(
        "{} ports: {took:?}, {} bytes, {:.0} probes/s, {:.0} traces/s, pairs {:?}",
        totals.ports, totals.bytes, totals.probes_per_s, totals.traces_per_s, totals.pairs
    );
    assert!(totals.probes_per_s <= f64::from(settings.per_fabric) * 1.001);
    assert!(totals.bytes < 100 << 20 && totals.left_out == 0 && totals.ports == 16_128);
}

#[test]
fn packets_have_the_class_of_the_ports_queue_pairs_unless_one_is_configured() {
    let offers = SMALL.offers(|host, _, port| port.traffic_class = (host == 0).then_some(106));
    let classes = |settings: &Probes, host| -> BTreeSet<u32> {
        let table = plan(&offers, &SMALL.topology(), &Demand::default(), settings, 0);
        targets(&table, host).iter().map(|target| target.traffic_class).collect()
    };
    let settings = Probes::default();
    assert_eq!([classes(&settings, 0), classes(&settings, 1)], [BTreeSet::from([106]), BTreeSet::from([0])]);
    let settings = Probes { traffic_class: Some(104), ..settings };
    assert_eq!([classes(&settings, 0), classes(&settings, 1)], [BTreeSet::from([104]), BTreeSet::from([104])]);
}

#[test]
fn infiniband_probes_have_the_configured_service_level() {
    let offers = SMALL.offers(|host, _, port| {
        port.address.clear();
        port.lid = 1 + host as u32;
    });
    let levels = |service_level| -> BTreeSet<u32> {
        let settings = Probes { service_level, ..Probes::default() };
        let table = plan(&offers, &SMALL.topology(), &Demand::default(), &settings, 0);
        targets(&table, 0).iter().map(|target| target.service_level).collect()
    };
    assert_eq!([levels(Some(3)), levels(None)], [BTreeSet::from([3]), BTreeSet::from([0])]);
    let told = |service_level| {
        let settings = Probes { service_level, ..Probes::default() };
        let host = crate::status::host(&offers[0], &Totals::default(), &settings, None);
        (host.ports[0].service_level, host.ports[0].level_source, host.ports[0].traffic_class)
    };
    assert_eq!(told(Some(3)), (Some(3), Some("probes.service_level"), None));
    assert_eq!(told(None), (Some(0), Some("unknown, so 0"), None));
}

#[test]
fn pairs_over_a_suspect_link_are_probed_more_and_every_second_probe_crosses_it() {
    let offers = SMALL.offers(no_change);
    let usual = plan(&offers, &SMALL.topology(), &Demand::default(), &Probes::default(), 0);
    let before = targets(&usual, 0);
    let target = of(&before, PairClass::CrossLeaf)[0].clone();
    let own = |host: &str| (host.to_owned(), "mlx5_0/1".to_owned());
    let suspect = u16::try_from(target.source_ports[0]).unwrap();
    let pair = (own(&name(0)), own(&target.host));
    // A source port that the plan does not have (any more) and a pair that it never had.
    let gone = (own(&name(0)), own("gone"));
    let suspect_flows = HashMap::from([(pair, vec![suspect, 7]), (gone, vec![suspect])]);
    let demand = Demand { suspect_flows, ..Demand::default() };
    let table = plan(&offers, &SMALL.topology(), &demand, &Probes::default(), 0);
    let after = targets(&table, 0);
    let dense = after.iter().find(|other| other.host == target.host).unwrap();
    assert!(dense.probe_every_ms <= target.probe_every_ms / 5, "{dense:?}");
    assert!(dense.tcp_twin && dense.trace_every_ms == 20_000);
    assert_eq!(after[0].host, target.host, "it comes first");
    let crossing = dense.source_ports.iter().filter(|port| **port == u32::from(suspect)).count();
    assert_eq!(crossing * 2, dense.source_ports.len(), "{:?}", dense.source_ports);
    let all = |ports: &[u32]| ports.iter().copied().collect::<BTreeSet<u32>>();
    assert_eq!(all(&dense.source_ports), all(&target.source_ports), "no source port is left out or added");
    let rate = |targets: &[Target]| {
        let each = targets.iter().filter(|t| t.probe_every_ms > 0);
        each.map(|t| (1.0 + f64::from(u8::from(t.tcp_twin))) * 1e3 / f64::from(t.probe_every_ms)).sum::<f64>()
    };
    assert!(rate(&after) <= 20.01, "{} probes a second from a port", rate(&after));
    assert!(rate(&after) > rate(&before) + 5.0);
}
