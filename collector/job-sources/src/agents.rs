//! Reads from the agents' samples which jobs run on their hosts, and how agents name hosts and devices.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fabriclens_jobs::{
    AgentScan, EndDetector, HostAllocation, HostNames, LastSeen, OpenRun, Registry, SeenJob, Sighting,
};
use fabriclens_model::{Labels, MatchOp, Matcher, ReadError, Series, Unlimited, is_stale};

use super::{JobSource, Opened, Opening};
use fabriclens_core::time::now_ms;
use fabriclens_data::Data;

/// Range that is read each time, ms; covers agents that send late.
const WINDOW: i64 = 60_000;
/// Range that is read after a start, and for which the agents' scans are remembered, ms.
const REMEMBERED: i64 = 300_000;
/// Scans of an agent closer together than this are one scan, ns.
const SCAN_GAP: i64 = 2_000_000_000;
/// How far back hosts, and the last sighting of a job, are searched after a start, ms.
const BACK: i64 = 86_400_000;
/// Most names of one job that are searched in the past.
const NAMES: usize = 200;
/// Nanoseconds per millisecond.
const MS: i64 = 1_000_000;

/// Processes of each job by control group.
const PROCESSES: &str = "fabric_job_processes";
/// Queue pairs of each job by device.
const QUEUE_PAIRS: &str = "fabric_job_queue_pairs";
/// Written whenever an agent scans for jobs, also if it finds none.
const SCANS: &str = "fabric_job_omitted";
/// One series per port, with its PCI address.
const PORTS: &str = "fabric_port_info";
/// One series per agent.
const INFO: &str = "fabriclens_agent_info";

/// The source of jobs seen by agents.
struct AgentJobs {
    data: Arc<Data>,
    /// Kubernetes lists its pods, so pods that it does not list are not jobs.
    pods_are_listed: bool,
    watch: EndDetector,
    agents: HostNames,
    ports: Vec<Labels>,
    /// Times of the scans of each host's agent, ascending, Unix ns.
    known_scans: HashMap<String, Vec<i64>>,
    began: bool,
    /// Whether the last read failed, which is logged once.
    failing: bool,
}

/// Always configured; agents that see no jobs write no samples.
pub(super) fn open(opening: &Opening<'_>) -> Opened {
    let jobs = &opening.config.jobs;
    Ok(Some(Box::new(AgentJobs {
        data: opening.data.clone(),
        pods_are_listed: jobs.kubernetes.is_some(),
        watch: EndDetector::default(),
        agents: HostNames::new(jobs.hosts.clone()),
        ports: Vec::new(),
        known_scans: HashMap::new(),
        began: false,
        failing: false,
    })))
}

impl JobSource for AgentJobs {
    fn poll(&mut self, registry: &Registry) -> bool {
        match self.look(registry) {
            Ok(changed) => {
                self.failing = false;
                changed
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "cannot read jobs from the samples of agents");
                }
                false
            }
        }
    }
}

impl AgentJobs {
    fn look(&mut self, registry: &Registry) -> Result<bool, ReadError> {
        let now = now_ms();
        let from = now - if self.began { WINDOW } else { REMEMBERED };
        let mut changed = self.learn_names(registry, now)?;
        let select = |matchers: &[Matcher]| self.data.reader().select(matchers, from, now);
        let name = |name: &str| Matcher::equal("__name__", name);
        let of_a_job = matcher("job", MatchOp::NotEqual, "")?;
        let processes = select(&[name(PROCESSES), of_a_job.clone()])?;
        let pairs = if processes.is_empty() { Vec::new() } else { select(&[name(QUEUE_PAIRS), of_a_job])? };
        let scans = select(&[name(SCANS)])?;
        record_scans(&mut self.known_scans, &scans, now - REMEMBERED);
        let look = AgentScan { sightings: sightings(&processes, &pairs), scans: self.known_scans.clone() };
        // Pods are jobs if they are listed; without a list, if they use RDMA.
        let alone = |seen: &SeenJob| {
            let rdma = || seen.hosts.values().any(|place| !place.devices.is_empty());
            seen.scheduler != "kubernetes" || (!self.pods_are_listed && rdma())
        };
        let before = |job: &OpenRun| seen_before(&self.data, job, now);
        changed |= self.watch.update(registry, &look, now.saturating_mul(MS), &alone, &before);
        Ok(changed)
    }

    /// Learns host and device names of agents.
    fn learn_names(&mut self, registry: &Registry, now: i64) -> Result<bool, ReadError> {
        let from = now - if self.began { REMEMBERED } else { BACK };
        let hosts = self.data.label_values("host", &[Matcher::equal("__name__", INFO)], from, now, &Unlimited)?;
        let ports = self.data.series(&[Matcher::equal("__name__", PORTS)], now - REMEMBERED, now, &Unlimited)?;
        let new = self.agents.add_hosts(hosts.iter().map(String::as_str)) || !self.began;
        let changed = new || ports != self.ports;
        if changed {
            self.agents.set_devices(ports.iter().map(|p| (p.get("host"), p.get("device"), p.get("pci_address"))));
            registry.set_host_names(self.agents.clone());
            self.ports = ports;
        }
        self.began = true;
        Ok(changed)
    }
}

/// Last sighting of a job by each host, for one that ended while the collector was down.
fn seen_before(data: &Data, job: &OpenRun, now: i64) -> BTreeMap<String, LastSeen> {
    let names: Vec<String> =
        job.names.iter().rev().take(NAMES).map(|name| fabriclens_base::escape::regex(name)).collect();
    let from = (job.start_ns / MS).max(now - BACK);
    let read = matcher("job", MatchOp::Regex, &names.join("|"))
        .and_then(|names| data.reader().select(&[Matcher::equal("__name__", PROCESSES), names], from, now));
    let series = read.unwrap_or_else(|error| {
        tracing::warn!(job = %job.key, %error, "cannot read when agents last saw a job");
        Vec::new()
    });
    let of_cluster = |s: &&Series| {
        let cluster = s.labels.get("cluster");
        cluster.is_empty() || job.key.cluster.is_empty() || cluster == job.key.cluster
    };
    let mut all: BTreeMap<String, LastSeen> = BTreeMap::new();
    for series in series.iter().filter(of_cluster) {
        let times = times(series);
        let host = series.labels.get("host");
        if let Some(last) = times.last().filter(|_| job.hosts.iter().any(|h| h == host)) {
            let seen = all.entry(host.to_owned()).or_default();
            seen.at_ns = seen.at_ns.max(last * MS);
            seen.gap_ns = seen.gap_ns.max(gap(&times) * MS);
        }
    }
    all
}

fn matcher(label: &str, op: MatchOp, value: &str) -> Result<Matcher, ReadError> {
    Matcher::new(label, op, value).map_err(|e| ReadError::Storage(e.to_string()))
}

/// Times at which a series was above zero.
fn times(series: &Series) -> Vec<i64> {
    let positive = |v: f64| !is_stale(v) && v > 0.0;
    series.times.iter().zip(&series.values).filter(|(_, v)| positive(**v)).map(|(at, _)| *at).collect()
}

fn gap(times: &[i64]) -> i64 {
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}

/// Host, scheduler and job number of a series.
fn job_key(series: &Series) -> [&str; 3] {
    ["host", "scheduler", "job"].map(|label| series.labels.get(label))
}

fn sightings(processes: &[Series], pairs: &[Series]) -> Vec<Sighting> {
    let mut devices: HashMap<[&str; 3], Vec<&str>> = HashMap::new();
    for series in pairs.iter().filter(|s| !times(s).is_empty()) {
        devices.entry(job_key(series)).or_default().push(series.labels.get("device"));
    }
    let mut of: BTreeMap<([&str; 3], &str), Vec<&Series>> = BTreeMap::new();
    for series in processes {
        of.entry((job_key(series), series.labels.get("cluster"))).or_default().push(series);
    }
    let sighting = |((key, cluster), all): (([&str; 3], &str), Vec<&Series>)| {
        let [host, scheduler, native] = key;
        // Job steps and containers come and go; the job is present while one of them is.
        let mut when: Vec<i64> = all.iter().flat_map(|s| times(s)).collect();
        when.sort_unstable();
        when.dedup();
        let own = |label| all.iter().map(move |s| s.labels.get(label)).find(|v| !v.is_empty() && *v != native);
        let mut devices: Vec<String> = devices.get(&key).into_iter().flatten().map(|d| (*d).to_owned()).collect();
        devices.sort_unstable();
        devices.dedup();
        let seen = SeenJob {
            scheduler: scheduler.to_owned(),
            cluster: cluster.to_owned(),
            native: native.to_owned(),
            task: own("task").unwrap_or(native).to_owned(),
            user: own("user").unwrap_or_default().to_owned(),
            hosts: [(host.to_owned(), HostAllocation { devices, pids: Vec::new() })].into(),
            first_ns: when.first()? * MS,
            last_ns: when.last()? * MS,
        };
        Some(Sighting { seen, gap_ns: gap(&when) * MS })
    };
    of.into_iter().filter_map(sighting).collect()
}

/// Adds scans, and forgets those before `from`, Unix ms.
fn record_scans(known: &mut HashMap<String, Vec<i64>>, scans: &[Series], from: i64) {
    for series in scans {
        let all = known.entry(series.labels.get("host").to_owned()).or_default();
        for (at, _) in series.times.iter().zip(&series.values).filter(|(_, v)| !is_stale(**v)) {
            if all.last().is_none_or(|last| at * MS >= last + SCAN_GAP) {
                all.push(at * MS);
            }
        }
    }
    known.retain(|_, all| {
        all.retain(|at| *at >= from * MS);
        !all.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> Series {
        let (times, values) = samples.iter().copied().unzip();
        Series { labels: Labels::new(labels.iter().copied()), times, values }
    }

    #[test]
    fn control_groups_of_a_job_are_one_sighting() {
        let of = |cgroup, task, samples: &[(i64, f64)]| {
            let labels = [("host", "h"), ("scheduler", "slurm"), ("job", "7"), ("cgroup", cgroup), ("task", task)];
            series(&labels, samples)
        };
        let stale = fabriclens_model::stale();
        let processes =
            [of("/a", "7", &[(10, 1.0), (20, 2.0), (30, stale)]), of("/b", "5_2", &[(30, 1.0), (70, 1.0), (80, 0.0)])];
        let pair = |device, value| {
            let labels = [("host", "h"), ("scheduler", "slurm"), ("cluster", "x"), ("job", "7"), ("device", device)];
            series(&labels, &[(20, value)])
        };
        let all = sightings(&processes, &[pair("mlx5_1", 3.0), pair("mlx5_0", 1.0), pair("mlx5_2", 0.0)]);
        let [Sighting { seen, gap_ns }] = &all[..] else { panic!("{all:?}") };
        assert_eq!((seen.task.as_str(), seen.native.as_str(), *gap_ns), ("5_2", "7", 40 * MS));
        assert_eq!((seen.first_ns, seen.last_ns), (10 * MS, 70 * MS));
        assert_eq!(seen.hosts["h"].devices, ["mlx5_0", "mlx5_1"]);
        assert_eq!(sightings(&[of("/a", "7", &[(10, stale)])], &[]), []);
    }

    #[test]
    fn scans_are_remembered_for_a_while() {
        let mut all = HashMap::new();
        let of = |samples: &[(i64, f64)]| [series(&[("host", "h")], samples)];
        record_scans(&mut all, &of(&[(1000, 0.0), (2000, 0.0), (3000, 4.0), (9000, fabriclens_model::stale())]), 0);
        record_scans(&mut all, &of(&[(2000, 0.0), (3000, 4.0), (8000, 0.0)]), 2000);
        assert_eq!(all["h"], [3000 * MS, 8000 * MS]);
        record_scans(&mut all, &[], 9000);
        assert!(all.is_empty());
    }
}
