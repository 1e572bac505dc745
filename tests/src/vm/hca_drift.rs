//! One of three hosts is set to another PFC priority while the agents run: the audit names its port and the time, and forgets it when the
//! setting is right again.

use super::watched::{load, port, set_pfc};
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::config::Config;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "hca-drift",
    shows: "PFC of one host of three is moved to another priority: named with the time of the change; moved back: over",
    limit: Duration::from_secs(300),
    often: false,
    alone: true,
    run,
};

/// Time in which a change must be named: less than the thirty seconds between two regular readings of settings, because the kernel
/// notifies the agent of a change.
const NAMED: Duration = Duration::from_secs(20);
/// Time that differs between the guest's clock and this one, and between two readings of a setting.
const ACCURACY: Duration = Duration::from_secs(15);

const GUESTS: [&str; 3] = ["hca1", "hca2", "hca3"];

fn drifts(collector: &Collector) -> Result<Vec<Value>> {
    let report = collector.get("/api/v1/audit?setting=pfc_priorities")?;
    report["data"]["drifts"].as_array().cloned().context("an answer without drifts")
}

fn run(lab: &Lab) -> Result<()> {
    let collector = Collector::start(&lab.programs.collector, lab.folder())?;
    let configs = [1, 2, 3].map(|number| Config::new(GUESTS[usize::from(number) - 1], number, "hca").cards(2));
    let guests = lab.boot(&configs)?;
    for guest in &guests {
        load(guest)?;
        agent::start_as(guest, &lab.programs.agent, &collector, "")?;
    }
    for name in GUESTS {
        let state = port(name, "mlx5_1", "fabric_pfc_enabled", "priority=\"3\"");
        lab.wait("PFC on priority 3", Duration::from_secs(60), || {
            Ok(collector.points(&state, 60)?.last().filter(|point| point.1 == 1.0).map(drop))
        })?;
    }
    lab.wait("the audit of all ports", Duration::from_secs(60), || {
        let report = collector.get("/api/v1/audit")?;
        let compared = report["data"]["compared"].as_u64().unwrap_or_default();
        Ok((compared >= 6).then_some(()))
    })?;
    ensure!(drifts(&collector)?.is_empty(), "equal hosts differ: {:?}", drifts(&collector)?);

    // As on hosts that have been up for a while: the time of a change is found in samples from before it.
    std::thread::sleep(Duration::from_secs(35));
    let changed_ns = guests[1].now_ns()?;
    set_pfc(&guests[1], "all:off 5:on")?;
    let began = Instant::now();
    let drift = lab.wait("the drift", NAMED, || Ok(drifts(&collector)?.pop()))?;
    let took = began.elapsed();
    for (field, wanted) in
        [("host", "hca2"), ("port", "mlx5_0/1"), ("value", "5"), ("expected", "3"), ("severity", "critical")]
    {
        ensure!(drift[field] == wanted, "{field} is {}, not {wanted}: {drift}", drift[field]);
    }
    ensure!(drift["changed"]["before"] == "3", "the value before: {drift}");
    let since_ms = drift["changed"]["since_ms"].as_u64().context("the time of the change")?;
    let off = (since_ms * 1_000_000).abs_diff(changed_ns);
    ensure!(off <= ACCURACY.as_nanos() as u64, "changed at {since_ms} ms, really at {changed_ns} ns");
    lab.say(&format!(
        "named after {:.1} s, with a time of change {:.1} s off; {}",
        took.as_secs_f64(),
        off as f64 / 1e9,
        drift["reason"]
    ));
    ensure!(drifts(&collector)?.len() == 1, "one port differs: {:?}", drifts(&collector)?);

    set_pfc(&guests[1], "all:off 3:on")?;
    let began = Instant::now();
    lab.wait("the end of the drift", NAMED, || Ok(drifts(&collector)?.is_empty().then_some(())))?;
    lab.say(&format!("over {:.1} s after it was set back", began.elapsed().as_secs_f64()));
    Ok(())
}
