//! Made-up fleets: recordings of nothing but ordinary life, to count false incidents. Jobs begin, end, work in cycles,
//! load, evaluate, save, stall; hosts, agents, links and clocks do what they do. A model of flows in steps of a second.

mod counters;
mod fabric;
mod job;
mod life;
mod traffic;

use crate::random::Random;
use anyhow::Result;
use counters::{PortsFile, Sampling};
use fabric::Fabric;
use job::Job;
use life::{HostEvent, Life};
use serde_json::json;
use std::path::Path;
use traffic::Traffic;

/// Length of a recording in seconds.
const SECONDS: usize = 1200;
/// Share of samples that are lost.
const LOST: f64 = 0.0005;

/// Writes the recording of a fleet. The same seed gives the same one; odd seeds are InfiniBand.
///
/// # Errors
/// When a file cannot be written.
pub fn write(seed: u64, to: &Path) -> Result<()> {
    let random = &mut Random(seed);
    let fabric = Fabric::new(random);
    let mut life = Life::new(seed % 2 == 1);
    let mut jobs = jobs(&fabric, random, &mut life);
    let idle = |host: usize, from_s: usize, to_s: usize, jobs: &[Job]| {
        !jobs.iter().any(|job| job.hosts.contains(&host) && job.from_s < to_s + 5 && from_s < job.to_s + 5)
    };
    life.plan(fabric.hosts, SECONDS, random, |host, from_s, to_s| idle(host, from_s, to_s, &jobs));
    let early: Vec<f64> = (0..fabric.cables.len()).map(|_| random.between(0.0, 0.3)).collect();
    let mut traffic = Traffic::new(&fabric, &jobs);
    let mut file = PortsFile::create(&to.join("ports.csv.gz"), fabric.directions(), life.infiniband)?;
    for second in 1..=SECONDS {
        traffic.run(second, &fabric, &mut jobs, &mut life, random);
        let lost: Vec<bool> = (0..fabric.directions()).map(|_| random.happens(LOST)).collect();
        let sampling = |port: usize| sampling(&fabric, &life, port, second, &early, lost[port]);
        file.write(second, &fabric, &traffic.totals, |port| traffic.up[port / 2], sampling)?;
    }
    file.finish()?;
    let listed = jobs.iter().filter(|job| job.listed).map(|job| {
        let names: Vec<String> = job.hosts.iter().map(|host| format!("n{host:03}")).collect();
        json!({ "id": job.id, "hosts": names, "start_ns": job.from_s as i64 * 1_000_000_000, "end_ns": job.to_s as i64 * 1_000_000_000 })
    });
    let listed: Vec<_> = listed.collect();
    let files = [
        ("topology.json", fabric.topology()),
        ("jobs.json", json!({ "jobs": listed })),
        ("life.json", life.json()),
        ("truth.json", json!({ "kind": "life", "tick_ns": 1_000_000_000_i64, "faults": [] })),
    ];
    files.iter().try_for_each(|(name, content)| Ok(std::fs::write(to.join(name), content.to_string())?))
}

/// Jobs one after the other on neighboring hosts. The last hosts are storage.
fn jobs(fabric: &Fabric, random: &mut Random, life: &mut Life) -> Vec<Job> {
    let compute = fabric.hosts - fabric.hosts / 16;
    let storage: Vec<usize> = (compute..fabric.hosts).collect();
    let (mut jobs, mut first) = (Vec::new(), 0);
    while first < compute {
        let size = [1, 2, 4, 4, 8, 8, 16][random.below(7)].min(compute - first);
        let hosts: Vec<usize> = (first..first + size).collect();
        first += size;
        let mut at = if random.happens(0.7) { 0 } else { random.below(SECONDS / 3) };
        while at < SECONDS {
            let to_s = (at + random.between_by_ratio(200.0, 3000.0) as usize).min(SECONDS);
            let id = format!("{}", 5000 + jobs.len());
            jobs.push(Job::new(fabric, id, hosts.clone(), [at, to_s], &storage, random, life));
            at = to_s + random.between_by_ratio(5.0, 200.0) as usize;
        }
    }
    jobs
}

/// How a port is sampled in a second.
fn sampling(fabric: &Fabric, life: &Life, port: usize, second: usize, early: &[f64], lost: bool) -> Sampling {
    let end = &fabric.cables[port / 2][port % 2];
    let Some(host) = end.host else {
        return Sampling { missing: lost, ..Sampling::default() };
    };
    let mut sampling = Sampling { early_s: early[host], missing: lost, ..Sampling::default() };
    for event in life.of_host(host, second) {
        match event.what {
            HostEvent::AgentRestart | HostEvent::Reboot | HostEvent::DriverReload => sampling.missing = true,
            HostEvent::ClockStep(ms) => sampling.ahead_s = f64::from(ms) / 1000.0,
            HostEvent::SlowCounters(each) => sampling.stale = !second.is_multiple_of(each),
            HostEvent::Flap | HostEvent::Hiccup | HostEvent::SymbolError | HostEvent::BadLink => {}
        }
    }
    sampling
}
