//! The BPF probes on Debian's kernel, with TCP over a switch that delays, loses and marks packets: their counts agree with
//! `ss`, the kernel and the switch.

use super::watched::Pair;
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "tcp-probes",
    shows: "probes on an older kernel: round trips as `ss`, bytes as the interface, retransmits as nstat, marks as the switch",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// Mount and setting that a host has from its init system.
const MOUNTS: &str = "mount -t cgroup2 cgroup2 /sys/fs/cgroup; \
                      sysctl -q -w net.ipv4.tcp_ecn=1";
/// Added delay, far above that of the emulation.
const DELAY_MS: f64 = 100.0;
/// Time in which a sample must arrive: a sample, a flush, and a slow guest.
const ARRIVAL: Duration = Duration::from_secs(30);

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start_as(lab, MOUNTS, "")?;
    pair.two.sh("iperf3 --server --daemon && until grep -q ':1451 .* 0A ' /proc/net/tcp*; do sleep 0.1; done")?;
    let sum = |promql: &str| -> Result<f64> { Ok(pair.collector.value(&format!("sum({promql})"))?.unwrap_or(0.0)) };
    let working = "fabriclens_agent_sampler_state{state=\"data\",sampler=~\"tcp_.*\",sampler!=\"tcp_peers\"}";
    let all = lab.wait("all probes on both hosts", ARRIVAL, || Ok((sum(working)? == 8.0).then_some(())));
    all.with_context(|| pair.one.sh("sysctl kernel.perf_event_paranoid kernel.unprivileged_bpf_disabled; FABRICLENS_AGENT_LOG=debug timeout 15 fabriclens-agent run --http 127.0.0.1:0 2>&1 | grep -a tcp_ | cut -c1-1500 | head -8; true").unwrap_or_else(|e| e.to_string()))?;
    // Growth must match that of the kernel or the switch within a tolerance.
    let grows = |what: &str, promql: &str, before: f64, told: &dyn Fn() -> Result<f64>, share: f64| -> Result<()> {
        let mut seen = (0.0, 0.0);
        let same = lab.wait(what, ARRIVAL, || {
            seen = (sum(promql)? - before, told()?);
            Ok(((seen.0 - seen.1).abs() <= share * seen.1).then_some(()))
        });
        same.with_context(|| format!("{what}: {promql} grew by {}, should be {}", seen.0, seen.1))?;
        ensure!(seen.1 > 0.0, "{what}: there was nothing to count");
        lab.say(&format!("{what}: {:.0} of {:.0}", seen.0, seen.1));
        Ok(())
    };

    let (io, interface) = (
        "fabric_tcp_io_bytes_total{host=\"vm1\",direction=\"transmit\",netdev=\"fab0\"}",
        "cat /sys/class/net/fab0/statistics/tx_bytes",
    );
    let (before, started) = (sum(io)?, number(&pair.one, interface)?);
    stream(&pair.one, "--bytes 20M")?;
    grows("bytes sent", io, before, &|| Ok(number(&pair.one, interface)? - started), 0.001)?;

    let (again, kernel) = (
        "fabric_tcp_retransmit_segments_total{host=\"vm1\"}",
        "nstat -az TcpRetransSegs | awk '/^TcpRetransSegs/ {print $2}'",
    );
    let (before, started) = (sum(again)?, number(&pair.one, kernel)?);
    // A buffer of many segments is lost as one: of a few hundred, one in twenty.
    pair.one.sh("tc qdisc add dev fab0 root netem loss 5%")?;
    stream(&pair.one, "--bytes 10M")?;
    pair.one.sh("tc qdisc del dev fab0 root")?;
    grows("segments sent again", again, before, &|| Ok(number(&pair.one, kernel)? - started), 0.0)?;

    pair.switch.turn(1, |port| (port.rate, port.mark_from) = (Some(1_500_000), Some(20_000)));
    stream(&pair.one, "--bytes 5M")?;
    pair.switch.turn(1, |port| (port.rate, port.mark_from) = (None, None));
    let marks = "fabric_tcp_io_ce_segments_total{host=\"vm2\"}";
    grows("marked segments", marks, 0.0, &|| Ok(pair.switch.stats(1).marked as f64), 0.0)?;

    round_trips(lab, &pair, &sum)?;
    side_by_side(lab, &pair)
}

/// Sends TCP and RDMA over a link that loses packets, and runs the documented query.
fn side_by_side(lab: &Lab, pair: &Pair) -> Result<()> {
    pair.one.sh("tc qdisc add dev fab0 root netem loss 1%")?;
    stream(&pair.one, "--bytes 10M")?;
    agent::traffic(&pair.one, &pair.two, "10.77.0.2", 100, "")?;
    pair.one.sh("tc qdisc del dev fab0 root")?;
    let query = include_str!("../../../docs/side-by-side.promql");
    let losses = ["TCP: segments retransmitted", "RDMA: lost packets reported"];
    let shown = lab.wait("losses of both kinds", ARRIVAL, || {
        let shown = pair.collector.shell(&lab.programs.collector, ["query", query])?;
        let lost = |line: &str| line.starts_with("vm1") && !line.ends_with(" 0");
        let seen = |what| shown.lines().any(|line| line.contains(what) && lost(line));
        Ok(losses.iter().all(seen).then_some(shown))
    });
    let shown =
        shown.with_context(|| pair.collector.shell(&lab.programs.collector, ["query", query]).unwrap_or_default())?;
    lab.say(&format!("side by side:\n{shown}"));
    Ok(())
}

/// Number that a command in a guest prints.
fn number(guest: &Vm, command: &str) -> Result<f64> {
    let told = guest.sh(command)?;
    told.parse().with_context(|| format!("{command} says {told:?}"))
}

/// One stream from `vm1` to `vm2`.
fn stream(from: &Vm, amount: &str) -> Result<()> {
    from.exec(&format!("iperf3 --client 10.77.0.2 {amount}"), Duration::from_secs(120))?.ok().map(drop)
}

/// Mean of the histogram over a stream with a delay, against what `ss` shows each half second.
fn round_trips(lab: &Lab, pair: &Pair, sum: &dyn Fn(&str) -> Result<f64>) -> Result<()> {
    let of = |part: &str| format!("fabric_tcp_rtt_seconds_{part}{{host=\"vm1\",netdev=\"fab0\"}}");
    // Samples of earlier traffic must have arrived; a histogram that rests for three seconds shows that.
    let (count, total) = lab.wait("the histogram to rest", ARRIVAL, || {
        let before = (sum(&of("count"))?, sum(&of("sum"))?);
        std::thread::sleep(Duration::from_secs(3));
        Ok((sum(&of("count"))? == before.0).then_some(before))
    })?;
    pair.one.sh(&format!("tc qdisc add dev fab0 root netem delay {DELAY_MS}ms"))?;
    let told = pair.one.exec(
        "iperf3 --client 10.77.0.2 --time 10 >/tmp/iperf3.log 2>&1 & sleep 2; for i in 1 2 3 4 5 6 7 8 9 10; do \
         ss -tin dst 10.77.0.2 | grep -o ' rtt:[0-9.]*' | cut -d: -f2; sleep 0.5; done; wait",
        Duration::from_secs(60),
    )?;
    let told: Vec<f64> = told.ok()?.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    pair.one.sh("tc qdisc del dev fab0 root")?;
    ensure!(told.len() >= 10, "ss showed {} round trips", told.len());
    let ss = told.iter().sum::<f64>() / told.len() as f64;
    let mut seen = 0.0;
    let near = lab.wait("round trips", ARRIVAL, || {
        let (count, total) = (sum(&of("count"))? - count, sum(&of("sum"))? - total);
        seen = total / count * 1e3;
        Ok((count > 100.0 && (seen / ss - 1.0).abs() < 0.1).then_some(()))
    });
    near.with_context(|| format!("the histogram's mean is {seen:.2} ms, ss shows {ss:.2} ms"))?;
    lab.say(&format!("round trips: histogram {seen:.2} ms, ss {ss:.2} ms"));
    ensure!(ss >= DELAY_MS, "the delay was not there: {ss:.2} ms");
    Ok(())
}
