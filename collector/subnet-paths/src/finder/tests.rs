use super::*;
use crate::SubnetPaths;
use crate::fabric::{end, request, told};
use fabriclens_base::Sender;
use fabriclens_forwarding_tables::{Adaptive, Cable, LASTS, Lanes, SwitchTables, TellRequest};
use std::time::Instant;

/// Ports of the paths between two hosts as `node:port`, in a fabric that was told with changes.
fn ways(change: impl Fn(&mut TellRequest), from: usize, to: usize) -> Result<Vec<String>, PathError> {
    let mut request = request();
    change(&mut request);
    let found = told(request).finder(Instant::now()).paths(&end(from), &end(to))?;
    let words = |way: &Vec<crate::Hop>| {
        way.iter().map(|hop| format!("{}:{}", hop.node, hop.port)).collect::<Vec<_>>().join(" ")
    };
    let mark = if found.is_exact() { "" } else { "? " };
    Ok(found.all.iter().map(|way| format!("{mark}{}", words(way))).collect())
}

/// Changes one entry of a switch's table.
fn set(request: &mut TellRequest, switch: usize, lid: usize, port: u8) {
    let mut table = request.switches[switch].table.to_vec();
    table[lid] = port;
    request.switches[switch].table = table.into();
}

#[test]
fn paths_follow_the_tables() {
    assert_eq!(ways(|_| {}, 1, 3).unwrap(), ["node1:mlx5_0/1 leaf1:3 spine1:2 leaf2:1"]);
    assert_eq!(ways(|_| {}, 1, 4).unwrap(), ["node1:mlx5_0/1 leaf1:4 spine2:2 leaf2:2"]);
    assert_eq!(ways(|_| {}, 3, 1).unwrap(), ["node3:mlx5_0/1 leaf2:3 spine1:1 leaf1:1"]);
    assert_eq!(ways(|_| {}, 1, 2).unwrap(), ["node1:mlx5_0/1 leaf1:2"], "at one leaf");
}

#[test]
fn adaptive_routing_takes_one_of_the_shortest_paths() {
    let adaptive = |switch: usize, how: Adaptive| move |r: &mut TellRequest| r.switches[switch].adaptive = how as i32;
    let both = ["? node1:mlx5_0/1 leaf1:3 spine1:2 leaf2:1", "? node1:mlx5_0/1 leaf1:4 spine2:2 leaf2:1"];
    assert_eq!(ways(adaptive(0, Adaptive::On), 1, 3).unwrap(), both);
    assert_eq!(ways(adaptive(0, Adaptive::Unknown), 1, 3).unwrap(), both, "who does not say may route adaptively");
    assert_eq!(
        ways(adaptive(0, Adaptive::On), 1, 2).unwrap(),
        ["node1:mlx5_0/1 leaf1:2"],
        "no choice at the last leaf"
    );
    assert_eq!(ways(adaptive(1, Adaptive::On), 1, 3).unwrap(), [both[0].trim_start_matches("? ")], "it only receives");
}

#[test]
fn several_lids_are_several_paths() {
    // LIDs 4 and 5 of node4 take different spines.
    let several = |r: &mut TellRequest| {
        r.adapters[3].lmc = 1;
        for (switch, port) in [(0, 3), (1, 2), (2, 2), (3, 2)] {
            r.switches[switch].table = [&r.switches[switch].table[..], &[port]].concat().into();
        }
    };
    let want = ["? node1:mlx5_0/1 leaf1:3 spine1:2 leaf2:2", "? node1:mlx5_0/1 leaf1:4 spine2:2 leaf2:2"];
    assert_eq!(ways(several, 1, 4).unwrap(), want);
    let alike = |r: &mut TellRequest| {
        several(r);
        set(r, 0, 5, 4);
    };
    assert_eq!(ways(alike, 1, 4).unwrap(), ["node1:mlx5_0/1 leaf1:4 spine2:2 leaf2:2"]);
}

#[test]
fn tables_that_lead_nowhere_are_said_in_words() {
    let error = |change: &dyn Fn(&mut TellRequest)| ways(change, 1, 3).unwrap_err().to_string();
    assert_eq!(error(&|r| set(r, 2, 3, 255)), "spine1 has no route to LID 3");
    assert_eq!(error(&|r| r.switches[1].table.truncate(3)), "leaf2 has no route to LID 3");
    assert_eq!(error(&|r| set(r, 2, 3, 1)), "the forwarding tables lead in a circle on the way to LID 3");
    assert_eq!(error(&|r| set(r, 0, 3, 2)), "the path to LID 3 ends at leaf1 port 2", "an adapter");
    assert_eq!(error(&|r| r.switches[0].cables.retain(|c| c.port != 3)), "the path to LID 3 ends at leaf1 port 3");
    assert_eq!(error(&|r| set(r, 1, 3, 2)), "the path to LID 3 ends at leaf2 port 2", "another host");
    assert!(error(&|r| r.switches[1].cables.retain(|c| c.port > 2)).contains("node3 port mlx5_0/1 is connected to no"));
    assert!(error(&|r| r.adapters[2].host = "other".into()).contains("node3 port mlx5_0/1 is in no InfiniBand subnet"));
    let twins = |r: &mut TellRequest| r.adapters[3].host = "node3".into();
    assert!(error(&twins).contains("is in no InfiniBand subnet"), "two ports have this name");
}

#[test]
fn ports_are_found_by_their_cable_too() {
    let finder = told(request()).finder(Instant::now());
    let by_cable = Endpoint { host: "gpu-7.example".into(), attached: Some(("leaf2".into(), "1".into())), ..end(3) };
    let found = finder.paths(&end(1), &by_cable).unwrap();
    assert_eq!(found, finder.paths(&end(1), &end(3)).unwrap());
    let unknown = Endpoint { attached: Some(("leaf9".into(), "x".into())), ..by_cable };
    assert!(finder.paths(&end(1), &unknown).is_err());
}

#[test]
fn lanes_are_those_of_the_ingress_port_or_marked() {
    let mut request = request();
    let lanes = |ingress, by_service_level| Lanes { ingress, egress: 3, by_service_level };
    request.switches[0].lanes = vec![lanes(2, 0x10), lanes(1, 0x3210)];
    request.switches[2].lanes = vec![Lanes { ingress: 2, egress: 2, by_service_level: 0x20 }];
    let found = told(request).finder(Instant::now()).paths(&end(1), &end(3)).unwrap();
    let of = |at: usize| found.all[0][at].lanes.map(|lanes| (lanes.all()[..4].to_vec(), lanes.is_exact));
    assert_eq!(
        [of(0), of(1), of(2), of(3)],
        [None, Some((vec![0, 1, 2, 3], true)), Some((vec![0, 2, 0, 0], false)), None]
    );
}

#[test]
fn old_tables_are_not_used() {
    let (paths, now) = (SubnetPaths::default(), Instant::now());
    paths.tell(Sender::Bound, request(), now, |_, _| true).unwrap();
    assert!(paths.is_usable(now) && !paths.is_usable(now + LASTS));
    assert_eq!(paths.finder(now + LASTS).paths(&end(1), &end(2)), Err(PathError::NoTables));
}

#[test]
fn a_search_among_dead_ends_is_bounded() {
    // Twelve layers of eight adaptive switches, each connected to all of the next layer; the last one leads nowhere.
    let guid = |layer: usize, n: usize| 0x1000 + (layer * 8 + n) as u64;
    let mut large = request();
    let template = large.switches[0].clone();
    large.switches.retain(|switch| switch.guid < 0x20);
    for switch in &mut large.switches {
        let (layer, own) = if switch.guid == 0x10 { (0, 1) } else { (11, 3) };
        switch.ports = 40;
        switch.adaptive = Adaptive::On as i32;
        switch.cables.retain(|cable| cable.port <= 2);
        let cable = |n: usize| Cable { port: 10 + n as u32, far_guid: guid(layer, n), far_port: 30 };
        switch.cables.extend((0..8).map(cable));
        // The tables alone lead from leaf to leaf by the first switch of each layer.
        switch.table = vec![255, own, own + 1, if own == 3 { 1 } else { 10 }, 10].into();
    }
    for (layer, n) in (0..12).flat_map(|layer| (0..8).map(move |n| (layer, n))) {
        let next = |m: usize| match layer {
            11 => Cable { port: 10, far_guid: 0x11, far_port: 10 },
            _ => Cable { port: 10 + m as u32, far_guid: guid(layer + 1, m), far_port: 20 + n as u32 },
        };
        // Only the first switch of the last layer knows the way, and one switch of each layer leads to it.
        let far = if layer == 11 { 0..1 } else { usize::from(n > 0)..8 };
        let back = |m: usize| match layer {
            0 => Cable { port: 30, far_guid: 0x10, far_port: 10 + n as u32 },
            _ => Cable { port: 20 + m as u32, far_guid: guid(layer - 1, m), far_port: 10 + n as u32 },
        };
        let near = 0..if layer == 0 || n == 0 { 1 } else { 8 };
        let cables = far.map(next).chain(near.map(back)).collect();
        let adaptive = if layer == 11 { Adaptive::Off } else { Adaptive::On } as i32;
        let table = vec![if layer == 11 && n > 0 { 255 } else { 10 }; 5].into();
        let name = format!("s{layer}-{n}");
        large.switches.push(SwitchTables {
            guid: guid(layer, n),
            name,
            ports: 40,
            table,
            cables,
            adaptive,
            ..template.clone()
        });
    }
    let paths = told(large);
    let began = Instant::now();
    let found = paths.finder(began).paths(&end(1), &end(3)).unwrap();
    assert!(!found.is_exact() && (1..=64).contains(&found.all.len()), "{}", found.all.len());
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

#[test]
fn one_finder_tells_the_paths_to_several_switches() {
    let mut request = request();
    request.switches.iter_mut().for_each(|switch| switch.adaptive = Adaptive::On as i32);
    let (paths, now) = (told(request), Instant::now());
    let one = paths.finder(now);
    for (from, to) in [(1, 3), (3, 1), (1, 4), (4, 2), (2, 1)] {
        let [from, to] = [end(from), end(to)];
        assert_eq!(one.paths(&from, &to), paths.finder(now).paths(&from, &to), "{from:?} to {to:?}");
    }
}
