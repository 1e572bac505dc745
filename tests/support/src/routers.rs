//! A fabric of Linux routers for tests: two hosts, two leaves and two spines, each a network namespace. The routers choose links
//! by the hash over addresses, protocol and ports, as switches do.
//!
//! A test that uses it is ignored with the reason `needs: network-namespaces`.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Address of `host1`.
pub const HOST1: &str = "10.0.1.1";
/// Address of `host2`.
pub const HOST2: &str = "10.0.2.1";
/// Links: two nodes, and the network of their addresses, which end in 1 and 2.
const LINKS: [(&str, &str, &str); 6] = [
    ("host1", "leaf1", "0.1"),
    ("leaf1", "spine1", "9.11"),
    ("leaf1", "spine2", "9.12"),
    ("leaf2", "spine1", "9.21"),
    ("leaf2", "spine2", "9.22"),
    ("host2", "leaf2", "0.2"),
];
/// Routes: node, destination, the nodes through which it goes.
const ROUTES: [(&str, &str, &[&str]); 6] = [
    ("host1", "default", &["leaf1"]),
    ("host2", "default", &["leaf2"]),
    ("leaf1", "0.2", &["spine1", "spine2"]),
    ("leaf2", "0.1", &["spine1", "spine2"]),
    ("spine1", "0.1", &["leaf1"]),
    ("spine1", "0.2", &["leaf2"]),
];
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Six namespaces and their links. Deleted on drop.
#[derive(Debug)]
pub struct Routers(String);

impl Routers {
    /// Makes the namespaces, links and routes.
    ///
    /// # Panics
    /// Without root or iproute2.
    pub fn start() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let this = Self(format!("fl-trace-{}-{number}", std::process::id()));
        for node in ["host1", "host2", "leaf1", "leaf2", "spine1", "spine2"] {
            ip(&["netns", "add", &this.name(node)]);
            this.ip(node, "link set lo up");
            // Addresses, protocol and ports by policy 3: by policy 1 the kernel takes a hash that the sending socket left at the
            // packet, as no wire is between the namespaces, and that is random.
            for version in ["ipv4", "ipv6"] {
                this.set(node, &format!("{version}/fib_multipath_hash_fields"), "0x37");
                this.set(node, &format!("{version}/fib_multipath_hash_policy"), "3");
            }
            // Answers come from the interface at which a packet came in, as many switches do it.
            for (key, value) in [
                ("ipv4/ip_forward", "1"),
                ("ipv4/icmp_ratelimit", "0"),
                ("ipv4/icmp_errors_use_inbound_ifaddr", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv6/conf/all/accept_dad", "0"),
                ("ipv6/conf/default/accept_dad", "0"),
                ("ipv6/icmp/ratelimit", "0"),
            ] {
                this.set(node, key, value);
            }
        }
        for (one, other, network) in LINKS {
            let [near, far] = [this.name(one), this.name(other)];
            ip(&["link", "add", other, "netns", &near, "type", "veth", "peer", "name", one, "netns", &far]);
            for (node, peer, number) in [(one, other, 1), (other, one, 2)] {
                this.ip(node, &format!("link set {peer} up"));
                this.ip(node, &format!("addr add 10.{network}.{number}/24 dev {peer}"));
                this.ip(node, &format!("addr add {}::{number}/64 dev {peer} nodad", v6(network)));
            }
        }
        let spine2 = [("spine2", "0.1", &["leaf1"][..]), ("spine2", "0.2", &["leaf2"])];
        for (node, to, peers) in ROUTES.into_iter().chain(spine2) {
            let hop = |peer: &&str| format!(" nexthop via {} dev {peer}", this.address(peer, node));
            let hop6 = |peer: &&str| format!(" nexthop via {} dev {peer}", this.address6(peer, node));
            let [v4, v6] = if to == "default" {
                [to.to_owned(), to.to_owned()]
            } else {
                [format!("10.{to}.0/24"), format!("{}::/64", v6(to))]
            };
            this.ip(node, &format!("route add {v4}{}", peers.iter().map(hop).collect::<String>()));
            this.ip(node, &format!("-6 route add {v6}{}", peers.iter().map(hop6).collect::<String>()));
        }
        this
    }

    fn name(&self, node: &str) -> String {
        format!("{}-{node}", self.0)
    }

    /// Runs `ip` in the namespace of a node; returns what it prints.
    pub fn ip(&self, node: &str, arguments: &str) -> String {
        let name = self.name(node);
        ip(&[&["-n", name.as_str()], arguments.split_whitespace().collect::<Vec<_>>().as_slice()].concat())
    }

    /// Sets `/proc/sys/net/KEY` of a node.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn set(&self, node: &str, key: &str, value: &str) {
        self.inside(node, || std::fs::write(format!("/proc/sys/net/{key}"), value).expect(key));
    }

    /// Runs on a thread in the namespace of a node.
    pub fn inside<T: Send>(&self, node: &str, run: impl FnOnce() -> T + Send) -> T {
        inside(&format!("/run/netns/{}", self.name(node)), run)
    }

    /// Address of a node on its link to another.
    pub fn address(&self, node: &str, peer: &str) -> IpAddr {
        let (network, number) = place(node, peer);
        format!("10.{network}.{number}").parse().expect("an address")
    }

    /// IPv6 address of a node on its link to another.
    pub fn address6(&self, node: &str, peer: &str) -> IpAddr {
        let (network, number) = place(node, peer);
        format!("{}::{number}", v6(network)).parse().expect("an address")
    }

    /// Packets that a node sent to another.
    pub fn sent(&self, node: &str, peer: &str) -> u64 {
        self.inside(node, || {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
            let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{peer}:"))).expect("the link");
            line.split_whitespace().nth(9).expect("packets").parse().expect("a number")
        })
    }

    /// UDP datagrams that came to a port of `host2` without a socket.
    pub fn unwanted(&self) -> u64 {
        self.inside("host2", || {
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
            let line = text.lines().rfind(|line| line.starts_with("Udp:")).expect("a row");
            line.split_whitespace().nth(2).expect("NoPorts").parse().expect("a number")
        })
    }

    /// Spine that the first leaf chooses for a source port, as its kernel says.
    pub fn spine(&self, source_port: u16) -> &'static str {
        let way = format!("route get {HOST2} from {HOST1} iif host1 ipproto udp sport {source_port} dport 4791");
        let route = self.ip("leaf1", &way);
        if route.contains("dev spine1") { "spine1" } else { "spine2" }
    }

    /// Path through a spine, by the addresses at which packets come in.
    pub fn path(&self, spine: &str) -> Vec<Vec<IpAddr>> {
        [("leaf1", "host1"), (spine, "leaf1"), ("leaf2", spine)]
            .map(|(node, from)| vec![self.address(node, from)])
            .into()
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        for node in ["host1", "host2", "leaf1", "leaf2", "spine1", "spine2"] {
            run("ip", &["netns", "del", &self.name(node)]).ok();
        }
    }
}

/// One namespace with loopback. Deleted on drop.
#[derive(Debug)]
pub struct Namespace(String);

impl Namespace {
    /// Makes the namespace; its name begins with this text.
    ///
    /// # Panics
    /// Without root or iproute2.
    pub fn new(name: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let this = Self(format!("fl-{name}-{}-{number}", std::process::id()));
        ip(&["netns", "add", &this.0]);
        ip(&["-n", &this.0, "link", "set", "lo", "up"]);
        this
    }

    /// File that stands for it.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// Runs on a thread in the namespace.
    pub fn within<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        inside(&self.path(), run)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run("ip", &["netns", "del", &self.0]).ok();
    }
}

/// Runs on a thread in the namespace of this file.
fn inside<T: Send>(path: &str, run: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(path).expect("a namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).expect("entered");
            run()
        });
        thread.join().expect("it ended")
    })
}

fn v6(network: &str) -> String {
    format!("fd00:{}", network.replace('.', ":"))
}

/// Network of a link, and the last number of this node's address on it.
fn place(node: &str, peer: &str) -> (&'static str, u8) {
    let link = |(one, other, network)| {
        let number = [(one, other), (other, one)].into_iter().position(|ends| ends == (node, peer))?;
        Some((network, number as u8 + 1))
    };
    LINKS.into_iter().find_map(link).expect("a link")
}

fn ip(arguments: &[&str]) -> String {
    run("ip", arguments).unwrap_or_else(|error| panic!("ip {}: {error}", arguments.join(" ")))
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
