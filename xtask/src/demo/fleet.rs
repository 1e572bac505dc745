//! The processes of the demo: starts, monitors and stops them.

use crate::programs;
use crate::sim::fabric::Job;
use crate::sim::inspector;
use crate::sim::layout::{HOSTS, LEAVES, SPINES, host_name};
use crate::steps::{local_port, tied};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Paths of the programs.
pub struct Binaries {
    pub collector: PathBuf,
    pub agent: PathBuf,
    /// The switches that answer gNMI.
    pub gnmi_target: PathBuf,
}

impl Binaries {
    /// The programs in a directory.
    pub fn of(dir: &Path) -> Self {
        Self {
            collector: dir.join("fabriclens"),
            agent: dir.join("fabriclens-agent"),
            gnmi_target: dir.join(programs::GNMI_TARGET),
        }
    }
}

/// Id of the first job.
pub const FIRST_JOB: usize = 4711;

/// The running processes.
pub struct Fleet {
    children: Vec<(String, Child)>,
    pub collector_url: String,
    /// Where switches push OTLP over HTTP.
    pub otlp_url: String,
    agent_url: String,
    logs: PathBuf,
}

/// Configuration of the agent of a simulated host: it follows the files of NCCL's Inspector there.
fn agent_config(tree: &Path) -> String {
    // A JSON string is a TOML string too.
    let dir = serde_json::json!(inspector::directory(tree).display().to_string());
    format!("[collectives]\nenabled = true\nperiod = \"5s\"\ninspector_dirs = [{dir}]\n")
}

/// The wanted port if it is free, else any free port.
fn free_port(wanted: u16) -> Result<u16> {
    TcpListener::bind(("127.0.0.1", wanted)).map_or_else(|_| local_port(), |_| Ok(wanted))
}

impl Fleet {
    /// Starts the collector with this configuration, waits until it is ready, then starts the agents.
    pub fn start(binaries: &Binaries, dir: &Path, spines: Child, config: &str) -> Result<Self> {
        let (http, grpc, otlp_http, agent) = (free_port(7470)?, free_port(4317)?, free_port(4318)?, free_port(7471)?);
        let local = |port: u16| format!("127.0.0.1:{port}");
        let mut fleet = Self {
            children: vec![("spines".to_owned(), spines)],
            collector_url: format!("http://{}", local(http)),
            otlp_url: format!("http://{}", local(otlp_http)),
            agent_url: format!("http://{}", local(agent)),
            logs: dir.join("logs"),
        };
        std::fs::create_dir_all(&fleet.logs)?;
        let data = dir.join("data").display().to_string();
        let config_file = dir.join("collector.toml");
        std::fs::write(&config_file, config).with_context(|| format!("write {}", config_file.display()))?;
        fleet.spawn(
            "collector",
            &binaries.collector,
            &[
                "serve",
                "--config",
                &config_file.display().to_string(),
                "--data",
                &data,
                "--http",
                &local(http),
                "--otlp-grpc",
                &local(grpc),
                "--otlp-http",
                &local(otlp_http),
            ],
        )?;
        fleet.wait_ready()?;
        let collector = format!("http://{}", local(grpc));
        fleet.spawn(
            "agent of this host",
            &binaries.agent,
            &["run", "--collector", &collector, "--http", &local(agent)],
        )?;
        for host in 0..HOSTS {
            let name = host_name(host);
            let tree = dir.join("hosts").join(&name);
            let config = dir.join("hosts").join(format!("{name}.toml"));
            std::fs::write(&config, agent_config(&tree)).with_context(|| format!("write {}", config.display()))?;
            let (tree, config) = (tree.display().to_string(), config.display().to_string());
            // Port 0: a port that was free a moment ago may be in use as another agent's source port.
            let http = local(0);
            fleet.spawn(
                &name,
                &binaries.agent,
                &["run", "--config", &config, "--root", &tree, "--collector", &collector, "--http", &http],
            )?;
        }
        Ok(fleet)
    }

    fn spawn(&mut self, name: &str, program: &Path, args: &[&str]) -> Result<()> {
        let log = File::create(self.logs.join(format!("{}.log", name.replace(' ', "-"))))?;
        let child = tied("TERM", program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {name} ({})", program.display()))?;
        self.children.push((name.to_owned(), child));
        Ok(())
    }

    fn wait_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while ureq::get(format!("{}/readyz", self.collector_url)).call().is_err() {
            self.check()?;
            if Instant::now() > deadline {
                bail!("the collector is not ready after 20 s; its log: {}/collector.log", self.logs.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Reports the jobs and their hosts to the collector, as a scheduler's hook does.
    pub fn register_jobs(&self, jobs: &[Job]) -> Result<()> {
        for (id, job) in (FIRST_JOB..).zip(jobs) {
            let hosts: Vec<String> = job.hosts.iter().map(|h| host_name(*h)).collect();
            let body = serde_json::json!({"id": id, "user": job.user, "name": job.name, "hosts": hosts});
            ureq::post(format!("{}/api/v1/jobs", self.collector_url))
                .send(body.to_string())
                .with_context(|| format!("report job {}", job.name))?;
        }
        Ok(())
    }

    /// Writes the reports of the jobs.
    pub fn write_reports(&self, jobs: usize) -> Result<()> {
        let dir = self.logs.with_file_name("reports");
        std::fs::create_dir_all(&dir)?;
        for id in FIRST_JOB..FIRST_JOB + jobs {
            let page = ureq::get(self.report(id)).call().with_context(|| format!("ask for the report of job {id}"))?;
            std::fs::write(dir.join(format!("{id}.html")), page.into_body().read_to_string()?)?;
        }
        println!("reports of the jobs: {}", dir.display());
        Ok(())
    }

    /// URL of a job's report.
    pub fn report(&self, id: usize) -> String {
        format!("{}/api/v1/jobs/{id}/report", self.collector_url)
    }

    /// Fails if a process has ended.
    pub fn check(&mut self) -> Result<()> {
        for (name, child) in &mut self.children {
            if let Some(status) = child.try_wait()? {
                bail!("{name} ended with {status}; its log is in {}", self.logs.display());
            }
        }
        Ok(())
    }

    /// Overview of what runs and where to look.
    pub fn welcome(&self) -> String {
        let query = "topk(5,rate(fabric_port_io_bytes_total[10s]))";
        format!(
            "\nrunning: 1 collector, 1 agent on this host, {HOSTS} agents on simulated hosts (8 x 400 Gb/s each),\n\
             \x20        {LEAVES} leaf switches that push OTLP as Cumulus Linux does, {SPINES} spine switches that answer gNMI as SONiC does\n\
             \x20 console              {url}/\n\
             \x20 any PromQL           {ask}\n\
             \x20 a job's report       {report} (4711 to 4713)\n\
             \x20 from a shell         fabriclens query --url {url} '{query}'\n\
             \x20 switches and cables  fabriclens switches --url {url}; after half a minute fabriclens topology --url {url}\n\
             \x20 Grafana data source  Prometheus, {url}\n\
             \x20 this host's agent    {agent}/metrics\n\
             \x20 logs                 {logs}\n",
            ask = super::ask::link(&self.collector_url, query),
            report = self.report(FIRST_JOB),
            url = self.collector_url,
            agent = self.agent_url,
            logs = self.logs.display(),
        )
    }

    /// Stops all processes with SIGTERM, and with SIGKILL after 10 s.
    pub fn stop(mut self) -> Result<()> {
        let early = self.check();
        for (_, child) in self.children.iter().rev() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        for (name, child) in &mut self.children {
            while child.try_wait()?.is_none() {
                if Instant::now() > deadline {
                    println!("{name} did not stop in time: killed");
                    child.kill()?;
                    child.wait()?;
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        println!("stopped {} processes", self.children.len());
        early
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
        }
    }
}
