//! Faults of processes: killed, stopped and restarted.

use super::{Fault, Outcome, agents_report};
use crate::chaos::testbed::{TIMEOUT, TestBed, get, now, sum_of};
use crate::sim::layout::host_name;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Seconds for which an agent without a collector keeps samples in memory only: its `spool.after`.
const IN_MEMORY: f64 = 30.0;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "none",
        often: true,
        expected: "no incident, no gap",
        inject: |_, _, hold| {
            std::thread::sleep(hold);
            Outcome::of("calm")
        },
    },
    Fault {
        name: "collector-killed",
        often: true,
        expected: "it starts within 5 s with all acknowledged samples; agents report that it is away",
        inject: |bed, _, hold| {
            bed.collector.kill();
            let reported = agents_report(bed, "the collector has been away", hold)?;
            bed.collector.start()?;
            let took = bed.wait_ready()?;
            ensure!(took < Duration::from_secs(5), "it took {took:?} to start");
            Outcome::of(format!("ready after {:.2} s; {reported}", took.as_secs_f64()))
        },
    },
    Fault {
        name: "collector-restarted",
        often: true,
        expected: "it stops on SIGTERM, and no series has a gap",
        inject: |bed, _, _| {
            let ended = bed.collector.end(TIMEOUT)?;
            bed.collector.start()?;
            let ready = bed.wait_ready()?;
            Outcome::of(format!("ended in {:.2} s, ready in {:.2} s", ended.as_secs_f64(), ready.as_secs_f64()))
        },
    },
    Fault {
        name: "collector-away",
        often: true,
        expected: "agents spool samples on disk and send them when it is back",
        inject: |bed, _, hold| {
            bed.collector.end(TIMEOUT)?;
            std::thread::sleep(2 * hold);
            let waits = bed.spooled()?;
            ensure!(waits > 0.0, "no agent has samples on disk after {:?}", 2 * hold);
            bed.collector.start()?;
            bed.wait_ready()?;
            let back = bed.wait_fresh()?;
            Outcome::of(format!(
                "{:.2} MB waited on disks, sent {:.1} s after it was back",
                waits / 1e6,
                back.as_secs_f64()
            ))
        },
    },
    Fault {
        name: "collector-stopped",
        often: true,
        expected: "agents time out waiting for its answer, and nothing is lost",
        inject: |bed, _, hold| {
            bed.collector.signal("STOP")?;
            let reported = agents_report(bed, "the collector has been away", hold.max(Duration::from_secs(15)));
            bed.collector.signal("CONT")?;
            Outcome::of(reported?)
        },
    },
    Fault {
        name: "agent-killed",
        often: true,
        expected: "it resumes; only the time without an agent is missing",
        inject: |bed, random, _| {
            let host = random.below(bed.agents.len());
            let unsampled = kill_agent(bed, host)?;
            Outcome::unsampled(
                format!("{} without an agent for {:.1} s", host_name(host), unsampled.2 - unsampled.1),
                vec![unsampled],
            )
        },
    },
    Fault {
        name: "agent-stopped",
        often: true,
        expected: "it resumes; only that time is missing, and no rate jumps",
        inject: |bed, random, hold| {
            let (host, from) = (random.below(bed.agents.len()), now());
            bed.agents[host].signal("STOP")?;
            std::thread::sleep(hold);
            bed.agents[host].signal("CONT")?;
            Outcome::unsampled(format!("{} was stopped for {hold:?}", host_name(host)), vec![(host, from, now() + 1.0)])
        },
    },
    Fault {
        name: "random-kills",
        often: false,
        expected: "every start succeeds",
        inject: |bed, random, hold| {
            let (begin, mut unsampled, mut kills, mut slowest) = (Instant::now(), Vec::new(), [0, 0], Duration::ZERO);
            while begin.elapsed() < 2 * hold {
                if random.below(3) == 0 {
                    bed.collector.kill();
                    bed.collector.start()?;
                    // The next kill may hit it while it starts.
                    if random.below(2) == 0 {
                        slowest = slowest.max(bed.wait_ready()?);
                    }
                    kills[0] += 1;
                } else {
                    let host = random.below(bed.agents.len());
                    unsampled.push(kill_agent(bed, host)?);
                    kills[1] += 1;
                }
                std::thread::sleep(Duration::from_millis(random.below(1500) as u64));
            }
            bed.wait_ready()?;
            let starts = format!("slowest start {:.2} s", slowest.as_secs_f64());
            Outcome::unsampled(format!("killed: collector {}, agents {}; {starts}", kills[0], kills[1]), unsampled)
        },
    },
];

/// Kills and restarts an agent; gives the host and the time without samples.
fn kill_agent(bed: &mut TestBed, host: usize) -> Result<(usize, f64, f64)> {
    // Unacknowledged samples in memory are lost with the process.
    let acked = sum_of(&bed.agent_metrics(host)?, "fabriclens_agent_uplink_last_ack_time_seconds");
    let from = acked.clamp(now() - IN_MEMORY, now()) - 1.5;
    bed.agents[host].kill();
    bed.agents[host].start()?;
    let begin = Instant::now();
    while get(&format!("http://127.0.0.1:{}/readyz", bed.agent_ports[host])).map_or(true, |(code, _)| code != 200) {
        ensure!(begin.elapsed() < TIMEOUT, "the agent of {} is not ready", host_name(host));
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok((host, from, now() + 1.0))
}
