//! The test bed: a collector, and agents that read simulated hosts, each behind its own TCP proxy.

use super::proxy::Proxy;
use super::service::Service;
use crate::demo::{Binaries, create_trees};
use crate::sim::fabric::Fabric;
use crate::sim::layout::host_name;
use crate::steps::{call, command, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Memory disks in MiB, fixed and per host: collector data and agent spools (which faults fill), and the simulated hosts.
const DISKS: [(&str, usize, usize); 3] = [("data", 2048, 32), ("spools", 1024, 8), ("hosts", 256, 8)];
/// First listening port. It is below the ephemeral range, so that a restarted service finds its port free.
const FIRST_PORT: u16 = 20_000;
/// Agent settings that make it spool after seconds and send the spool soon.
const AGENT: [(&str, &str); 4] =
    [("SAMPLING_RING_SECTIONS", "600"), ("SPOOL_AFTER", "1s"), ("SPOOL_JITTER", "1s"), ("SPOOL_RATE", "4MiB")];
/// Series that is searched for gaps: of a device that no fault touches, from a file that the agent keeps open (the simulated
/// `ethtool -S` is a file that is opened each time; a real one is a socket).
pub const GAP_SERIES: &str = "fabric_cnp_packets_total{host=~\"gpu-.*\",direction=\"transmit\",device=\"mlx5_3\"}";
/// Longest wait. A slower recovery is an error, one of five times this aborts the run.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The running services.
pub struct TestBed {
    pub dir: PathBuf,
    pub collector: Service,
    pub agents: Vec<Service>,
    pub proxies: Vec<Proxy>,
    /// File system of the first device's counters, which can be stopped; none without FUSE.
    pub device: Option<Service>,
    /// Base URL of the collector.
    pub url: String,
    /// Collector ports: HTTP, OTLP/gRPC, OTLP/HTTP.
    pub ports: [u16; 3],
    /// HTTP port of each agent.
    pub agent_ports: Vec<u16>,
    /// Longest time until a sample of another sender may be acknowledged while a client attacks (99th percentile).
    pub delay: Duration,
    /// The program of switches that answer gNMI.
    pub gnmi_target: PathBuf,
    /// The program `fabriclens-load`, and the number of hosts that it simulated last.
    pub load: PathBuf,
    pub load_hosts: usize,
    stop: Arc<AtomicBool>,
    hosts: Option<std::thread::JoinHandle<Result<()>>>,
}

impl TestBed {
    /// Starts all services; returns when samples of every host are stored.
    pub fn start(programs: &Path, dir: &Path, hosts: usize, delay: Duration) -> Result<Self> {
        let (binaries, logs) = (Binaries::of(programs), dir.join("logs"));
        fs::create_dir_all(&logs)?;
        for (name, all, each) in DISKS {
            let at = dir.join(name);
            fs::create_dir_all(&at)?;
            let size = format!("size={}m", all + each * hosts);
            call("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &at.display().to_string()])?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut trees = create_trees(dir, hosts)?;
        let device = blocking_device(dir, &logs)?;
        // Many hosts are updated less often, so that a small machine keeps up.
        let tick = Duration::from_millis(100) * u32::try_from(hosts.div_ceil(16))?;
        let simulator = std::thread::spawn({
            let stop = stop.clone();
            move || crate::sim::run(&Mutex::new(Fabric::new()), &mut trees, tick.min(Duration::from_millis(500)), &stop)
        });

        let ports = [0, 1, 2].map(|n| FIRST_PORT + n);
        let [http, grpc, otlp] = ports.map(|port| format!("127.0.0.1:{port}"));
        let data = dir.join("data/collector").display().to_string();
        let args = ["serve", "--data", &data, "--http", &http, "--otlp-grpc", &grpc, "--otlp-http", &otlp];
        let mut bed = Self {
            dir: dir.to_owned(),
            collector: Service::new("collector", &binaries.collector, &args, &logs),
            agents: Vec::new(),
            proxies: Vec::new(),
            device,
            url: format!("http://{http}"),
            ports,
            agent_ports: Vec::new(),
            delay,
            gnmi_target: binaries.gnmi_target.clone(),
            load: programs.join("fabriclens-load"),
            load_hosts: 0,
            stop,
            hosts: Some(simulator),
        };
        bed.collector.start()?;
        bed.wait_ready()?;
        for host in 0..hosts {
            let (name, proxy, port) = (host_name(host), Proxy::to(ports[1])?, FIRST_PORT + 3 + u16::try_from(host)?);
            let (tree, to) = (dir.join("hosts").join(&name), format!("http://127.0.0.1:{}", proxy.port));
            let (tree, listen) = (tree.display().to_string(), format!("127.0.0.1:{port}"));
            let args = ["run", "--root", &tree, "--collector", &to, "--http", &listen];
            let mut agent = Service::new(&name, &binaries.agent, &args, &logs);
            let spool = dir.join("spools").join(&name);
            fs::create_dir(&spool)?;
            let (spool, prefix) = (spool.display().to_string(), "FABRICLENS_AGENT_");
            agent.env = AGENT.iter().map(|(name, value)| format!("{prefix}{name}={value}")).collect();
            agent.env.push(format!("{prefix}SPOOL_DIR={spool}"));
            agent.start()?;
            bed.agents.push(agent);
            bed.proxies.push(proxy);
            bed.agent_ports.push(port);
        }
        bed.wait_fresh()?;
        Ok(bed)
    }

    /// Ends the collector, starts it with its present arguments and environment, and waits until it has recovered.
    pub fn restart_collector(&mut self) -> Result<()> {
        self.collector.end(TIMEOUT)?;
        self.collector.start()?;
        self.wait_ready()?;
        self.wait_fresh().map(drop)
    }

    /// Waits until the collector is ready; gives the time that it took.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        while get(&format!("{}/readyz", self.url)).map_or(true, |(code, _)| code != 200) {
            ensure!(self.collector.is_alive(), "the collector has ended; see {}", self.dir.join("logs").display());
            ensure!(begin.elapsed() < TIMEOUT, "the collector is not ready after {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(begin.elapsed())
    }

    /// Waits until each host has a stored sample newer than this call and all spools are empty; gives the time that it took.
    pub fn wait_fresh(&self) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let late = lag(&self.url, self.agents.len());
            if late.as_ref().is_ok_and(|late| *late < begin.elapsed().as_secs_f64())
                && self.spooled().is_ok_and(|bytes| bytes == 0.0)
            {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > 5 * TIMEOUT {
                bail!("samples are late by {late:?} s, and {:?} bytes are spooled", self.spooled());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Bytes in the agents' spools.
    pub fn spooled(&self) -> Result<f64> {
        self.agents_sum("fabriclens_agent_spool_size_bytes")
    }

    /// The `/metrics` page of an agent.
    pub fn agent_metrics(&self, host: usize) -> Result<String> {
        Ok(get(&format!("http://127.0.0.1:{}/metrics", self.agent_ports[host]))?.1)
    }

    /// Sum of a metric over all agents.
    pub fn agents_sum(&self, name: &str) -> Result<f64> {
        (0..self.agents.len()).map(|host| Ok(sum_of(&self.agent_metrics(host)?, name))).sum()
    }

    /// Result of an instant query.
    pub fn ask(&self, query: &str) -> Result<Vec<Value>> {
        result(&self.url, query)
    }

    /// Result of an instant query at a time in Unix seconds, independent of the collector's clock.
    pub fn ask_at(&self, query: &str, at: f64) -> Result<Vec<Value>> {
        result_of(api(&self.url, "query", &[("query", query), ("time", &at.to_string())])?)
    }

    /// Answer of the collector's API.
    pub fn api(&self, path: &str) -> Result<Value> {
        api(&self.url, path, &[])
    }

    /// Stops all services; an error names one that did not stop on SIGTERM.
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

/// Serves the first device's counters from a FUSE file system that can be stopped; none without FUSE.
fn blocking_device(dir: &Path, logs: &Path) -> Result<Option<Service>> {
    if !crate::setup::ensure(&crate::setup::BINDFS)? || !Path::new("/dev/fuse").exists() {
        return Ok(None);
    }
    let counters = device_of(dir, 0, 0).canonicalize()?.join("ports/1/counters");
    let (at, behind) = (counters.display().to_string(), counters.with_file_name("counters.behind"));
    // The simulator writes to the open directory, the agent reads by the path.
    fs::rename(&counters, &behind)?;
    fs::create_dir(&counters)?;
    let args = ["-f", "-o", "direct_io,attr_timeout=0,entry_timeout=0", &behind.display().to_string(), &at];
    let mut device = Service::new("device", Path::new("bindfs"), &args, logs);
    device.start()?;
    let begin = Instant::now();
    while !counters.join("port_rcv_data").exists() {
        ensure!(begin.elapsed() < TIMEOUT, "bindfs shows nothing at {at}; its log is in {}", logs.display());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(Some(device))
}

/// Path of an RDMA device in the tree of a host.
pub fn device_of(dir: &Path, host: usize, rail: usize) -> PathBuf {
    dir.join("hosts").join(host_name(host)).join(format!("sys/class/infiniband/mlx5_{rail}"))
}

/// Age in seconds of the newest sample of the host furthest behind.
pub fn lag(url: &str, hosts: usize) -> Result<f64> {
    let newest = result(url, &format!("max by (host) (timestamp({GAP_SERIES}))"))?;
    let newest: Vec<f64> = newest.iter().filter_map(|one| one["value"][1].as_str()?.parse().ok()).collect();
    ensure!(newest.len() == hosts, "there are samples of {} hosts, not of {hosts}", newest.len());
    Ok(now() - newest.into_iter().fold(f64::INFINITY, f64::min))
}

/// Result of an instant query.
fn result(url: &str, query: &str) -> Result<Vec<Value>> {
    result_of(api(url, "query", &[("query", query)])?).with_context(|| query.to_owned())
}

fn result_of(answer: Value) -> Result<Vec<Value>> {
    answer["data"]["result"].as_array().cloned().with_context(|| answer.to_string())
}

fn api(url: &str, path: &str, query: &[(&str, &str)]) -> Result<Value> {
    let request = ureq::get(format!("{url}/api/v1/{path}")).config().timeout_global(Some(TIMEOUT)).build();
    let mut answer = query.iter().fold(request, |request, (key, value)| request.query(*key, *value)).call()?;
    Ok(serde_json::from_str(&answer.body_mut().read_to_string()?)?)
}

/// Status and body of an answer; an error status is no error.
pub fn get(url: &str) -> Result<(u16, String)> {
    let request = ureq::get(url).config().http_status_as_error(false).timeout_global(Some(Duration::from_secs(5)));
    let mut answer = request.build().call()?;
    Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
}

/// Sum of a metric's series in Prometheus' text format.
pub fn sum_of(text: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
        rest.rsplit('}').next()?.split_whitespace().next()?.parse::<f64>().ok()
    };
    // A sum of nothing is -0.
    text.lines().filter_map(value).sum::<f64>() + 0.0
}

/// Limit of open files of a process, as `prlimit` prints it.
pub fn soft_limit(process: u32) -> Result<String> {
    output(command("prlimit", &["--pid", &process.to_string(), "--nofile", "--output", "SOFT", "--noheadings"]))
}

/// Number of open files of a process.
pub fn fds(process: u32) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

/// Current Unix seconds.
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
