//! Probes over soft-RoCE: UD queue pairs and TCP twins on real kernels, without a collector (`tests/lab/prober`).

use super::{Lab, Scenario};
use crate::lab::vm::Vm;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-probes",
    shows: "probes and TCP twins over soft-RoCE: source ports, DSCP, loss, a stopped responder, a device that is replaced",
    limit: Duration::from_secs(300),
    often: false,
    alone: true,
    run,
};

const SERVE: &str = "setsid probe serve /targets >>/out 2>&1 </dev/null &";
/// DSCP 26.
const CLASS: u8 = 104;

fn run(lab: &Lab) -> Result<()> {
    let (_switch, one, two) = lab.rxe_pair()?;
    for guest in [&one, &two] {
        guest.put(&lab.programs.prober, "/bin/probe", 0o755)?;
        guest.sh(&format!("touch /targets /out; {SERVE} sleep 1"))?;
    }
    let (ports, to) = (offer(lab, &one)?.1, offer(lab, &two)?.0);
    let ports: BTreeSet<u16> = ports.split(',').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ports.len() == 8, "source ports of eight queue pairs: {ports:?}");
    let target = |queue_pair: u32| {
        let list: Vec<String> = ports.iter().map(ToString::to_string).collect();
        format!("rxe0/1 vm2 10.77.0.2 {queue_pair} 7472 20 {CLASS} {}\n", list.join(","))
    };
    one.write("/targets", &target(to))?;
    answered(lab, &one, &ports)?;
    on_the_wire(lab, &two, &ports)?;
    lossy(lab, &one)?;
    busy(lab, &one, &two)?;
    stopped(lab, &one, &two)?;
    replaced(lab, &one, &two, &target)?;
    let trouble = one.sh("dmesg | grep -e 'BUG:' -e 'WARNING:' -e Oops -e refcount || true")?;
    ensure!(trouble.is_empty(), "the kernel complains: {trouble}");
    Ok(())
}

/// Queue pair and source ports that a guest's prober offers last.
fn offer(lab: &Lab, guest: &Vm) -> Result<(u32, String)> {
    lab.wait("an open port", Duration::from_secs(30), || {
        let line = guest.sh("grep -e '^offer' -e '^problem' /out | tail -n 1 || true")?;
        let words: Vec<&str> = line.split(' ').collect();
        let ["offer", "rxe0/1", "qp", queue_pair, "tcp", "7472", "ports", ports] = words[..] else {
            anyhow::bail!("it says {line:?}")
        };
        let queue_pair = queue_pair.parse().with_context(|| line.clone())?;
        Ok((queue_pair != 0).then(|| (queue_pair, ports.to_owned())))
    })
}

/// Lines of results since the last call.
fn results(guest: &Vm, seconds: u32) -> Result<Vec<String>> {
    let text = guest.sh(&format!("n=$(wc -l </out); sleep {seconds}; tail -n +$((n+1)) /out"))?;
    Ok(text.lines().filter(|line| line.starts_with("result")).map(str::to_owned).collect())
}

fn of<'a>(lines: &'a [String], transport: &str) -> Vec<&'a String> {
    lines.iter().filter(|line| line.contains(transport)).collect()
}

fn lost(lines: &[&String]) -> usize {
    lines.iter().filter(|line| line.contains(" rtt - ")).count()
}

/// Values after a word, nanoseconds.
fn values(lines: &[&String], word: &str) -> Vec<u64> {
    let value = |line: &&String| line.split(' ').skip_while(|w| *w != word).nth(1)?.parse().ok();
    let mut all: Vec<u64> = lines.iter().filter_map(value).collect();
    all.sort_unstable();
    all
}

fn median(values: &[u64]) -> u64 {
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Probes come back, from each source port, by software time; so do the twins.
fn answered(lab: &Lab, one: &Vm, ports: &BTreeSet<u16>) -> Result<()> {
    results(one, 3)?;
    let lines = results(one, 5)?;
    let (rdma, tcp) = (of(&lines, "RdmaSoftwareTime"), of(&lines, "Tcp"));
    let (rtt, turn, own) = (values(&rdma, "rtt"), values(&rdma, "turn"), values(&rdma, "own"));
    lab.say(&format!(
        "{} probes in 5 s, {} lost; median round trip {} us, responder {} us, prober {} us; {} twins, {} us",
        rdma.len(),
        lost(&rdma),
        median(&rtt) / 1000,
        median(&turn) / 1000,
        median(&own) / 1000,
        tcp.len(),
        median(&values(&tcp, "rtt")) / 1000
    ));
    lab.say(&format!(
        "without a result: {}",
        one.sh("tail -n 60 /out | grep ^count | sort -u | tr '\\n' ';' || true")?
    ));
    ensure!(rdma.len() >= 10 && lost(&rdma) <= 2, "{lines:#?}");
    ensure!(tcp.len() >= 60 && lost(&tcp) <= 2, "{lines:#?}");
    let used: BTreeSet<u16> = values(&rdma, "port").iter().filter_map(|port| u16::try_from(*port).ok()).collect();
    ensure!(used == *ports, "source ports {used:?} of {ports:?}");
    Ok(())
}

/// The datagrams have the source ports that the prober says, and the planned DSCP.
fn on_the_wire(lab: &Lab, two: &Vm, ports: &BTreeSet<u16>) -> Result<()> {
    let seen = two.sh("probe sniff 4")?;
    let seen: BTreeSet<(u16, u8)> = seen
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Some((words.get(1)?.parse().ok()?, words.get(3)?.parse().ok()?))
        })
        .collect();
    let of_one: BTreeSet<u16> = seen.iter().map(|row| row.0).filter(|port| ports.contains(port)).collect();
    lab.say(&format!("source ports on the wire: {seen:?}"));
    ensure!(of_one == *ports, "on the wire {seen:?}, told {ports:?}");
    ensure!(seen.iter().all(|row| row.1 & 0xfc == CLASS), "DSCP: {seen:?}");
    Ok(())
}

/// Loss on the wire is loss of probes; TCP repeats and is late.
fn lossy(lab: &Lab, one: &Vm) -> Result<()> {
    one.sh("tc qdisc replace dev fab0 root netem loss 30%")?;
    let lines = results(one, 12)?;
    one.sh("tc qdisc del dev fab0 root")?;
    let (rdma, tcp) = (of(&lines, "RdmaSoftwareTime"), of(&lines, "Tcp"));
    let late = values(&tcp, "rtt").iter().filter(|rtt| **rtt > 150_000_000).count() + lost(&tcp);
    lab.say(&format!("30 % loss: {} of {} probes lost, {late} of {} twins late", lost(&rdma), rdma.len(), tcp.len()));
    // A few dozen probes, if the guests are slow: the prober sends fewer then.
    ensure!(
        rdma.len() >= 10 && lost(&rdma) * 100 > rdma.len() * 8 && lost(&rdma) * 100 < rdma.len() * 65,
        "{lines:#?}"
    );
    ensure!(late > 0, "{lines:#?}");
    Ok(())
}

/// All CPUs of both hosts are busy: their delays grow, nothing is lost, and the network is not told slower by as much.
fn busy(lab: &Lab, one: &Vm, two: &Vm) -> Result<()> {
    results(one, 4)?;
    let calm = results(one, 5)?;
    let hog = "(for n in 1 2 3; do (while :; do :; done) & done; sleep 9; kill $(jobs -p)) >/dev/null 2>&1 &";
    for guest in [one, two] {
        guest.sh(&format!("setsid sh -c '{hog}' </dev/null"))?;
    }
    results(one, 1)?;
    let lines = results(one, 6)?;
    for guest in [one, two] {
        guest.sh("sleep 4; ps | grep -c 'while :' || true")?;
    }
    let (calm, lines) = (of(&calm, "RdmaSoftwareTime"), of(&lines, "RdmaSoftwareTime"));
    let median_of = |lines: &[&String], word| median(&values(lines, word)) / 1000;
    let hosts = |lines: &[&String]| median_of(lines, "turn") + median_of(lines, "own");
    lab.say(&format!(
        "busy CPUs: {} probes, {} lost; median network {} us (calm {}), hosts {} us (calm {})",
        lines.len(),
        lost(&lines),
        median_of(&lines, "rtt"),
        median_of(&calm, "rtt"),
        hosts(&lines),
        hosts(&calm)
    ));
    ensure!(lines.len() >= 5 && lost(&lines) <= 1, "{lines:#?}");
    let grown = |now: u64, before: u64| now.saturating_sub(before);
    let network = grown(median_of(&lines, "rtt"), median_of(&calm, "rtt"));
    ensure!(network < grown(hosts(&lines), hosts(&calm)).max(20_000), "the network is accused: {lines:#?}");
    Ok(())
}

/// A prober that is stopped loses nothing; a responder that is stopped answers nothing, and all is well after it goes on.
fn stopped(lab: &Lab, one: &Vm, two: &Vm) -> Result<()> {
    results(one, 4)?;
    one.sh("killall -STOP probe; sleep 2; killall -CONT probe")?;
    let lines = results(one, 3)?;
    let rdma = of(&lines, "RdmaSoftwareTime");
    ensure!(lost(&rdma) == 0 && rdma.len() >= 5, "after a stop of the prober: {lines:#?}");
    two.sh("killall -STOP probe")?;
    let lines = results(one, 6)?;
    two.sh("killall -CONT probe")?;
    ensure!(lost(&of(&lines, "RdmaSoftwareTime")) >= 5, "{lines:#?}");
    let late = one.sh("sleep 1; grep -c 'refused late' /out || true")?;
    results(one, 4)?;
    let lines = results(one, 3)?;
    let rdma = of(&lines, "RdmaSoftwareTime");
    lab.say(&format!(
        "stopped and continued: {} probes, {} lost, late answers told {late} times",
        rdma.len(),
        lost(&rdma)
    ));
    ensure!(lost(&rdma) <= 2 && rdma.len() >= 5, "{lines:#?}");
    Ok(())
}

/// `rdma link del` does not wait for the prober, at either end; the new device is probed and answers with its new queue pair.
fn replaced(lab: &Lab, one: &Vm, two: &Vm, target: &dyn Fn(u32) -> String) -> Result<()> {
    for (round, guest) in [two, one, two].into_iter().enumerate() {
        let begin = Instant::now();
        guest.sh("rdma link del rxe0")?;
        let took = begin.elapsed().as_millis();
        lab.say(&format!("{}: `rdma link del` returned after {took} ms", guest.name));
        ensure!(took < 5000, "the removal waited {took} ms for the prober");
        guest.sh("rdma link add rxe0 type rxe netdev fab0")?;
        // The old port fails first, then the new one opens.
        lab.wait("the new device to be probed", Duration::from_secs(60), || {
            let open = guest
                .sh("pidof probe >/dev/null && rdma res show qp link rxe0 | grep -c 'type UD.*comm probe' || true")?;
            Ok((open == "8").then_some(()))
        })?;
        guest.sh("sleep 2")?;
        one.write("/targets", &target(offer(lab, two)?.0))?;
        results(one, 4)?;
        let lines = results(one, 3)?;
        let rdma = of(&lines, "RdmaSoftwareTime");
        ensure!(rdma.len() >= 5 && lost(&rdma) <= 2, "round {round}: {lines:#?}");
    }
    Ok(())
}
