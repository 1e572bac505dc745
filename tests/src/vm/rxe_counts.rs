//! perftest, the kernel and PromQL agree exactly on packets and bytes.

use super::watched::{Pair, port};
use super::{Lab, Scenario};
use crate::lab::agent::{self, MESSAGE};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-counts",
    shows: "packets and bytes by PromQL equal perftest, `rdma statistic` and the switch",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

const MESSAGES: u32 = 400;

/// Payload of a RoCE packet at the MTU of 1024 that an Ethernet MTU of 1500 allows.
const PAYLOAD: u64 = 1024;

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    let series = [
        ("vm1", "fabric_rdma_packets_total", "transmit"),
        ("vm1", "fabric_rdma_packets_total", "receive"),
        ("vm2", "fabric_rdma_packets_total", "receive"),
        ("vm1", "fabric_netdev_packets_total", "transmit"),
        ("vm1", "fabric_netdev_io_bytes_total", "transmit"),
        ("vm2", "fabric_netdev_io_bytes_total", "receive"),
    ];
    let read = || -> Result<Vec<f64>> {
        series
            .iter()
            .map(|(host, metric, way)| pair.settled(lab, &port(host, "rxe0", metric, &format!("direction=\"{way}\""))))
            .collect()
    };
    let kernel = || -> Result<Vec<u64>> {
        let one = counts(&pair.one.sh(LOOK)?)?;
        let two = counts(&pair.two.sh(LOOK)?)?;
        Ok(vec![one[0], one[1], two[1], one[2], one[3], two[5]])
    };
    // In this order, with no other traffic: store, kernel, traffic, kernel, store.
    let (before, kernel_before, wire_before) = (read()?, kernel()?, pair.switch.stats(0));
    let said = agent::traffic(&pair.one, &pair.two, "10.77.0.2", MESSAGES, "")?;
    ensure!(said.contains(&format!(" {MESSAGE} ")) && said.contains(&MESSAGES.to_string()), "perftest says {said}");
    let (kernel_after, wire_after, after) = (kernel()?, pair.switch.stats(0), read()?);
    for (at, (host, metric, way)) in series.iter().enumerate() {
        let (ours, theirs) = (after[at] - before[at], kernel_after[at] - kernel_before[at]);
        ensure!(ours == theirs as f64, "{metric} {way} on {host} grew by {ours}, in the kernel by {theirs}");
        lab.say(&format!("{metric} {way} on {host}: +{ours}, as the kernel"));
    }
    let packets = after[0] - before[0];
    let expected = u64::from(MESSAGES) * MESSAGE / PAYLOAD;
    ensure!(packets == expected as f64, "perftest sent {expected} packets, the series says {packets}");
    let wire = wire_after.received_bytes - wire_before.received_bytes;
    let bytes = after[4] - before[4];
    ensure!(bytes == wire as f64, "the switch got {wire} bytes, the series says {bytes}");
    ensure!(wire > u64::from(MESSAGES) * MESSAGE, "{wire} bytes are less than what perftest sent");
    Ok(())
}

/// sent_pkts, rcvd_pkts, then packets and bytes sent, packets and bytes received, one per line.
const LOOK: &str = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters; \
    rdma statistic show link rxe0/1 | tr ' ' '\\n' | grep -A1 -x -e sent_pkts -e rcvd_pkts | grep -v -e pkts -e --; \
    cd /sys/class/net/fab0/statistics; cat tx_packets tx_bytes rx_packets rx_bytes";

fn counts(text: &str) -> Result<Vec<u64>> {
    let counts: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>().with_context(|| text.to_owned())?;
    ensure!(counts.len() == 6, "six counters expected: {text}");
    Ok(counts)
}
