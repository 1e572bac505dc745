//! A port of an mlx5 goes down and comes back: state, reason and counts follow, and the other port is unaffected.

use super::watched::{Hca, port};
use super::{Lab, Scenario};
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-port",
    shows: "a port going down and up: state, down reason, link counts; the other port unmoved",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// ETHTOOL_LINK_EXT_STATE_NO_CABLE.
const NO_CABLE: u32 = 4;

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    let state = port("hca1", "mlx5_0", "fabric_port_state", "");
    let start = hca.guest.now_ns()?;
    hca.drive(&format!("mlx5_0 reason {NO_CABLE}\nmlx5_0 state down"))?;
    let seen = lab.wait("the port to be down", Duration::from_secs(60), || {
        let points = hca.collector.points(&state, 60)?;
        Ok(points.into_iter().find(|point| point.0 >= start && point.1 == 1.0).map(|point| point.0))
    })?;
    lab.say(&format!("down sampled {} ms after it was told to go", (seen - start) / 1_000_000));
    ensure!(hca.settled(lab, &port("hca1", "mlx5_0", "fabric_port_up", ""))? == 0.0, "fabric_port_up of a dead port");
    let reason = port("hca1", "mlx5_0", "fabric_netdev_down_reason", "reason=\"no_cable\"");
    ensure!(hca.settled(lab, &reason)? == 1.0, "the down reason");
    let other = hca.settled(lab, &port("hca1", "mlx5_1", "fabric_port_state", ""))?;
    ensure!(other == 4.0, "the other port's state is {other}");
    hca.drive("mlx5_0 state active")?;
    let active = lab.wait("the port to be active again", Duration::from_secs(60), || {
        Ok(hca.collector.newest(&state, hca.guest.now_ns()? - 1_000_000_000)?.filter(|&value| value == 4.0))
    })?;
    ensure!(active == 4.0, "state after coming back");
    let downs = hca.collector.query(&port("hca1", "mlx5_0", "fabric_link_downs_total", ""))?;
    ensure!(
        downs.iter().any(|series| series.points.last().is_some_and(|point| point.1 == 1.0)),
        "link downs: {downs:?}"
    );
    Ok(())
}
