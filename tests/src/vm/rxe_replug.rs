//! The RDMA device is deleted and recreated while the agent runs: the agent stays up, and its series end and resume.

use super::watched::{Pair, port, settled};
use super::{Lab, Scenario};
use crate::lab::agent;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-replug",
    shows: "the agent survives `rdma link del` and `add`, under traffic too",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    let pid = pair.one.sh("pidof fabriclens-agent")?;
    let packets = port("vm1", "rxe0", "fabric_rdma_packets_total", "direction=\"transmit\"");
    for round in 1..=3 {
        pair.one.sh("rdma link del rxe0")?;
        // The series of a deleted device must end, not stay constant.
        lab.wait("the series of a deleted device to end", Duration::from_secs(60), || {
            Ok(pair.collector.query(&packets)?.is_empty().then_some(()))
        })?;
        pair.one.sh("rdma link add rxe0 type rxe netdev fab0")?;
        let start = pair.one.now_ns()?;
        let fresh = settled(lab, &pair.collector, &packets, start)?;
        ensure!(fresh == 0.0, "round {round}: a new device has sent {fresh} packets");
    }
    agent::traffic(&pair.one, &pair.two, "10.77.0.2", 50, "")?;
    let sent = pair.settled(lab, &packets)?;
    let expected = 50.0 * agent::MESSAGE as f64 / 1024.0;
    ensure!(sent == expected, "the new device sent {expected} packets, the series says {sent}");

    // Deleted under traffic. The kernel waits for perftest's queue pairs, so perftest is killed meanwhile.
    pair.one.sh("setsid ib_send_bw -d rxe0 -x 1 -n 1000000 -s 65536 -e -F </dev/null >/dev/null 2>&1 & sleep 1")?;
    pair.two.sh(
        "setsid ib_send_bw -d rxe0 -x 1 -n 1000000 -s 65536 -e -F 10.77.0.1 </dev/null >/dev/null 2>&1 & sleep 2",
    )?;
    pair.one.sh("(sleep 1; killall -9 ib_send_bw) & rdma link del rxe0 && rdma link add rxe0 type rxe netdev fab0")?;
    pair.settled(lab, &packets)?;
    let now = pair.one.sh("pidof fabriclens-agent")?;
    ensure!(now == pid, "the agent was {pid} and is {now}: it has not survived");
    Ok(())
}
