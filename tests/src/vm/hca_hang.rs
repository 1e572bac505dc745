//! The firmware of one device hangs: the other device is sampled each second, and the first one recovers.

use super::watched::{Hca, port};
use super::{Lab, Scenario};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-hang",
    shows: "a read that hangs for 12 s delays no other device, and is reported; errors too",
    limit: Duration::from_secs(300),
    often: true,
    alone: true,
    run,
};

const HANG: u64 = 12;

/// Longest silence of the healthy device: one missed sample of a slow guest.
const SILENCE_NS: u64 = 3_000_000_000;

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    let sent = |device| port("hca1", device, "fabric_cnp_packets_total", "direction=\"transmit\"");
    hca.settled(lab, &sent("mlx5_0"))?;
    hca.settled(lab, &sent("mlx5_1"))?;
    let start = hca.guest.now_ns()?;
    hca.drive(&format!("mlx5_0 hang rdma {HANG}"))?;
    // The length of the hang is what is tested.
    std::thread::sleep(Duration::from_secs(HANG));
    let end = hca.guest.now_ns()?;
    hca.settled(lab, &sent("mlx5_1"))?;
    let mut times: Vec<u64> = hca.collector.points(&sent("mlx5_1"), 60)?.iter().map(|point| point.0).collect();
    times.retain(|&time| time >= start && time <= end);
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().context("the healthy device fell silent")?;
    ensure!(gap <= SILENCE_NS, "the healthy device was silent for {} ms", gap / 1_000_000);
    let sick = hca.collector.points(&sent("mlx5_0"), 60)?;
    let during = sick.iter().filter(|point| point.0 > start + 2_000_000_000 && point.0 < end - 1_000_000_000).count();
    ensure!(during == 0, "{during} samples from a device that did not answer");
    lab.say(&format!("longest gap of the healthy device {} ms over {HANG} s", gap / 1_000_000));
    hca.settled(lab, &sent("mlx5_0")).context("the device did not come back")?;
    let stalls = hca.collector.value("sum(fabriclens_agent_sampler_stalls_total{host=\"hca1\"})")?;
    ensure!(stalls.unwrap_or(0.0) > 0.0, "the stall is not reported");

    // EIO instead of a hang is counted as errors and does not affect the other device.
    hca.drive("mlx5_0 fail rdma 5")?;
    lab.wait("errors to be reported", Duration::from_secs(60), || {
        let errors = hca.collector.query("sum(fabriclens_agent_sampler_errors_total{host=\"hca1\"}) > 0")?;
        Ok((!errors.is_empty()).then_some(()))
    })?;
    hca.settled(lab, &sent("mlx5_1"))?;
    hca.drive("mlx5_0 fail rdma 0")?;
    hca.settled(lab, &sent("mlx5_0")).context("the device did not recover from errors")?;
    Ok(())
}
