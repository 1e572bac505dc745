//! An agent that sends once a minute reports a pause at once, so that its incident does not wait for the minute.

use super::watched::Hca;
use super::{Lab, Scenario};
use crate::lab::agent;
use anyhow::{Context, Result};
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "hca-urgent",
    shows: "pause of an agent that sends once a minute: its incident is open before the minute is over",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// Interval in which the agent sends, and how much earlier the incident must open.
const FLUSH: Duration = Duration::from_secs(60);
const SOONER: Duration = Duration::from_secs(5);

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    hca.guest.write(agent::CONFIG, &format!("[collector]\nflush = \"{}s\"\n", FLUSH.as_secs()))?;
    agent::end(&hca.guest)?;
    let begin = Instant::now();
    agent::restart(&hca.guest, &hca.collector)?;
    hca.guest.sh("until wget -qO- http://127.0.0.1:7471/metrics | grep -q fabric_pfc_pause; do sleep 0.5; done")?;
    hca.drive("mlx5_0 rate tx_prio3_pause_duration 300000")?;
    let driven = begin.elapsed();
    let left = (FLUSH - SOONER).checked_sub(driven).context("the guest is too slow: the minute is over")?;
    let seen = lab.wait("an open incident at hca1 mlx5_0/1", left, || {
        let answer = hca.collector.get("/api/v1/incidents?state=open")?;
        let found = answer["incidents"].as_array().into_iter().flatten();
        let here = |root: &serde_json::Value| root["node"] == "hca1" && root["port"] == "mlx5_0/1";
        Ok(found.filter(|one| here(&one["root"])).map(|one| one["kind"].to_string()).next())
    })?;
    let took = (begin.elapsed() - driven).as_secs_f64();
    lab.say(&format!("{seen} open {took:.1} s after the pause began; the agent sends each {} s", FLUSH.as_secs()));
    Ok(())
}
