//! An InfiniBand subnet read in-band through the kernel's own umad device: two fake HCAs at a fake switch.

use super::watched::{ETHERNET, INFINIBAND, drive, load_as, settled};
use super::{Lab, Scenario};
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::config::Config;
use crate::lab::vm::Vm;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-umad",
    shows: "the agent reads a subnet through ib_umad: nodes, links, paths, counters; a silent node; a lost device",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// Configuration of the agent: the adapters' ports too, which the guest's own kernel answers for, and a deadline that a busy
/// host keeps.
const CONFIG: &str =
    "[ib_fabric]\nenabled = true\nadapters = true\nperiod = \"1s\"\nsweep = \"2s\"\ntimeout = \"1s\"\n";

/// ETIMEDOUT in the trace of an event.
const TIMED_OUT: &str = " status 0x0000006e ";

/// Hop count of a directed route through the switch in the trace of an event.
const TWO_HOPS: &str = " class_specific 0x0002 ";

/// Prints the subnet, by the static agent, whose C library is another one; the series are from the dynamic one.
const REPORT: &str = "agent-static ib-fabric --config /agent.toml";

fn run(lab: &Lab) -> Result<()> {
    let collector = Collector::start(&lab.programs.collector, lab.folder())?;
    // Memory for two agents.
    let guest = lab.boot(&[Config::new("hca1", 1, "hca").cards(2)])?.remove(0);
    guest.put(&lab.programs.agent, "/bin/fabriclens-agent", 0o755)?;
    guest.put(&lab.programs.agent_static, "/bin/agent-static", 0o755)?;
    guest.write(agent::CONFIG, CONFIG)?;
    // As docs/infiniband.md advises: a directory that a program made stays when the last device goes.
    guest.sh("mkdir /dev/infiniband")?;
    refused(&guest)?;
    report(lab, &guest)?;
    silent_node(lab, &guest)?;
    agent::restart(&guest, &collector)?;
    counters(lab, &guest, &collector)?;
    lost_device(lab, &guest, &collector)?;
    let trouble = guest.sh("dmesg | grep -e 'BUG:' -e 'WARNING:' -e Oops -e refcount || true")?;
    ensure!(trouble.is_empty(), "the kernel complains: {trouble}");
    Ok(())
}

/// Runs a script that must fail with `why` on standard error.
fn fails(guest: &Vm, script: &str, why: &str) -> Result<()> {
    let done = guest.exec(script, Duration::from_secs(60))?;
    ensure!(done.status != 0 && done.err.contains(why), "{script}\nwanted {why}\ngot    {done:?}");
    Ok(())
}

/// Hosts without the device, without the permission and without an active port: each is told its remedy.
fn refused(guest: &Vm) -> Result<()> {
    load_as(guest, ETHERNET)?;
    fails(guest, REPORT, "no umad device; load the kernel module ib_umad")?;
    guest.sh("rmmod fakehca")?;
    load_as(guest, INFINIBAND)?;
    guest.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")?;
    fails(
        guest,
        &format!("su nobody -c '{REPORT}'"),
        "/dev/infiniband/umad0: not permitted; let the agent read and write the device",
    )?;
    drive(guest, "mlx5_0 state down\nmlx5_1 state init")?;
    fails(guest, REPORT, "is not an active InfiniBand port")?;
    drive(guest, "mlx5_0 state active\nmlx5_1 state active")
}

/// The switch by a directed route of one hop, the other adapter (which the guest's kernel answers for) by one of two.
fn report(lab: &Lab, guest: &Vm) -> Result<()> {
    let subnet = guest.sh(REPORT)?;
    lab.say(subnet.lines().last().unwrap_or_default());
    for line in [
        "fakeleaf  0xb8cef60300001000  LID 100  4 ports\n",
        "    1  fake mlx5_0 port 1  200 Gb/s\n    2  fake mlx5_1 port 1  200 Gb/s\n",
        "mlx5_0/1: 1 switches, 2 other nodes, 2 links; ",
        ", 0 without an answer",
    ] {
        ensure!(subnet.contains(line), "no {line:?} in\n{subnet}");
    }
    guest.sh(
        "agent-static doctor --config /agent.toml | grep 'reads the subnet at mlx5_0/1, 2000 MADs a second at most'",
    )?;
    let path = guest.sh(&format!("{REPORT} --path 1 2"))?;
    ensure!(path.starts_with("fake mlx5_0 port 1\nfakeleaf port 2\n2 hops"), "path: {path}");
    Ok(())
}

/// A node without an answer costs its deadline: the kernel reports each of its requests as timed out, and no other.
fn silent_node(lab: &Lab, guest: &Vm) -> Result<()> {
    let events = "/sys/kernel/tracing/events/ib_umad/enable";
    guest.sh(&format!("echo >/sys/kernel/tracing/trace; echo 1 >{events}"))?;
    drive(guest, "mlx5_1 fail rdma 5")?;
    let subnet = guest.sh(REPORT)?;
    lab.say(subnet.lines().last().unwrap_or_default());
    drive(guest, "mlx5_1 fail rdma 0")?;
    guest.sh(&format!("echo 0 >{events}"))?;
    ensure!(
        subnet.contains("1 switches, 1 other nodes, 1 links; ") && subnet.contains(", 1 without an answer"),
        "one node is silent, its link unknown:\n{subnet}"
    );
    let trace = guest.sh("grep -o 'ib_umad_.*' /sys/kernel/tracing/trace")?;
    // Lower half of the transaction's number, of an event's line.
    let transaction = |line: &str| Some(line.split_once(" tid 0x")?.1.get(8..16)?.to_owned());
    let of = |event: &str| trace.lines().filter(|line| line.starts_with(event)).map(str::to_owned).collect::<Vec<_>>();
    let asked: Vec<_> =
        of("ib_umad_write").iter().filter(|line| line.contains(TWO_HOPS)).map(|l| transaction(l)).collect();
    let timed_out = of("ib_umad_read_send");
    ensure!(!timed_out.is_empty(), "the kernel reported no request as timed out:\n{trace}");
    for line in &timed_out {
        let silent = line.contains(TIMED_OUT) && line.contains(TWO_HOPS) && asked.contains(&transaction(line));
        ensure!(silent, "not a request to the silent node: {line}\n{trace}");
    }
    Ok(())
}

/// Counters of switch ports by LID, and of both adapters, which the guest's kernel answers for, reach the collector; also
/// while one node is silent.
fn counters(lab: &Lab, guest: &Vm, collector: &Collector) -> Result<()> {
    drive(
        guest,
        "mlx5_0 set peer_symbol_error 7\nmlx5_1 set peer_port_xmit_data 1000000000000\n\
         mlx5_0 set link_downed 2\nmlx5_1 set link_downed 3",
    )?;
    let from = guest.now_ns()?;
    for (selector, wanted) in [
        (&*errors(1), 7.0),
        (&*errors(2), 0.0),
        ("fabric_port_io_bytes_total{host=\"fakeleaf\",port=\"2\",direction=\"transmit\"}", 4e12),
        ("fabric_link_downs_total{host=\"fake\",device=\"mlx5_0\"}", 2.0),
        ("fabric_link_downs_total{host=\"fake\",device=\"mlx5_1\"}", 3.0),
        ("fabric_port_rate_bytes_per_second{host=\"fakeleaf\",port=\"1\"}", 25e9),
    ] {
        let seen = settled(lab, collector, selector, from)?;
        ensure!(seen == wanted, "{selector} is {seen}, not {wanted}");
    }
    drive(guest, "mlx5_1 fail rdma 5\nmlx5_0 set peer_symbol_error 8")?;
    let mads = |result: &str| format!("fabriclens_agent_ib_fabric_mads_total{{result=\"{result}\"}}");
    lab.wait("requests that time out", Duration::from_secs(60), || {
        Ok(collector.newest(&mads("timed_out"), from)?.filter(|&count| count >= 2.0))
    })?;
    let from = guest.now_ns()?;
    let seen = settled(lab, collector, &errors(1), from)?;
    ensure!(seen == 8.0, "counters of the switch beside a silent node: {seen}, not 8");
    // The kernel reports each request that timed out; such a report is no datagram, but a late reply is.
    let foreign = settled(lab, collector, &mads("foreign"), from)?;
    let timed_out = settled(lab, collector, &mads("timed_out"), from)?;
    ensure!(foreign < timed_out, "{foreign} datagrams answered no request, and {timed_out} requests timed out");
    drive(guest, "mlx5_1 fail rdma 0")
}

/// The driver unloads under the agent that has the device open, and the agent opens the next one. Where the devices'
/// directory is another one too, the sandbox still permits the old one, and the agent says that it must be restarted.
fn lost_device(lab: &Lab, guest: &Vm, collector: &Collector) -> Result<()> {
    guest.sh("rmmod fakehca")?;
    load_as(guest, INFINIBAND)?;
    drive(guest, "mlx5_0 set peer_symbol_error 9")?;
    let from = guest.now_ns()?;
    lab.wait("counters after the device came back", Duration::from_secs(60), || {
        Ok(collector.newest(&errors(1), from)?.filter(|&value| value == 9.0))
    })?;
    guest.sh("rmmod fakehca; rmdir /dev/infiniband")?;
    load_as(guest, INFINIBAND)?;
    lab.wait("the remedy for a new directory", Duration::from_secs(60), || {
        let health = guest.sh("wget -qO- http://127.0.0.1:7471/healthz")?;
        Ok(health.contains("restart the agent, whose sandbox is older than /dev/infiniband").then_some(()))
    })
}

/// Selector of a counter of a port of the switch.
fn errors(port: u8) -> String {
    format!("fabric_link_symbol_errors_total{{host=\"fakeleaf\",port=\"{port}\"}}")
}
