//! Packets to one host are lost: the requester counts NAKs and the responder gaps, each on its own host only.

use super::watched::{Pair, port};
use super::{Lab, Scenario};
use crate::lab::agent;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-loss",
    shows: "injected loss moves the retransmit counters of the right host",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    let gaps = |host| port(host, "rxe0", "fabric_rdma_out_of_sequence_total", "");
    let naks = |host| port(host, "rxe0", "fabric_rdma_sequence_naks_total", "direction=\"receive\"");
    let series = [naks("vm1"), gaps("vm2"), naks("vm2"), gaps("vm1")];
    let read = || series.iter().map(|selector| pair.settled(lab, selector)).collect::<Result<Vec<f64>>>();
    ensure!(read()? == [0.0; 4], "counters before any traffic: {:?}", read()?);
    pair.switch.turn(1, |port| port.lose_per_million = 5_000);
    agent::traffic(&pair.one, &pair.two, "10.77.0.2", 100, "")?;
    pair.switch.turn(1, |port| port.lose_per_million = 0);
    let (lost, after) = (pair.switch.stats(1).lost, read()?);
    lab.say(&format!("{lost} packets lost; NAKs at vm1, gaps at vm2, NAKs at vm2, gaps at vm1: {after:?}"));
    ensure!(lost > 0, "the switch lost nothing");
    ensure!(after[0] > 0.0 && after[1] > 0.0, "loss towards vm2 is not seen: {after:?}");
    ensure!(after[2] == 0.0 && after[3] == 0.0, "loss is seen in the direction that lost nothing: {after:?}");
    // The same numbers as the kernel's.
    let kernel = pair.two.sh("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/out_of_seq_request")?;
    ensure!(after[1] == kernel.parse::<f64>()?, "the kernel says {kernel}, the series {}", after[1]);
    Ok(())
}
