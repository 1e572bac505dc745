//! PFC moves to another priority while the agent runs, so that the driver's list of statistics changes.

use super::watched::{Hca, port, set_pfc};
use super::{Lab, Scenario};
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-pfc-switch",
    shows: "PFC switched on and off at run time: series come and go, none takes another's value",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

fn frames(priority: u8) -> String {
    port("hca1", "mlx5_0", "fabric_pfc_frames_total", &format!("direction=\"receive\",priority=\"{priority}\""))
}

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    // Different values, so that a mix-up of positions shows.
    let mut commands = String::new();
    for priority in 0..8_u32 {
        commands += &format!("mlx5_0 set rx_prio{priority}_pause {}\n", 1000 + priority);
        commands += &format!("mlx5_0 set rx_prio{priority}_bytes {}\n", 50_000 + priority);
    }
    commands += "mlx5_0 set rx_prio7_packets 7007\nmlx5_0 set tx_prio7_packets 7008";
    hca.drive(&commands)?;
    let last = port("hca1", "mlx5_0", "fabric_port_priority_packets_total", "direction=\"transmit\",priority=\"7\"");
    for (round, on) in [3_u8, 5, 4, 0].into_iter().enumerate() {
        if round > 0 {
            set_pfc(&hca.guest, &format!("all:off {on}:on"))?;
        }
        let seen = hca.settled(lab, &frames(on))?;
        ensure!(seen == f64::from(1000 + u32::from(on)), "PFC frames of priority {on} are {seen}");
        lab.wait("PFC frames of the other priorities to end", Duration::from_secs(60), || {
            let all = frames(on).replace(&format!(",priority=\"{on}\""), "");
            let series = hca.collector.query(&all)?;
            Ok((series.len() == 1).then_some(()))
        })?;
        // This counter comes after all that moved.
        let behind = hca.settled(lab, &last)?;
        ensure!(behind == 7008.0, "{last} is {behind} after the list changed");
    }
    set_pfc(&hca.guest, "all:off")?;
    lab.wait("all PFC frames to end", Duration::from_secs(60), || {
        Ok(hca.collector.query(&port("hca1", "mlx5_0", "fabric_pfc_frames_total", ""))?.is_empty().then_some(()))
    })?;
    lab.say("PFC moved over 3, 5, 4, 0 and off; no series took another's value");
    Ok(())
}
