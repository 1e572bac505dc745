//! What is hurt: a collector and agents that read simulated hosts, each behind a wire of its own.

use super::unit::Unit;
use super::wire::Wire;
use crate::demo::{Binaries, create_trees};
use crate::sim::fabric::Fabric;
use crate::sim::tree::host_name;
use crate::steps::{command, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Disks, in MiB, and as much more for each host: of the collector's data and of the agents' spools, so that they can be
/// filled, and of the hosts' files, so that those cost little.
const DISKS: [(&str, usize, usize); 3] = [("data", 2048, 32), ("spools", 1024, 8), ("hosts", 256, 8)];
/// Where the first of them listens: this network is its own, and no connection is given a port below 32768 at its near end,
/// so each can have its port again when it starts again.
const FIRST_PORT: u16 = 20_000;
/// Of each agent: what waits in memory while the collector is away is some seconds, so that the spool is needed soon, and
/// what is on disk is sent soon.
const AGENT: [(&str, &str); 4] =
    [("SAMPLING_RING_SECTIONS", "600"), ("SPOOL_AFTER", "1s"), ("SPOOL_JITTER", "1s"), ("SPOOL_RATE", "4MiB")];
/// The series by which it is seen whether samples are missing: of a device that no fault touches, from a file that stays
/// open. The `ethtool -S` of a simulated host is one that is opened each time; a real one is a socket.
pub const WITNESS: &str = "fabric_cnp_packets_total{host=~\"gpu-.*\",direction=\"transmit\",device=\"mlx5_3\"}";
/// Longest time for anything that is waited for. What is late by more is wrong; by five times that, the end of the run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that runs.
pub struct Stage {
    pub dir: PathBuf,
    pub collector: Unit,
    pub agents: Vec<Unit>,
    pub wires: Vec<Wire>,
    /// Serves the counters of the first host's first device; where it cannot be, no device blocks.
    pub device: Option<Unit>,
    /// Where the collector answers.
    pub url: String,
    /// Where its listeners are: HTTP, OTLP/gRPC, OTLP/HTTP.
    pub ports: [u16; 3],
    /// Where each agent answers.
    pub agent_ports: Vec<u16>,
    /// The program that sends more than the fleet does, and how many hosts that were.
    pub load: PathBuf,
    pub load_hosts: usize,
    stop: Arc<AtomicBool>,
    hosts: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Stage {
    /// Starts all; returns when samples of every host are stored.
    pub fn start(programs: &Path, dir: &Path, hosts: usize) -> Result<Self> {
        let (binaries, logs) = (Binaries::of(programs), dir.join("logs"));
        fs::create_dir_all(&logs)?;
        for (name, all, each) in DISKS {
            let at = dir.join(name);
            fs::create_dir_all(&at)?;
            let size = format!("size={}m", all + each * hosts);
            super::call("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &at.display().to_string()])?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut trees = create_trees(dir, hosts)?;
        let device = blocking_device(dir, &logs)?;
        // More hosts than a small machine can write for each tenth of a second move in larger steps.
        let tick = Duration::from_millis(100) * u32::try_from(hosts.div_ceil(16))?;
        let simulator = std::thread::spawn({
            let stop = stop.clone();
            move || crate::sim::run(&Mutex::new(Fabric::new()), &mut trees, tick.min(Duration::from_millis(500)), &stop)
        });

        let ports = [0, 1, 2].map(|n| FIRST_PORT + n);
        let [http, grpc, otlp] = ports.map(|port| format!("127.0.0.1:{port}"));
        let data = dir.join("data/collector").display().to_string();
        let args = ["serve", "--data", &data, "--http", &http, "--otlp-grpc", &grpc, "--otlp-http", &otlp];
        let mut stage = Self {
            dir: dir.to_owned(),
            collector: Unit::new("collector", &binaries.collector, &args, &logs),
            agents: Vec::new(),
            wires: Vec::new(),
            device,
            url: format!("http://{http}"),
            ports,
            agent_ports: Vec::new(),
            load: programs.join("fabriclens-load"),
            load_hosts: 0,
            stop,
            hosts: Some(simulator),
        };
        stage.collector.start()?;
        stage.wait_ready()?;
        for host in 0..hosts {
            let (name, wire, port) = (host_name(host), Wire::to(ports[1])?, FIRST_PORT + 3 + u16::try_from(host)?);
            let (tree, to) = (dir.join("hosts").join(&name), format!("http://127.0.0.1:{}", wire.port));
            let (tree, listen) = (tree.display().to_string(), format!("127.0.0.1:{port}"));
            let args = ["run", "--root", &tree, "--collector", &to, "--http", &listen];
            let mut agent = Unit::new(&name, &binaries.agent, &args, &logs);
            let spool = dir.join("spools").join(&name);
            fs::create_dir(&spool)?;
            let (spool, prefix) = (spool.display().to_string(), "FABRICLENS_AGENT_");
            agent.env = AGENT.iter().map(|(name, value)| format!("{prefix}{name}={value}")).collect();
            agent.env.push(format!("{prefix}SPOOL_DIR={spool}"));
            agent.start()?;
            stage.agents.push(agent);
            stage.wires.push(wire);
            stage.agent_ports.push(port);
        }
        stage.wait_fresh()?;
        Ok(stage)
    }

    /// Waits until the collector says that it takes samples; tells how long that took.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        while get(&format!("{}/readyz", self.url)).map_or(true, |(code, _)| code != 200) {
            ensure!(self.collector.is_alive(), "the collector has ended; see {}", self.dir.join("logs").display());
            ensure!(begin.elapsed() < PATIENCE, "the collector is not ready after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(begin.elapsed())
    }

    /// Waits until each host has a sample that was taken since, and nothing waits on an agent's disk; tells how long that took.
    pub fn wait_fresh(&self) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let late = lag(&self.url, self.agents.len());
            if late.as_ref().is_ok_and(|late| *late < begin.elapsed().as_secs_f64())
                && self.spooled().is_ok_and(|bytes| bytes == 0.0)
            {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > 5 * PATIENCE {
                bail!("samples are late by {late:?} s, and {:?} bytes wait on disks", self.spooled());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Bytes that wait in the agents' spools.
    pub fn spooled(&self) -> Result<f64> {
        self.agents_sum("fabriclens_agent_spool_size_bytes")
    }

    /// What an agent tells of itself.
    pub fn agent_metrics(&self, host: usize) -> Result<String> {
        Ok(get(&format!("http://127.0.0.1:{}/metrics", self.agent_ports[host]))?.1)
    }

    /// The sum of a metric of all agents.
    pub fn agents_sum(&self, name: &str) -> Result<f64> {
        (0..self.agents.len()).map(|host| Ok(sum_of(&self.agent_metrics(host)?, name))).sum()
    }

    /// The result of an instant query.
    pub fn ask(&self, query: &str) -> Result<Vec<Value>> {
        result(&self.url, query)
    }

    /// The same of a query at a time, seconds since 1970, whatever the collector's clock says.
    pub fn ask_at(&self, query: &str, at: f64) -> Result<Vec<Value>> {
        result_of(api(&self.url, "query", &[("query", query), ("time", &at.to_string())])?)
    }

    /// An answer of the collector's API.
    pub fn api(&self, path: &str) -> Result<Value> {
        api(&self.url, path, &[])
    }

    /// Ends all, politely; an error names who did not end so.
    pub fn end(mut self) -> Result<()> {
        let agents = self.agents.iter_mut().try_for_each(|agent| agent.end(Duration::from_secs(20)).map(|_| ()));
        let collector = self.collector.end(Duration::from_secs(20)).map(|_| ());
        self.stop.store(true, Ordering::SeqCst);
        let hosts = self.hosts.take().map_or(Ok(()), |thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the simulated hosts panicked")))
        });
        agents.and(collector).and(hosts)
    }
}

/// Serves the first device's counters from a file system that can be stopped, where this machine has one.
fn blocking_device(dir: &Path, logs: &Path) -> Result<Option<Unit>> {
    if !crate::setup::ensure(&crate::setup::BINDFS)? || !Path::new("/dev/fuse").exists() {
        return Ok(None);
    }
    let counters = super::faults::device_of(dir, 0, 0).canonicalize()?.join("ports/1/counters");
    let (at, behind) = (counters.display().to_string(), counters.with_file_name("counters.behind"));
    // The tree writes below the folder that it holds open; readers come by the path.
    fs::rename(&counters, &behind)?;
    fs::create_dir(&counters)?;
    let args = ["-f", "-o", "direct_io,attr_timeout=0,entry_timeout=0", &behind.display().to_string(), &at];
    let mut device = Unit::new("device", Path::new("bindfs"), &args, logs);
    device.start()?;
    let begin = Instant::now();
    while !counters.join("port_rcv_data").exists() {
        ensure!(begin.elapsed() < PATIENCE, "bindfs shows nothing at {at}; its log is in {}", logs.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Some(device))
}

/// Age of the newest sample of the host that is furthest behind, seconds.
pub fn lag(url: &str, hosts: usize) -> Result<f64> {
    let newest = result(url, &format!("max by (host) (timestamp({WITNESS}))"))?;
    let newest: Vec<f64> = newest.iter().filter_map(|one| one["value"][1].as_str()?.parse().ok()).collect();
    ensure!(newest.len() == hosts, "there are samples of {} hosts, not of {hosts}", newest.len());
    Ok(now() - newest.into_iter().fold(f64::INFINITY, f64::min))
}

/// The result of an instant query.
fn result(url: &str, query: &str) -> Result<Vec<Value>> {
    result_of(api(url, "query", &[("query", query)])?).with_context(|| query.to_owned())
}

fn result_of(answer: Value) -> Result<Vec<Value>> {
    answer["data"]["result"].as_array().cloned().with_context(|| answer.to_string())
}

fn api(url: &str, path: &str, query: &[(&str, &str)]) -> Result<Value> {
    let request = ureq::get(format!("{url}/api/v1/{path}")).config().timeout_global(Some(PATIENCE)).build();
    let mut answer = query.iter().fold(request, |request, (key, value)| request.query(*key, *value)).call()?;
    Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
}

/// Status and body of an answer, whatever the status.
pub fn get(url: &str) -> Result<(u16, String)> {
    let request = ureq::get(url).config().http_status_as_error(false).timeout_global(Some(Duration::from_secs(5)));
    let mut answer = request.build().call()?;
    Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
}

/// The sum of a metric's series in Prometheus' text.
pub fn sum_of(text: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit('}').next()?.split_whitespace().next()?.parse::<f64>().ok()
    };
    text.lines().filter_map(value).sum()
}

/// How many files a process may have open, as `prlimit` prints it.
pub fn soft_limit(process: u32) -> Result<String> {
    output(command("prlimit", &["--pid", &process.to_string(), "--nofile", "--output", "SOFT", "--noheadings"]))
}

/// How many it has.
pub fn fds(process: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_metric_are_added() {
        let text = "# HELP a_total x\na_total{x=\"1}\"} 2\na_total 3 17\na_total_more 9\n";
        assert_eq!(sum_of(text, "a_total"), 5.0);
        assert_eq!(sum_of(text, "b"), 0.0);
    }
}
