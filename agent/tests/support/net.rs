//! A second network namespace behind a pair of virtual interfaces, and control groups: real traffic for probes. Needs
//! root, `ip` and `ethtool`.

use crate::namespace;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_samplers::{Sampler, by_name};
use fabriclens_wire::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs a command line; the error is its output.
pub fn tool(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split(' ').collect();
    namespace::run(words[0], &words[1..])
}

/// Opens the sampler.
pub fn opened(name: &str, target: &SamplingTarget) -> Box<dyn Sampler> {
    (by_name(name).unwrap().open)(target).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// This host.
pub fn this_host() -> SamplingTarget {
    SamplingTarget::host(&Arc::new(Roots::new(None)), &Arc::from("h"), &Arc::default())
}

/// Sum of the integers of `metric` in a new sample, over the columns with all of `labels`.
pub fn told(sampler: &mut dyn Sampler, metric: &str, labels: &[(&str, &str)]) -> u64 {
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    sum(&batch, metric, labels)
}

/// The same for a given sample.
pub fn sum(batch: &Batch, metric: &str, labels: &[(&str, &str)]) -> u64 {
    let has = |column: &fabriclens_wire::Column| {
        labels.iter().all(|(name, value)| column.labels.iter().any(|(n, v)| **n == **name && **v == **value))
    };
    let of = batch.facts.iter().filter(|(column, _)| column.metric.name == metric && has(column));
    of.map(|(_, value)| if let Value::Int(n) = value { *n } else { panic!("{value:?} is no whole number") }).sum()
}

/// Two virtual interfaces, one here and one in a namespace of its own. Both are deleted when dropped.
pub struct Pair {
    /// Name of the interface here and of the namespace.
    pub near: String,
    /// First three octets of both addresses: `.1` is here, `.2` there.
    net: String,
}

impl Pair {
    /// Creates both, replacing a pair of that name that an earlier run left.
    pub fn new(name: &str, net: &str) -> Self {
        let pair = Self { near: name.to_owned(), net: net.to_owned() };
        _ = tool(&format!("ip netns del {name}"));
        _ = tool(&format!("ip link del {name}"));
        let far = format!("ip -n {name}");
        let (one, two) = ("02:fa:00:00:00:01", "02:fa:00:00:00:02");
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {name} address {one} type veth peer name far address {two} netns {name}"),
            // Only the test's own traffic may cross the pair.
            format!("ip link set {name} addrgenmode none"),
            format!("{far} link set far addrgenmode none"),
            format!("ip addr add {net}.1/24 dev {name}"),
            format!("{far} addr add {net}.2/24 dev far"),
            format!("ip addr add {} dev {name} nodad", pair.v6("1/64")),
            format!("{far} addr add {} dev far nodad", pair.v6("2/64")),
            format!("{far} link set lo up"),
            format!("{far} link set far up"),
            format!("ip link set {name} up"),
            format!("ip neigh replace {net}.2 lladdr {two} dev {name} nud permanent"),
            format!("{far} neigh replace {net}.1 lladdr {one} dev far nud permanent"),
            format!("ip neigh replace {} lladdr {two} dev {name} nud permanent", pair.v6("2")),
            format!("{far} neigh replace {} lladdr {one} dev far nud permanent", pair.v6("1")),
        ] {
            tool(&line).unwrap();
        }
        pair
    }

    /// Address of the interface here.
    pub fn here(&self) -> String {
        format!("{}.1", self.net)
    }

    /// Address of the other one.
    pub fn there(&self) -> String {
        format!("{}.2", self.net)
    }

    /// The IPv6 address of the one here (`1`) or there (`2`).
    pub fn v6(&self, end: &str) -> String {
        format!("fd00:{}::{end}", self.net.replace('.', ":"))
    }

    /// Disables IPv6, which sends packets of its own.
    pub fn quiet(&self) {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.near), "1").unwrap();
        self.inside(|| std::fs::write("/proc/sys/net/ipv6/conf/far/disable_ipv6", "1").unwrap());
    }

    /// Turns off segmentation and receive offload, so that the interfaces' counters see each segment.
    pub fn one_by_one(&self) {
        let off = "tso off gro off";
        tool(&format!("ethtool -K {} {off}", self.near)).unwrap();
        tool(&format!("ip netns exec {} ethtool -K far {off}", self.near)).unwrap();
    }

    /// Runs `body` in the namespace. Sockets that it opens stay in the namespace.
    pub fn inside<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        namespace::inside(&self.near, body)
    }

    /// A connection from here to the namespace: this end, that end.
    pub fn connect(&self, there: &str) -> (TcpStream, TcpStream) {
        let listener = self.inside(|| TcpListener::bind((there, 0)).unwrap());
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// A counter of the interface here, such as `rx_bytes`.
    pub fn counter(&self, name: &str) -> u64 {
        let file = format!("/sys/class/net/{}/statistics/{name}", self.near);
        std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        _ = tool(&format!("ip link del {}", self.near));
        _ = tool(&format!("ip netns del {}", self.near));
    }
}

/// Sends so many bytes from one end to the other, and waits for the last acknowledgment.
pub fn send(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let chunk = vec![7; 65_536];
            let mut left = bytes;
            while left > 0 {
                let n = left.min(chunk.len());
                from.write_all(&chunk[..n]).unwrap();
                left -= n;
            }
        });
        let mut chunk = vec![0; 65_536];
        let mut left = bytes;
        while left > 0 {
            left -= to.read(&mut chunk).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(100));
}

/// A control group, removed when dropped.
pub struct Group {
    dir: PathBuf,
    root: PathBuf,
    /// Path below the mount, as the agent reports it.
    pub path: String,
}

impl Group {
    /// Creates `name` below the root of `mount`.
    pub fn new(mount: &std::path::Path, name: &str) -> Self {
        let dir = mount.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir, root: mount.to_owned(), path: format!("/{name}") }
    }

    /// Runs with this process in the group, so that new sockets belong to the group.
    pub fn with<T>(&self, body: impl FnOnce() -> T) -> T {
        let enter = |dir: &PathBuf| std::fs::write(dir.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        enter(&self.dir);
        let made = body();
        enter(&self.root);
        made
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        _ = std::fs::remove_dir(&self.dir);
    }
}
