//! Agents trace and probe through a firewall, and beside hosts that stop, are busy or lose their device: nobody blames the network.

use super::probed_fabric::{PROBES, Probed};
use super::{Lab, Scenario};
use crate::lab::routers::TWO_LEAVES;
use crate::lab::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "paths-hosts",
    shows: "probes beside a firewall that drops ICMP, a stopped agent, a busy host and a new device: nobody blames the network",
    limit: Duration::from_secs(600),
    often: false,
    alone: true,
    run,
};

/// Time for which each disturbance lasts, and is watched after its end: windows of probes are closed 15 s later.
const LASTS: Duration = Duration::from_secs(40);

fn run(lab: &Lab) -> Result<()> {
    let probed = Probed::boot(lab, TWO_LEAVES)?;
    firewall(lab, &probed).context("a firewall that drops ICMP")?;
    stopped(lab, &probed).context("a stopped agent")?;
    busy(lab, &probed).context("a busy host")?;
    replugged(lab, &probed).context("a device deleted and created again")?;
    lab.say(&format!("memory of the guests: {} MiB", probed.fabric.memory()?));
    Ok(())
}

/// Where routers send no ICMP, no path is known, and probes go on. Once they do, paths are known.
fn firewall(lab: &Lab, probed: &Probed) -> Result<()> {
    let routers: Vec<String> = probed.fabric.routers.plan.routers().collect();
    routers.iter().try_for_each(|router| probed.fabric.routers.drop_packets(router, "ip protocol icmp"))?;
    probed.fabric.start_agents(lab, PROBES)?;
    let unknown = "fabriclens_agent_trace_paths{state=\"unknown\"}";
    lab.wait("unknown paths", Duration::from_secs(120), || Ok(probed.sum(unknown)?.filter(|paths| *paths > 0.0)))?;
    let probes = "fabric_probe_probes_total{transport=~\"rdma.*\"}";
    let before = probed.sum(probes)?.unwrap_or(0.0);
    probed.blames_no_network("routers send no ICMP", Duration::from_secs(20))?;
    let known = probed.sum("fabriclens_agent_trace_paths{state=\"known\"}")?.unwrap_or(0.0);
    ensure!(known == 0.0, "{known} paths are known without ICMP");
    let sent = probed.sum(probes)?.unwrap_or(0.0) - before;
    ensure!(sent > 0.0, "no probe was sent in 20 s while paths are unknown");
    let dropped: u64 = routers.iter().map(|router| probed.fabric.routers.allow(router)).sum::<Result<u64>>()?;
    ensure!(dropped > 0, "the firewall dropped nothing");
    lab.say(&format!(
        "no path known while routers dropped {dropped} ICMP packets; {sent:.0} probes went on, no incident"
    ));
    // A path that was not found is traced again after two minutes; a new agent traces at once.
    probed.fabric.restart_agents()?;
    probed.settle(lab)?;
    lab.say(&format!("without the firewall: {}", probed.summary()?["coverage"]));
    Ok(())
}

/// The probes of others to a stopped agent are lost, and no place in the network is blamed.
fn stopped(lab: &Lab, probed: &Probed) -> Result<()> {
    let host = probed.fabric.host(4);
    let lost = "fabric_probe_lost_total{host!=\"h4\",transport=~\"rdma.*\"}";
    let before = probed.sum(lost)?.unwrap_or(0.0);
    host.sh("killall -STOP fabriclens-agent")?;
    let quiet = probed.blames_no_network("the agent of h4 was stopped", LASTS);
    host.sh("killall -CONT fabriclens-agent")?;
    quiet?;
    probed.blames_no_network("the agent of h4 was stopped, and went on", LASTS / 2)?;
    let lost = probed.sum(lost)?.unwrap_or(0.0) - before;
    ensure!(lost >= 3.0, "only {lost} probes to the stopped agent were lost: this shows nothing");
    lab.say(&format!("{lost:.0} probes to a stopped agent were lost; the network is not blamed"));
    Ok(())
}

/// A host whose processor is taken answers late.
fn busy(lab: &Lab, probed: &Probed) -> Result<()> {
    let host = probed.fabric.host(2);
    host.sh(
        "for n in 1 2 3 4 5 6 7 8; do setsid sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 & echo $!; done >/tmp/hogs; \
         renice -n -10 -p $(cat /tmp/hogs)",
    )?;
    let load = "cut -d' ' -f1 /proc/loadavg";
    let quiet = probed.blames_no_network("h2 has no processor time left", LASTS);
    let load: f64 = host.sh(load)?.parse()?;
    host.sh("kill $(cat /tmp/hogs)")?;
    quiet?;
    ensure!(load > 1.0, "the load of h2 was {load}: this shows nothing");
    probed.blames_no_network("h2 had no processor time left", LASTS / 2)?;
    lab.say(&format!("a host with a load of {load} is not told as a fault of the network"));
    Ok(())
}

/// The agent closes a device that goes, and opens the new one, without leaks.
fn replugged(lab: &Lab, probed: &Probed) -> Result<()> {
    let host = probed.fabric.host(3);
    let answered = "fabric_probe_answered_total{host=\"h3\",transport=\"rdma\"}";
    let before = held(host)?;
    for round in 1..=3 {
        host.exec("rdma link del rxe0", Duration::from_secs(60))?.ok().with_context(|| format!("round {round}"))?;
        std::thread::sleep(Duration::from_secs(2));
        host.sh("rdma link add rxe0 type rxe netdev fab0")?;
        let from = probed.sum(answered)?.unwrap_or(0.0);
        lab.wait("answers of the new device", Duration::from_secs(90), || {
            Ok(probed.sum(answered)?.filter(|count| *count != from).map(drop))
        })
        .with_context(|| format!("round {round}"))?;
    }
    probed.blames_no_network("the device of h3 was deleted and created", LASTS / 2)?;
    let after = held(host)?;
    ensure!(after.0 == before.0, "the agent was process {} and is {}: it has not survived", before.0, after.0);
    let grown = |before: u32, after: u32| after > before + 2;
    ensure!(!grown(before.1, after.1), "the agent had {} open files and has {}", before.1, after.1);
    ensure!(!grown(before.2, after.2), "the agent had {} threads and has {}", before.2, after.2);
    lab.say(&format!("3 new devices: open files {} -> {}, threads {} -> {}", before.1, after.1, before.2, after.2));
    Ok(())
}

/// Process, open files and threads of the agent.
fn held(host: &Vm) -> Result<(u32, u32, u32)> {
    let told = host.sh("p=$(pidof fabriclens-agent); echo $p; ls /proc/$p/fd | wc -l; ls /proc/$p/task | wc -l")?;
    let numbers: Vec<u32> = told.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [process, files, threads] = numbers.try_into().map_err(|_| anyhow::anyhow!("one agent expected: {told}"))?;
    Ok((process, files, threads))
}
