//! Plans of a fleet: their time and memory, and what they make hosts send.

use std::sync::Arc;
use std::time::Instant;

use fabriclens_correlate::Topology;

use super::agent::{Agent, per_second};
use super::minute::{agents, planned};
use super::table::{line, rss_mb};
use crate::fleet::Fleet;

/// Switches that a later trace asks between two leaves: all but the first.
const SWITCHES: f64 = 2.0;
/// Bytes of an RDMA probe and of each of its ACKs with Ethernet header, over RoCE v2 and IPv4, and of a trace's datagram.
const PROBE_BYTES: f64 = 106.0;
const TRACE_BYTES: f64 = 62.0;
/// Packets of a TCP twin, message, answer and the acknowledgment of the answer, and their bytes with headers.
const TWIN_PACKETS: f64 = 3.0;
const TWIN_BYTES: f64 = 230.0;

/// Prints them.
pub(super) fn print(fleet: Fleet, topology: &Arc<Topology>) {
    let before = rss_mb();
    let began = Instant::now();
    let (probing, now) = planned(fleet, topology);
    line("offers of all hosts and the first plans", format!("{:.2} s", began.elapsed().as_secs_f64()));
    let mut again: Vec<f64> = (0..3)
        .map(|_| {
            let began = Instant::now();
            probing.replan(topology, now, 0);
            began.elapsed().as_secs_f64()
        })
        .collect();
    again.sort_by(f64::total_cmp);
    line("plans again, each 10 s (median of 3)", format!("{:.2} s of a core", again[1]));
    line("memory of offers, queue pairs of jobs, two generations of plans", format!("{:.0} MB", rss_mb() - before));
    let summary = probing.status(0).summary;
    line("pairs", summary.pairs.iter().map(|(class, count)| format!("{class} {count}")).collect::<Vec<_>>().join(", "));
    line(
        "planned probes with TCP twins, and traces",
        format!("{:.0}/s, {:.0}/s", summary.probes_per_s, summary.traces_per_s),
    );
    let agents = agents(fleet, &probing, now);
    let rates: Vec<[f64; 3]> = agents.iter().map(rates).collect();
    let hosts = rates.len() as f64;
    let mean = |of: usize| rates.iter().map(|rate| rate[of]).sum::<f64>() / hosts;
    let most = |of: usize| rates.iter().map(|rate| rate[of]).fold(0.0, f64::max);
    for (of, what) in ["RDMA probes", "TCP twins", "traces"].into_iter().enumerate() {
        line(&format!("host: {what}, mean and most"), format!("{:.2}/s, {:.2}/s", mean(of), most(of)));
    }
    // A host answers, on average, as many as it sends: two ACKs for each probe.
    let packets = [3.0 * mean(0), TWIN_PACKETS * mean(1), SWITCHES * mean(2)];
    let bytes = [PROBE_BYTES * packets[0], TWIN_BYTES * mean(1), TRACE_BYTES * packets[2]];
    line("host: packets sent, probes, twins, traces", packets.map(|n| format!("{n:.1}/s")).join(", "));
    line("host: bytes sent, the same", bytes.map(|n| format!("{n:.0} B/s")).join(", "));
    line(
        "host: sent in all",
        format!("{:.1} packets/s, {:.2} kB/s", packets.iter().sum::<f64>(), bytes.iter().sum::<f64>() / 1e3),
    );
}

/// RDMA probes, TCP twins and traces of source ports that a host sends per second.
fn rates(agent: &Agent) -> [f64; 3] {
    let mut all = [0.0; 3];
    for target in &agent.targets {
        all[0] += per_second(target);
        all[1] += if target.tcp_twin { per_second(target) } else { 0.0 };
        if target.trace_every_ms > 0 {
            all[2] += target.source_ports.len() as f64 * 1e3 / f64::from(target.trace_every_ms);
        }
    }
    all
}
