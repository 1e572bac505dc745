//! Paths through leaves and spines, by the routers' counters, the kernel's routes, replies to short TTLs and agents' traces.

use super::leaf_spine::{LeafSpine, counted, traffic};
use super::probed_fabric::PROBES;
use super::{Lab, Scenario};
use crate::lab::routers::{SPINES, TWO_LEAVES, Trunk, gateway, host_address};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "paths",
    shows: "source ports over two spines: counters of the routers, routes of the kernel, replies to short TTLs, the API's traces",
    limit: Duration::from_secs(420),
    often: false,
    alone: true,
    run,
};

/// Connected queue pairs, so source ports, of the traffic.
const QUEUE_PAIRS: u32 = 16;

fn run(lab: &Lab) -> Result<()> {
    let fabric = LeafSpine::start(lab, TWO_LEAVES)?;
    spread(lab, &fabric)?;
    replies(lab, &fabric)?;
    quiet(lab, &fabric)?;
    traced(lab, &fabric)?;
    lab.say(&format!("memory of the guests: {} MiB", fabric.memory()?));
    Ok(())
}

/// Each queue pair keeps one source port, each source port one spine, and the kernel's route says which.
fn spread(lab: &Lab, fabric: &LeafSpine) -> Result<()> {
    fabric.routers.reset_counters()?;
    traffic(fabric, 1, 3, QUEUE_PAIRS, 20)?;
    let seen = counted(fabric, 1)?;
    let ports: BTreeSet<u16> = seen.iter().map(|one| one.0).collect();
    ensure!(ports.len() == seen.len(), "source ports that took both spines: {seen:?}");
    ensure!(
        ports.len() == QUEUE_PAIRS as usize,
        "{QUEUE_PAIRS} queue pairs had {} source ports: {seen:?}",
        ports.len()
    );
    let chosen = fabric.routers.chosen(1, 3, &ports.into_iter().collect::<Vec<_>>())?;
    for (port, spine, packets) in &seen {
        ensure!(
            chosen[port] == *spine,
            "port {port}: {packets} packets by spine {spine}, the route says {}",
            chosen[port]
        );
    }
    let shares = SPINES.map(|spine| seen.iter().filter(|one| one.1 == spine).count());
    ensure!(shares.iter().all(|share| *share > 0), "all source ports took one spine: {seen:?}");
    lab.say(&format!(
        "{QUEUE_PAIRS} source ports: {} by spine 1, {} by spine 2, as the routes say",
        shares[0], shares[1]
    ));
    Ok(())
}

/// All routers of a path answer packets whose TTL ends there, by the port at which the packet came in.
fn replies(lab: &Lab, fabric: &LeafSpine) -> Result<()> {
    let told = fabric.host(1).sh(&format!("traceroute -n -p 40000 -q 20 -w 2 -m 3 {}", host_address(3)))?;
    let hop = |number: usize| -> Result<BTreeSet<String>> {
        let line = told.lines().find(|line| line.trim_start().starts_with(&format!("{number} ")));
        let words = line.with_context(|| format!("no hop {number}: {told}"))?.split_whitespace().skip(1);
        Ok(words.filter(|word| word.starts_with("10.7")).map(str::to_owned).collect())
    };
    let set = |addresses: Vec<String>| addresses.into_iter().collect::<BTreeSet<_>>();
    let spines = set(SPINES.map(|spine| Trunk { leaf: 1, spine }.spine_address()).to_vec());
    let far = set(SPINES.map(|spine| Trunk { leaf: 2, spine }.leaf_address()).to_vec());
    for (number, expected) in [(1, set(vec![gateway(1)])), (2, spines), (3, far)] {
        ensure!(hop(number)? == expected, "hop {number} is {:?}, not {expected:?}: {told}", hop(number)?);
    }
    lab.say("leaf, both spines and leaf answer short TTLs, each by the port at which the packet came in");
    Ok(())
}

/// Time for which agents with the default configuration are watched.
const WATCHED: Duration = Duration::from_secs(20);

/// Agents with the default configuration send nothing on the fabric.
fn quiet(lab: &Lab, fabric: &LeafSpine) -> Result<()> {
    fabric.start_agents(lab, "")?;
    lab.wait("ports of all hosts", Duration::from_secs(60), || {
        Ok((fabric.collector.query("fabric_port_state == 4")?.len() == fabric.hosts.len()).then_some(()))
    })?;
    fabric.routers.reset_counters()?;
    std::thread::sleep(WATCHED);
    let sent = fabric.routers.from_hosts()?;
    ensure!(sent == 0, "{sent} packets were sent on the fabric by agents without [probes]");
    // The counter counts: the same packet that every check above relies on.
    fabric.host(1).sh(&format!("ping -c 1 -W 5 {}", host_address(3)))?;
    let sent = fabric.routers.from_hosts()?;
    ensure!(sent == 2, "a ping and its answer are 2 packets from hosts, counted were {sent}");
    lab.say(&format!("no packet from agents without [probes] in {} s", WATCHED.as_secs()));
    Ok(())
}

/// Time in which agents trace, and in which the routers count a packet of each source port.
const TRACES: Duration = Duration::from_secs(120);

/// A traced path over the spines: hosts, source port and spine.
struct OverSpine {
    from: u8,
    to: u8,
    source_port: u16,
    spine: u8,
}

/// The spine by which the collector says that each source port leaves leaf 1 is the one by which the leaf sends its packets.
fn traced(lab: &Lab, fabric: &LeafSpine) -> Result<()> {
    fabric.end_agents()?;
    fabric.start_agents(lab, PROBES)?;
    let mut seen = String::new();
    let paths = lab.wait("traced paths between the leaves", TRACES, || {
        let paths = over_spines(fabric)?;
        seen = format!("{} paths", paths.len());
        // Soft-RoCE has eight source ports; each of two hosts reaches two others.
        Ok((paths.len() >= 16 && SPINES.iter().all(|spine| paths.iter().any(|path| path.spine == *spine)))
            .then_some(()))
    });
    paths.with_context(|| seen.clone())?;
    fabric.routers.reset_counters()?;
    let mut differs = String::new();
    let counts = lab.wait("packets of each source port by the spine that the traces say", TRACES, || {
        let mut told: BTreeMap<u16, BTreeSet<u8>> = BTreeMap::new();
        for path in over_spines(fabric)? {
            told.entry(path.source_port).or_default().insert(path.spine);
        }
        let counted: BTreeSet<(u16, u8)> = counted(fabric, 1)?.iter().map(|one| (one.0, one.1)).collect();
        let missing: Vec<_> = told
            .iter()
            .flat_map(|(port, spines)| spines.iter().map(|spine| (*port, *spine)))
            .filter(|one| !counted.contains(one))
            .collect();
        differs = format!("told but not counted: {missing:?}; counted: {counted:?}");
        Ok(missing.is_empty().then_some(counted.len()))
    });
    let counts = counts.with_context(|| differs.clone())?;
    let paths = over_spines(fabric)?;
    for OverSpine { from, to, source_port, spine } in &paths {
        let chosen = fabric.routers.chosen(*from, *to, &[*source_port])?[source_port];
        ensure!(
            chosen == *spine,
            "h{from} to h{to}, port {source_port}: traced by spine {spine}, the route says {chosen}"
        );
    }
    let shown = fabric.collector.shell(&lab.programs.collector, ["probes", "--host=h1"])?;
    let first = paths.iter().find(|path| path.from == 1).context("no path from h1")?;
    let hop = format!("leaf1[h1>spine{0}] spine{0}[leaf1>leaf2] leaf2[", first.spine);
    let is_row = |line: &str| line.contains(&first.source_port.to_string()) && line.contains(&hop);
    ensure!(shown.lines().any(is_row), "no row with port {} and {hop}: {shown}", first.source_port);
    lab.say(&format!(
        "{} traced paths from leaf 1 over the spines: as its routes say, and its counters ({counts} of source port and spine)",
        paths.len()
    ));
    Ok(())
}

/// Traced paths from the hosts of leaf 1 to those of leaf 2, as the API has them.
fn over_spines(fabric: &LeafSpine) -> Result<Vec<OverSpine>> {
    let mut paths = Vec::new();
    for from in [1_u8, 2] {
        let told = fabric.collector.get(&format!("/api/v1/probes?host=h{from}"))?;
        for trace in told["data"]["hosts"][0]["traces"].as_array().into_iter().flatten() {
            let egress = trace["hops"][0]["egress"].as_str().and_then(|port| port.strip_prefix("spine"));
            let (Some(spine), Some(true)) = (egress, trace["is_path"].as_bool()) else { continue };
            let to = trace["host"].as_str().and_then(|host| host.strip_prefix('h')).context("no host")?.parse()?;
            let source_port = trace["source_port"].as_u64().context("no source port")?.try_into()?;
            paths.push(OverSpine { from, to, source_port, spine: spine.parse()? });
        }
    }
    Ok(paths)
}
