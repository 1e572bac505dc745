//! A slow switch port: with ECN, marks arrive as `InCEPkts` without loss; a lossless port blocks the sender.
//!
//! Soft-RoCE ignores marks (it sends no CNP) and no QEMU card implements PFC; the fake HCA covers both.

use super::watched::{Pair, settled};
use super::{Lab, Scenario};
use crate::lab::agent;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-congestion",
    shows: "CE marks of the switch arrive as InCEPkts; lossless back-pressure loses nothing",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// Bytes per second: an eighth of what the guests could send.
const SLOW: u64 = 1_500_000;

/// perftest's traffic class with ECT(0).
const ECN_CAPABLE: &str = "--tclass=2";

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    let marks = |host: &str| format!("fabric_ip_ecn_packets_total{{host=\"{host}\",mark=\"ce\"}}");
    let read = |host| settled(lab, &pair.collector, &marks(host), pair.one.now_ns()?);
    let before = [read("vm1")?, read("vm2")?];
    pair.switch.turn(1, |port| {
        port.rate = Some(SLOW);
        port.mark_from = Some(20_000);
    });
    agent::traffic(&pair.one, &pair.two, "10.77.0.2", 60, ECN_CAPABLE)?;
    let marked = pair.switch.stats(1).marked;
    let after = [read("vm1")?, read("vm2")?];
    ensure!(marked > 100, "the switch marked only {marked} packets");
    ensure!(after[1] - before[1] == marked as f64, "{marked} marks, but the series grew by {}", after[1] - before[1]);
    ensure!(after[0] == before[0], "marks at the host that nothing marked was sent to");
    ensure!(pair.switch.stats(1).dropped == 0, "{} frames dropped", pair.switch.stats(1).dropped);
    lab.say(&format!("{marked} packets marked = growth of {}", marks("vm2")));

    pair.switch.turn(1, |port| {
        port.mark_from = None;
        port.lossless = true;
        port.limit = 30_000;
    });
    agent::traffic(&pair.one, &pair.two, "10.77.0.2", 60, "")?;
    let (sender, port) = (pair.switch.stats(0), pair.switch.stats(1));
    ensure!(sender.pauses > 0 && sender.paused_us > 0, "nobody was held back: {sender:?}");
    ensure!(port.dropped == 0 && port.lost == 0, "a lossless port lost frames: {port:?}");
    let repeated = pair.one.sh("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err")?;
    ensure!(repeated == "0", "back-pressure alone made {repeated} sequence errors");
    lab.say(&format!("held back {} times, {:.1} s in all, nothing lost", sender.pauses, sender.paused_us as f64 / 1e6));
    Ok(())
}
