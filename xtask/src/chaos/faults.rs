//! What is done to the stage: a row a fault.

mod clock;

use super::peers;
use super::stage::{PATIENCE, Stage, fds, get, lag, now, soft_limit, sum_of};
use super::unit::Unit;
use super::{Random, call};
use crate::sim::tree::host_name;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For how many seconds without a collector samples wait in an agent's memory alone: its `spool.after`.
const IN_MEMORY: f64 = 30.0;

/// A fault.
pub struct Fault {
    pub name: &'static str,
    /// What must be so, besides what always must.
    pub expected: &'static str,
    /// Does it, for about so long, and takes it back; tells what was seen.
    pub does: fn(&mut Stage, &mut Random, Duration) -> Result<Seen>,
}

/// What was seen of a fault.
#[derive(Default)]
pub struct Seen {
    /// For the table.
    pub observed: String,
    /// Hosts that could not sample, and when, seconds since 1970: nobody can send what was never taken.
    pub silent: Vec<(usize, f64, f64)>,
    /// Why it could not be done on this machine.
    pub skipped: Option<String>,
}

impl Seen {
    fn of(observed: impl Into<String>) -> Result<Self> {
        Ok(Self { observed: observed.into(), ..Self::default() })
    }

    fn silent(observed: String, silent: Vec<(usize, f64, f64)>) -> Result<Self> {
        Ok(Self { observed, silent, skipped: None })
    }

    fn skipped(why: &str) -> Result<Self> {
        Ok(Self { skipped: Some(why.to_owned()), ..Self::default() })
    }
}

/// Every fault, in the order of a short run.
pub const ALL: &[Fault] = &[
    Fault {
        name: "none",
        expected: "calm",
        does: |_, _, hold| {
            std::thread::sleep(hold);
            Seen::of("calm")
        },
    },
    Fault {
        name: "collector-killed",
        expected: "it starts within 5 s; what it acknowledged is there; agents say that it is away",
        does: |stage, _, hold| {
            stage.collector.kill();
            let said = agents_say(stage, "the collector has been away", hold)?;
            stage.collector.start()?;
            let took = stage.wait_ready()?;
            ensure!(took < Duration::from_secs(5), "it took {took:?} to start");
            Seen::of(format!("ready after {:.2} s; {said}", took.as_secs_f64()))
        },
    },
    Fault {
        name: "collector-restarted",
        expected: "it ends by itself, and no series has a gap",
        does: |stage, _, _| {
            let ended = stage.collector.end(PATIENCE)?;
            stage.collector.start()?;
            let ready = stage.wait_ready()?;
            Seen::of(format!("ended in {:.2} s, ready in {:.2} s", ended.as_secs_f64(), ready.as_secs_f64()))
        },
    },
    Fault {
        name: "collector-away",
        expected: "agents keep samples on disk, and send them when it is back",
        does: |stage, _, hold| {
            stage.collector.end(PATIENCE)?;
            std::thread::sleep(2 * hold);
            let waits = stage.spooled()?;
            ensure!(waits > 0.0, "no agent has samples on disk after {:?}", 2 * hold);
            stage.collector.start()?;
            stage.wait_ready()?;
            let back = stage.wait_fresh()?;
            Seen::of(format!(
                "{:.2} MB waited on disks, sent {:.1} s after it was back",
                waits / 1e6,
                back.as_secs_f64()
            ))
        },
    },
    Fault {
        name: "collector-stopped",
        expected: "agents do not wait for an answer for ever, and nothing is lost",
        does: |stage, _, hold| {
            stage.collector.signal("STOP")?;
            let said = agents_say(stage, "the collector has been away", hold.max(Duration::from_secs(15)));
            stage.collector.signal("CONT")?;
            Seen::of(said?)
        },
    },
    Fault {
        name: "agent-killed",
        expected: "it goes on; only the time without it is missing",
        does: |stage, random, _| {
            let host = random.below(stage.agents.len());
            let silent = kill_agent(stage, host)?;
            Seen::silent(format!("{} without an agent for {:.1} s", host_name(host), silent.2 - silent.1), vec![silent])
        },
    },
    Fault {
        name: "agent-stopped",
        expected: "it goes on; only that time is missing, and no rate leaps",
        does: |stage, random, hold| {
            let (host, from) = (random.below(stage.agents.len()), now());
            stage.agents[host].signal("STOP")?;
            std::thread::sleep(hold);
            stage.agents[host].signal("CONT")?;
            Seen::silent(format!("{} stood still for {hold:?}", host_name(host)), vec![(host, from, now() + 1.0)])
        },
    },
    Fault {
        name: "random-kills",
        expected: "each start is a start like others",
        does: |stage, random, hold| {
            let (begin, mut silent, mut kills, mut slowest) = (Instant::now(), Vec::new(), [0, 0], Duration::ZERO);
            while begin.elapsed() < 2 * hold {
                if random.below(3) == 0 {
                    stage.collector.kill();
                    stage.collector.start()?;
                    // Sometimes while it is still starting.
                    if random.below(2) == 0 {
                        slowest = slowest.max(stage.wait_ready()?);
                    }
                    kills[0] += 1;
                } else {
                    let host = random.below(stage.agents.len());
                    silent.push(kill_agent(stage, host)?);
                    kills[1] += 1;
                }
                std::thread::sleep(Duration::from_millis(random.below(1500) as u64));
            }
            stage.wait_ready()?;
            let starts = format!("slowest start {:.2} s", slowest.as_secs_f64());
            Seen::silent(format!("killed: collector {}, agents {}; {starts}", kills[0], kills[1]), silent)
        },
    },
    Fault {
        name: "partition",
        expected: "hosts that cannot reach it keep samples; others go on",
        does: |stage, random, hold| {
            if !crate::setup::ensure(&crate::setup::NETWORK)? {
                return Seen::skipped("no nft");
            }
            let first = random.below(stage.wires.len());
            let ports: Vec<u16> =
                stage.wires.iter().cycle().skip(first).take(stage.wires.len().div_ceil(3)).map(|w| w.port).collect();
            let set = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            let rules = format!(
                "add table inet chaos; add chain inet chaos in {{ type filter hook input priority 0; }}; \
                 add rule inet chaos in tcp dport {{ {set} }} drop; add rule inet chaos in tcp sport {{ {set} }} drop"
            );
            call("nft", &[&rules])?;
            std::thread::sleep(2 * hold);
            call("nft", &["delete table inet chaos"])?;
            Seen::of(format!("{} hosts cut off for {:?}", ports.len(), 2 * hold))
        },
    },
    Fault {
        name: "slow-wire",
        expected: "samples are late, and none is missing",
        does: |stage, _, hold| {
            stage.wires.iter().for_each(|wire| wire.delay(Duration::from_millis(400)));
            std::thread::sleep(hold);
            let lag = lag(&stage.url, stage.agents.len());
            stage.wires.iter().for_each(|wire| wire.delay(Duration::ZERO));
            Seen::of(format!("0.4 s each way; the furthest behind was {:.1} s", lag?))
        },
    },
    Fault {
        name: "broken-connections",
        expected: "what was not acknowledged is sent again",
        does: |stage, _, hold| {
            let (begin, mut cuts) = (Instant::now(), 0);
            while begin.elapsed() < hold {
                stage.wires.iter().for_each(super::wire::Wire::cut);
                std::thread::sleep(Duration::from_millis(300));
                stage.wires.iter().for_each(|wire| wire.delay(Duration::ZERO));
                std::thread::sleep(Duration::from_millis(700));
                cuts += 1;
            }
            Seen::of(format!("all connections broken {cuts} times"))
        },
    },
    Fault {
        name: "collector-disk-full",
        expected: "it says so and takes nothing that it cannot keep; then it goes on",
        does: |stage, _, hold| {
            let ballast = fill(&stage.dir.join("data"))?;
            let said = says_full(stage, hold.max(Duration::from_secs(15)));
            fs::remove_file(ballast)?;
            Seen::of(format!("/readyz: {}", said?))
        },
    },
    Fault {
        name: "spool-disk-full",
        expected: "the agent goes on with its memory, and counts what it drops",
        does: |stage, _, hold| {
            let (ballast, from) = (fill(&stage.dir.join("spools"))?, now());
            stage.collector.end(PATIENCE)?;
            let said = agents_say(stage, "the spool", PATIENCE);
            std::thread::sleep(hold);
            fs::remove_file(ballast)?;
            stage.collector.start()?;
            stage.wait_ready()?;
            let dropped = stage.agents_sum("fabriclens_agent_uplink_dropped_total")?;
            // Nothing but memory could keep them.
            let silent = (0..stage.agents.len()).map(|host| (host, from, now() + 2.0)).collect();
            Seen::silent(format!("{dropped:.0} points dropped and counted; {}", said?), silent)
        },
    },
    Fault {
        name: "no-more-files",
        expected: "no new connection, no loss; then it goes on",
        does: |stage, _, hold| {
            let ids: Vec<u32> =
                [&stage.collector].into_iter().chain(&stage.agents).map(Unit::id).collect::<Result<_>>()?;
            let limit =
                |id: u32, files: &str| call("prlimit", &["--pid", &id.to_string(), &format!("--nofile={files}:")]);
            let usual = ids.iter().map(|id| soft_limit(*id)).collect::<Result<Vec<_>>>()?;
            let open = ids.iter().map(|id| fds(*id)).collect::<Result<Vec<_>>>()?;
            ids.iter().zip(&open).try_for_each(|(id, open)| limit(*id, &open.to_string()))?;
            // Each of these wants one more.
            let peers: Vec<_> = (0..50).map(|_| TcpStream::connect(("127.0.0.1", stage.ports[0]))).collect();
            std::thread::sleep(hold);
            drop(peers);
            ids.iter().zip(&usual).try_for_each(|(id, usual)| limit(*id, usual))?;
            let open = open[0];
            Seen::of(format!("no file more than are open ({open} of the collector) for {hold:?}"))
        },
    },
    Fault {
        name: "clock-steps",
        expected: "the agent notices each step of its clock, and the collector stays calm",
        does: clock::agent_steps,
    },
    Fault {
        name: "collector-clock",
        expected: "nothing is removed for its age, nobody is turned away, questions are answered; it tells of each step",
        does: clock::collector_steps,
    },
    Fault {
        name: "device-blocks",
        expected: "its other devices go on, and the agent says which one is stuck",
        does: |stage, _, hold| {
            let Some(device) = &stage.device else { return Seen::skipped("no FUSE or no bindfs here") };
            device.signal("STOP")?;
            std::thread::sleep(hold.max(Duration::from_secs(5)));
            let said = agent_says(stage, 0, "stuck");
            device.signal("CONT")?;
            Seen::of(said?)
        },
    },
    Fault {
        name: "unplug-storm",
        expected: "other devices go on; it is back when it stays",
        does: |stage, random, hold| {
            let (begin, mut times) = (Instant::now(), 0);
            while begin.elapsed() < hold {
                let (host, rail) = (random.below(stage.agents.len()), 4 + random.below(4));
                let places = [device_of(&stage.dir, host, rail), netdev_of(&stage.dir, host, rail)];
                let gone = places.clone().map(|p| p.with_file_name(format!(".gone-{rail}")));
                places.iter().zip(&gone).try_for_each(|(here, gone)| fs::rename(here, gone))?;
                std::thread::sleep(Duration::from_millis(50 + random.below(400) as u64));
                places.iter().zip(&gone).try_for_each(|(here, gone)| fs::rename(gone, here))?;
                times += 1;
            }
            Seen::of(format!("{times} times"))
        },
    },
    Fault {
        name: "malformed-peers",
        expected: "each is refused, and nobody else notices",
        does: |stage, random, hold| {
            let [http, grpc, otlp] = stage.ports;
            let told = peers::trouble(&[http, grpc, otlp, stage.agent_ports[0]], random, hold)?;
            Seen::of(told)
        },
    },
    Fault {
        name: "ten-fold-load",
        expected: "the fleet's samples are stored, whatever else comes",
        does: |stage, _, hold| {
            if !stage.load.exists() {
                return Seen::skipped("fabriclens-load is not built");
            }
            let done = load(stage, 10 * stage.agents.len(), 2 * hold)?.wait_with_output()?;
            ensure!(done.status.success(), "the sender: {}", String::from_utf8_lossy(&done.stderr).trim());
            let last = String::from_utf8_lossy(&done.stdout).lines().last().unwrap_or_default().to_owned();
            let told: serde_json::Value = serde_json::from_str(&last).context("read what the sender tells")?;
            Seen::of(format!(
                "{} hosts more, {} samples, {} acknowledged",
                stage.load_hosts, told["samples"], told["acked"]
            ))
        },
    },
    Fault {
        name: "memory-short",
        expected: "as many hosts as fit are served, those first that were there; memory stays below the limit",
        does: |stage, _, hold| {
            if !stage.load.exists() {
                return Seen::skipped("fabriclens-load is not built");
            }
            let limit = LEAST_LIMIT.max(2 * stage.collector.process()?.size()?.anonymous);
            stage.collector.env.push(format!("FABRICLENS_LIMITS_MEMORY={}MiB", limit >> 20));
            let seen = short_of_memory(stage, hold, limit as f64);
            stage.collector.env.pop();
            stage.collector.end(PATIENCE)?;
            stage.collector.start()?;
            stage.wait_ready()?;
            seen
        },
    },
];

/// The least limit of memory that the collector takes, in bytes.
const LEAST_LIMIT: u64 = 256 << 20;
/// More hosts of a load than fit in that.
const MANY_HOSTS: usize = 400;

/// Starts the collector anew with a limit in bytes, lets more hosts come than fit in it, and looks at those that were
/// there before.
fn short_of_memory(stage: &mut Stage, hold: Duration, limit: f64) -> Result<Seen> {
    stage.collector.end(PATIENCE)?;
    stage.collector.start()?;
    stage.wait_ready()?;
    stage.wait_fresh()?;
    let mut load = load(stage, MANY_HOSTS.max(10 * stage.agents.len()), 4 * hold)?;
    let (begin, mut most, mut latest) = (Instant::now(), 0.0_f64, 0.0_f64);
    let mut senders = [0.0; 2];
    while begin.elapsed() < 4 * hold {
        let page = get(&format!("{}/metrics", stage.url))?.1;
        most = most.max(sum_of(&page, "fabriclens_memory_bytes"));
        senders = ["fabriclens_ingest_senders", "fabriclens_ingest_senders_away"].map(|name| sum_of(&page, name));
        latest = latest.max(lag(&stage.url, stage.agents.len())?);
        std::thread::sleep(Duration::from_millis(250));
    }
    // Who is told to come back would do so for ever.
    load.kill()?;
    load.wait()?;
    let megabytes = format!("{:.0} of {:.0} MB", most / 1e6, limit / 1e6);
    ensure!(most <= limit, "memory: {megabytes}");
    let [served, away] = senders;
    ensure!(away > 0.0, "{megabytes}, and no host is told to come back");
    ensure!(latest < 10.0, "a host that was there before the others was {latest:.1} s behind");
    Seen::of(format!(
        "{megabytes}; {} hosts more: {served:.0} are served, {away:.0} told to come back; those that were there first at most \
         {latest:.1} s behind",
        stage.load_hosts
    ))
}

/// So many hosts more, for so long.
fn load(stage: &mut Stage, hosts: usize, time: Duration) -> Result<Child> {
    stage.load_hosts = hosts;
    let seconds = time.as_secs().max(5).to_string();
    let mut load = Command::new(&stage.load);
    load.args(["fleet", "--to", &format!("127.0.0.1:{}", stage.ports[1]), "--hosts", &hosts.to_string()]);
    load.args(["--seconds", &seconds, "--every", &seconds]);
    let load = load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    load.context("start the sender of the load")
}

/// The link to an RDMA device below the tree of a host.
pub fn device_of(dir: &Path, host: usize, rail: usize) -> PathBuf {
    dir.join("hosts").join(host_name(host)).join(format!("sys/class/infiniband/mlx5_{rail}"))
}

fn netdev_of(dir: &Path, host: usize, rail: usize) -> PathBuf {
    dir.join("hosts").join(host_name(host)).join(format!("sys/class/net/ens{rail}np0"))
}

/// Kills an agent, starts it, and tells which host was without one from when until when.
fn kill_agent(stage: &mut Stage, host: usize) -> Result<(usize, f64, f64)> {
    // What was not acknowledged yet is lost with it: a flush, or what waits in memory while the collector is away.
    let acked = sum_of(&stage.agent_metrics(host)?, "fabriclens_agent_uplink_last_ack_time_seconds");
    let from = acked.clamp(now() - IN_MEMORY, now()) - 1.5;
    stage.agents[host].kill();
    stage.agents[host].start()?;
    let begin = Instant::now();
    while get(&format!("http://127.0.0.1:{}/readyz", stage.agent_ports[host])).map_or(true, |(code, _)| code != 200) {
        ensure!(begin.elapsed() < PATIENCE, "the agent of {} is not ready", host_name(host));
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok((host, from, now() + 1.0))
}

/// Writes until a disk is full; the file that fills it.
fn fill(disk: &Path) -> Result<PathBuf> {
    let path = disk.join("ballast");
    let mut file = File::create(&path)?;
    for block in [1 << 20, 4096, 1] {
        let bytes = vec![b'x'; block];
        while file.write_all(&bytes).is_ok() {}
    }
    Ok(path)
}

/// Waits until `/readyz` of the collector says that it can store no samples; or, all that time, that it can write no blocks:
/// one that failed gives back what it took, and that may be enough for the log.
fn says_full(stage: &Stage, patience: Duration) -> Result<String> {
    let page = || get(&format!("{}/readyz", stage.url)).map(|(code, text)| format!("{code}, {}", text.trim()));
    let refuses = wait_for(patience, || {
        let said = page()?;
        ensure!(said.starts_with("503"), "/readyz says {said}");
        Ok(said)
    });
    refuses.or_else(|error| page().ok().filter(|said| said.contains("blocks cannot be written")).ok_or(error))
}

/// Waits until `/healthz` of each agent has these words.
fn agents_say(stage: &Stage, words: &str, patience: Duration) -> Result<String> {
    (0..stage.agents.len()).try_for_each(|host| wait_for(patience, || agent_says(stage, host, words)).map(|_| ()))?;
    agent_says(stage, 0, words)
}

fn agent_says(stage: &Stage, host: usize, words: &str) -> Result<String> {
    let (_, text) = get(&format!("http://127.0.0.1:{}/healthz", stage.agent_ports[host]))?;
    let told: serde_json::Value = serde_json::from_str(&text)?;
    let reasons = told["reasons"].as_array().into_iter().flatten().filter_map(|one| one.as_str());
    let found = reasons.into_iter().find(|one| one.contains(words)).map(str::to_owned);
    found.with_context(|| format!("/healthz of {} does not say \"{words}\": {text}", host_name(host)))
}

fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match look() {
            Err(_) if begin.elapsed() < patience => std::thread::sleep(Duration::from_millis(100)),
            end => return end,
        }
    }
}
