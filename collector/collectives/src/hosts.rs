//! Finds the host of a job that has the address or name by which a communication library knows it.

use crate::model::JobName;
use crate::read::CollectivesReader;
use fabriclens_base::host_name::{is_same, key, short};
use fabriclens_model::{FixedBudget, Matcher, ReadError};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Series with an address of their host: the label, and how far back they are read, ms.
struct Source {
    metric: &'static str,
    label: &'static str,
    look_back_ms: i64,
}

const SOURCES: [Source; 2] = [
    // What the agent of the host says itself; it ends with the processes of the job there.
    Source { metric: "fabric_collective_host_info", label: "rank_host", look_back_ms: 3_600_000 },
    // TCP connections of jobs, among them those of the library, every 30 s or less often.
    Source { metric: "fabric_job_tcp_peer_io_bytes_total", label: "local", look_back_ms: 300_000 },
];
/// Memory for the series of one job and source, bytes.
const BYTES: usize = 64 << 20;

/// Addresses of a job's hosts, each with the keys of the hosts that have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses(BTreeMap<IpAddr, BTreeSet<String>>);

impl HostAddresses {
    /// Adds an address of a host. Loopback addresses are no host's.
    pub fn add(&mut self, address: &str, host: &str) {
        if let Some(address) = parse(address) {
            self.0.entry(address).or_default().insert(key(host));
        }
    }

    /// The host among `hosts` that `name` means: the same name, the only one with the same name before the first dot, or the only
    /// one with this address.
    pub fn host<'a>(&'a self, name: &str, hosts: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        if name.is_empty() {
            return None;
        }
        if let Some(address) = parse(name) {
            let owners = self.0.get(&address)?;
            let mut own = hosts.filter(|host| owners.contains(&key(host)));
            return own.next().filter(|_| owners.len() == 1);
        }
        if name.parse::<IpAddr>().is_ok() {
            return None;
        }
        let same = hosts.clone().find(|host| is_same(host, name));
        let alike = || {
            // Two full names of different domains are two hosts.
            let mut alike = hosts
                .filter(|host| key(short(host)) == key(short(name)) && !(host.contains('.') && name.contains('.')));
            alike.next().filter(|_| alike.next().is_none())
        };
        same.or_else(alike)
    }
}

/// An address that tells one host from another.
fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.split('%').next()?.parse().ok()?;
    let address = address.to_canonical();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

impl CollectivesReader<'_> {
    /// Which hosts of a job have these addresses, by their agents and by the job's TCP connections. Names that are no addresses are left out.
    ///
    /// # Errors
    /// [`ReadError`], also if the series need more than 64 MiB.
    pub fn addresses<'a>(
        &self,
        job: &JobName,
        wanted: impl Iterator<Item = &'a str>,
    ) -> Result<HostAddresses, ReadError> {
        let mut addresses = HostAddresses::default();
        let wanted: BTreeSet<String> = wanted.filter_map(parse).flat_map(forms).collect();
        if wanted.is_empty() {
            return Ok(addresses);
        }
        for Source { metric, label, look_back_ms } in SOURCES {
            let wanted = Matcher::one_of(label, wanted.iter().map(String::as_str));
            let matchers = [
                Matcher::equal("__name__", metric),
                Matcher::equal("job", &*job.id),
                Matcher::equal("cluster", &*job.cluster),
                wanted.map_err(|e| ReadError::Storage(e.to_string()))?,
            ];
            let (from_ms, budget) = (self.at_ms - look_back_ms, FixedBudget::new(BYTES));
            for series in self.read.select_within(&matchers, from_ms, self.at_ms, &budget)? {
                addresses.add(series.labels.get(label), series.labels.get("host"));
            }
        }
        Ok(addresses)
    }
}

/// An address as sockets print it: those for both versions of IP print an IPv4 address as an IPv6 one.
fn forms(address: IpAddr) -> impl Iterator<Item = String> {
    let mapped = match address {
        IpAddr::V4(v4) => Some(v4.to_ipv6_mapped().to_string()),
        IpAddr::V6(_) => None,
    };
    std::iter::once(address.to_string()).chain(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{Labels, Memory, Series};

    const HOSTS: [&str; 4] = ["gpu-01.example", "gpu-02", "gpu-03.a", "gpu-03.b"];

    #[test]
    fn names_and_addresses_that_mean_one_host_are_found() {
        let mut addresses = HostAddresses::default();
        for (address, host) in [
            ("10.0.0.1", "GPU-01.example"),
            ("10.0.0.1", "gpu-01.example"),
            ("10.0.0.2", "gpu-02"),
            ("10.0.0.9", "storage-1"),
            ("fe80::2%eth0", "gpu-02"),
            ("172.17.0.1", "gpu-02"),
            ("172.17.0.1", "gpu-03.a"),
            ("127.0.0.1", "gpu-02"),
        ] {
            addresses.add(address, host);
        }
        let host = |name: &str| addresses.host(name, HOSTS.into_iter());
        assert_eq!(host("gpu-02"), Some("gpu-02"));
        assert_eq!(host("GPU-01"), Some("gpu-01.example"), "by its name before the first dot");
        assert_eq!(host("gpu-02.example"), Some("gpu-02"));
        assert_eq!(host("gpu-01.other"), None, "another domain is another host");
        assert_eq!(host("gpu-03"), None, "it may be either");
        assert_eq!(host("gpu-03.b"), Some("gpu-03.b"));
        assert_eq!(host("10.0.0.2"), Some("gpu-02"));
        assert_eq!(host("::ffff:10.0.0.2"), Some("gpu-02"));
        assert_eq!(host("fe80::2"), Some("gpu-02"));
        assert_eq!(host("10.0.0.9"), None, "no host of the job");
        assert_eq!(host("172.17.0.1"), None, "two hosts have it");
        assert_eq!(host("127.0.0.1"), None);
        assert_eq!((host("10.0.0.3"), host("")), (None, None));
    }

    #[test]
    fn addresses_are_those_of_agents_and_of_connections_of_the_job() {
        let connection = |job: &str, host: &str, local: &str, ago_ms: i64| Series {
            labels: Labels::new([
                ("__name__", "fabric_job_tcp_peer_io_bytes_total"),
                ("host", host),
                ("job", job),
                ("local", local),
                ("peer", "10.0.0.8"),
            ]),
            times: vec![10_000_000 - ago_ms],
            values: vec![1.0],
        };
        let told = |host: &str, address: &str, ago_ms: i64| Series {
            labels: Labels::new([
                ("__name__", "fabric_collective_host_info"),
                ("host", host),
                ("job", "7"),
                ("rank_host", address),
            ]),
            times: vec![10_000_000 - ago_ms],
            values: vec![1.0],
        };
        let read = Memory(vec![
            connection("7", "gpu-01", "10.0.0.1", 0),
            connection("7", "gpu-02", "::ffff:10.0.0.2", 0),
            connection("8", "gpu-02", "10.0.0.1", 0),
            connection("7", "gpu-02", "10.0.0.3", 0),
            connection("7", "gpu-02", "10.0.0.4", 300_001),
            told("gpu-03", "10.0.0.5", 1_800_000),
        ]);
        let reader = CollectivesReader { read: &read, at_ms: 10_000_000 };
        let job = JobName { cluster: String::new(), id: "7".into() };
        let wanted = ["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.5", "gpu-03"];
        let found = reader.addresses(&job, wanted.into_iter()).unwrap();
        let of = |name: &str| found.host(name, ["gpu-01", "gpu-02", "gpu-03"].into_iter()).map(str::to_owned);
        assert_eq!((of("10.0.0.1").as_deref(), of("10.0.0.2").as_deref()), (Some("gpu-01"), Some("gpu-02")));
        assert_eq!(of("10.0.0.5").as_deref(), Some("gpu-03"), "its processes are gone, and its agent named it before");
        assert_eq!((of("10.0.0.3"), of("10.0.0.4")), (None, None), "not asked for; too long ago");
        assert_eq!(reader.addresses(&job, ["gpu-03"].into_iter()).unwrap(), HostAddresses::default());
    }
}
