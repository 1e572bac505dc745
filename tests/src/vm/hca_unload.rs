//! The driver is unloaded and loaded again while the agent samples; the agent stays up.

use super::watched::{Hca, load, port};
use super::{Lab, Scenario};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "hca-unload",
    shows: "the driver unloads under a sampling agent and comes back; the agent stays up",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    let pid = hca.guest.sh("pidof fabriclens-agent")?;
    let state = port("hca1", "mlx5_0", "fabric_port_state", "");
    for round in 1..=3 {
        let start = Instant::now();
        hca.guest.sh("rmmod fakehca")?;
        let took = start.elapsed();
        ensure!(took < Duration::from_secs(10), "round {round}: the agent kept the driver for {took:?}");
        lab.wait("series of the device to end", Duration::from_secs(60), || {
            Ok(hca.collector.query(&state)?.is_empty().then_some(()))
        })?;
        load(&hca.guest)?;
        hca.drive(&format!("mlx5_0 set np_cnp_sent {round}"))?;
        let sent = port("hca1", "mlx5_0", "fabric_cnp_packets_total", "direction=\"transmit\"");
        let seen = hca.settled(lab, &sent)?;
        ensure!(seen == f64::from(round), "round {round}: CNP sent are {seen}");
        lab.say(&format!("round {round}: unloaded in {} ms, seen again", took.as_millis()));
    }
    let now = hca.guest.sh("pidof fabriclens-agent")?;
    ensure!(now == pid, "the agent was {pid} and is {now}: it has not survived");
    let trouble = hca.guest.sh("dmesg | grep -e 'BUG:' -e 'WARNING:' -e Oops -e refcount || true")?;
    ensure!(trouble.is_empty(), "the kernel complains: {trouble}");
    Ok(())
}
