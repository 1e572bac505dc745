//! Finds RAS services: listening sockets on the port, in the network namespaces of jobs' processes, that belong to such a process.
//!
//! Which sockets a process has, and which network namespace it is in, the kernel tells only with `CAP_SYS_PTRACE`. Without it a
//! socket in the host's namespace belongs to a job if a process of the job runs as its user; the answer then says which job it is.

use fabriclens_agent_collectives::listeners::{Listener, listeners};
use fabriclens_agent_workload::{Jobs, Key};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Most processes of the host that are looked at, and most of jobs.
const PROCESSES: usize = 65_536;
const OF_JOBS: usize = 8192;
/// Most network namespaces and services of a host.
const NAMESPACES: usize = 64;
const SERVICES: usize = 64;
/// Most descriptors of a process.
const DESCRIPTORS: usize = 4096;
/// Longest table that is read, bytes.
const TABLE: u64 = 1 << 20;

/// A process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobProcess {
    /// Process id on the host.
    pub pid: u32,
    /// Process id in its own PID namespace.
    pub inner: u32,
    /// Real user.
    pub uid: u32,
    /// Its job, and the cluster of the job.
    pub job: (Key, String),
    /// Network namespace; `None` if the kernel does not tell.
    pub namespace: Option<u64>,
}

/// A service on which a job may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Network namespace and address.
    pub id: (u64, SocketAddr),
    /// Sockets of the address; several processes share it with `SO_REUSEPORT`.
    pub sockets: BTreeSet<u64>,
    /// Process whose network namespace has to be entered; `None` for the agent's own.
    pub enter: Option<u32>,
    /// Jobs that it may belong to.
    pub jobs: Vec<(Key, String)>,
    /// Addresses of the namespace.
    pub addresses: HashSet<IpAddr>,
}

/// Services of this host.
#[derive(Debug, Default)]
pub struct Found {
    /// Processes of jobs.
    pub processes: Vec<JobProcess>,
    /// Services.
    pub services: Vec<Service>,
}

/// Looks for services on the port.
pub fn find(proc: &Path, jobs: &Jobs, port: u16) -> Found {
    let processes = job_processes(proc, jobs);
    if processes.is_empty() {
        return Found::default();
    }
    let own = namespace(&proc.join("self"));
    let mut namespaces: BTreeMap<u64, Vec<&JobProcess>> = BTreeMap::new();
    for process in &processes {
        // A process of an unknown namespace may be in this one.
        let namespace = process.namespace.or(own).unwrap_or(0);
        if namespaces.len() < NAMESPACES || namespaces.contains_key(&namespace) {
            namespaces.entry(namespace).or_default().push(process);
        }
    }
    let mut services = Vec::new();
    for (namespace, members) in namespaces {
        let entered = members.first().filter(|_| own.is_some_and(|own| own != namespace)).map(|member| member.pid);
        let net = entered.map_or_else(|| proc.join("self/net"), |pid| proc.join(pid.to_string()).join("net"));
        let mut by_address: BTreeMap<SocketAddr, Vec<Listener>> = BTreeMap::new();
        for listener in ["tcp", "tcp6"].iter().flat_map(|name| listeners(&table(&net.join(name)), &[port])) {
            by_address.entry(listener.address).or_default().push(listener);
        }
        for (address, sockets) in by_address {
            let jobs: BTreeSet<&(Key, String)> = members
                .iter()
                .filter(|member| sockets.iter().any(|socket| may_own(proc, member, socket)))
                .map(|member| &member.job)
                .collect();
            if jobs.is_empty() || services.len() >= SERVICES {
                continue;
            }
            services.push(Service {
                id: (namespace, address),
                sockets: sockets.iter().map(|socket| socket.inode).collect(),
                enter: entered,
                jobs: jobs.into_iter().cloned().collect(),
                addresses: addresses(&net),
            });
        }
    }
    Found { processes, services }
}

/// Processes of jobs on this host, by process id.
pub fn job_processes(proc: &Path, jobs: &Jobs) -> Vec<JobProcess> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let process = |pid: u32| {
        let job = jobs.of_process(proc, pid)?;
        let dir = proc.join(pid.to_string());
        let status = table(&dir.join("status"));
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let uid = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let inner = field("NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok()).unwrap_or(pid);
        Some(JobProcess { pid, inner, uid, job, namespace: namespace(&dir) })
    };
    let mut all: Vec<JobProcess> = pids.take(PROCESSES).filter_map(process).take(OF_JOBS).collect();
    all.sort_by_key(|process| process.pid);
    all
}

/// Number of the network namespace of a process; `None` if the kernel does not tell.
fn namespace(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir.join("ns/net")).ok().map(|metadata| metadata.ino())
}

/// Whether the process has the socket, or runs as its user if its descriptors cannot be read.
fn may_own(proc: &Path, process: &JobProcess, socket: &Listener) -> bool {
    if process.uid != socket.uid {
        return false;
    }
    let Ok(descriptors) = std::fs::read_dir(proc.join(process.pid.to_string()).join("fd")) else { return true };
    let name = PathBuf::from(format!("socket:[{}]", socket.inode));
    descriptors.flatten().take(DESCRIPTORS).any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == name))
}

/// Addresses of a network namespace.
fn addresses(net: &Path) -> HashSet<IpAddr> {
    let trie = table(&net.join("fib_trie"));
    let (mut found, mut last) = (HashSet::new(), None);
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<IpAddr>().ok();
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(last);
        }
    }
    let version_6 = table(&net.join("if_inet6"));
    let address = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    found.extend(version_6.lines().filter_map(address).map(|bits| IpAddr::from(bits.to_be_bytes())));
    found
}

/// Begin of a table of procfs; empty if it cannot be read.
fn table(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What is beyond the limit are connections and routes of others.
        _ = file.take(TABLE).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
