//! Paths through leaves and spines: the network itself, then what the agents trace, against the routers' own counters.

use super::leaf_spine::{LeafSpine, counted, traffic};
use super::{Lab, Scenario};
use crate::lab::routers::{SPINES, TWO_LEAVES, Trunk, gateway, host_address};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "paths",
    shows: "source ports over two spines: counters of the routers, routes of the kernel, replies to short TTLs",
    limit: Duration::from_secs(300),
    run,
};

/// Connected queue pairs, so source ports, of the traffic.
const QUEUE_PAIRS: u32 = 16;

fn run(lab: &Lab) -> Result<()> {
    let fabric = LeafSpine::start(lab, TWO_LEAVES)?;
    spread(lab, &fabric)?;
    replies(lab, &fabric)?;
    quiet(lab, &fabric)?;
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
