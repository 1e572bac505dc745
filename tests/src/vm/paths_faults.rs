//! Trunks that lose, delay or are down: the collector names the link from probes and traced paths, without counters of switches.

use super::probed_fabric::{PROBES, Probed, is_at, told};
use super::{Lab, Scenario};
use crate::lab::routers::{Routers, THREE_LEAVES, Trunk};
use anyhow::{Context, Result, bail, ensure};
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "paths-faults",
    shows: "a trunk that loses 2 %, delays 5 ms, is down, or loses only RDMA: the link that is named",
    limit: Duration::from_secs(900),
    often: false,
    alone: true,
    run,
};

/// Time in which an incident must open, or end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fault of a trunk.
struct Fault {
    name: &'static str,
    trunk: Trunk,
    inject: fn(&Routers, Trunk) -> Result<()>,
    mend: fn(&Routers, Trunk) -> Result<()>,
    /// Correct kinds.
    right: &'static [&'static str],
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "down",
        trunk: Trunk { leaf: 1, spine: 2 },
        inject: |routers, trunk| routers.set_trunk(trunk, false),
        mend: |routers, trunk| routers.set_trunk(trunk, true),
        right: &["link_down", "link_flap"],
    },
    Fault {
        name: "loses 2 %",
        trunk: Trunk { leaf: 2, spine: 1 },
        inject: |routers, trunk| routers.impair(trunk, "loss 2%"),
        mend: Routers::mend,
        right: &["lossy_link", "transport_errors"],
    },
    Fault {
        name: "delays 5 ms",
        trunk: Trunk { leaf: 1, spine: 1 },
        inject: |routers, trunk| routers.impair(trunk, "delay 5ms"),
        mend: Routers::mend,
        right: &["degraded_link", "ecmp_collision"],
    },
    Fault {
        name: "loses RDMA only",
        trunk: Trunk { leaf: 1, spine: 2 },
        inject: |routers, trunk| routers.drop_packets(&trunk.ends()[1].0, &roce_to(trunk)),
        mend: |routers, trunk| routers.allow(&trunk.ends()[1].0).map(drop),
        right: &["transport_errors"],
    },
];

/// RoCE packets that a spine sends to the leaf of a trunk.
fn roce_to(trunk: Trunk) -> String {
    format!("oifname {} udp dport 4791", trunk.ends()[1].1)
}

fn run(lab: &Lab) -> Result<()> {
    let probed = Probed::boot(lab, THREE_LEAVES)?;
    probed.fabric.start_agents(lab, PROBES)?;
    probed.settle(lab)?;
    probed.start_job(lab, &[(1, 3), (2, 4)])?;
    lab.say(&format!("plans: {}", probed.summary()?));
    // A baseline.
    probed.blames_no_network("nothing was done", Duration::from_secs(60))?;
    let mut wrong = Vec::new();
    for fault in FAULTS {
        if let Err(error) = judge(lab, &probed, fault) {
            lab.say(&format!("trunk that {}: {error:#}", fault.name));
            wrong.push(fault.name);
        }
    }
    ensure!(wrong.is_empty(), "not named, or named wrongly: {}", wrong.join(", "));
    Ok(())
}

fn judge(lab: &Lab, probed: &Probed, fault: &Fault) -> Result<()> {
    let ended = || Ok(probed.incidents()?.iter().all(|one| one["state"] == "ended").then_some(()));
    lab.wait("the end of all incidents before", PATIENCE, ended)?;
    let known = probed.known()?;
    let start = Instant::now();
    (fault.inject)(&probed.fabric.routers, fault.trunk)?;
    let right = |kind: &str| fault.right.contains(&kind);
    let named = lab.wait("an incident that names the trunk", PATIENCE, || {
        let fresh = probed.fresh(&known)?;
        Ok(fresh.into_iter().find(|one| is_at(one, fault.trunk) && one["kind"].as_str().is_some_and(right)))
    });
    let took = start.elapsed();
    (fault.mend)(&probed.fabric.routers, fault.trunk).context("ending the fault")?;
    let others: Vec<String> = probed.fresh(&known)?.iter().filter(|one| !is_at(one, fault.trunk)).map(told).collect();
    let named = named.with_context(|| format!("told instead: {others:?}"))?;
    lab.say(&format!("trunk that {}, after {:.0} s: {}", fault.name, took.as_secs_f64(), told(&named)));
    if !others.is_empty() {
        bail!("other places are blamed beside it: {others:?}");
    }
    Ok(())
}
