//! Traces through Linux routers: two hosts, two leaves, two spines, each a network namespace, which choose links by the hash
//! over addresses and ports. Needs root and iproute2.

use fabriclens_agent_tracer::transport::Live;
use fabriclens_agent_tracer::{LocalPort, Paths, TraceTarget, Tracer};
use fabriclens_probe_plan::{ReportedPair, TracedPath};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::HashMap;
use std::fs::File;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

const A: &str = "10.0.1.1";
const B: &str = "10.0.2.1";
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
const LIMIT: Duration = Duration::from_secs(60);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Six namespaces and their links. Deleted on drop.
struct Routers(String);

impl Routers {
    fn new() -> Self {
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

    fn ip(&self, node: &str, arguments: &str) -> String {
        let name = self.name(node);
        ip(&[&["-n", name.as_str()], arguments.split_whitespace().collect::<Vec<_>>().as_slice()].concat())
    }

    fn set(&self, node: &str, key: &str, value: &str) {
        self.inside(node, || std::fs::write(format!("/proc/sys/net/{key}"), value).expect(key));
    }

    /// Runs on a thread in the namespace of a node.
    fn inside<T: Send>(&self, node: &str, run: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(node))).expect("a namespace");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).expect("entered");
                run()
            });
            thread.join().expect("it ended")
        })
    }

    /// Address of a node on its link to another.
    fn address(&self, node: &str, peer: &str) -> IpAddr {
        let (network, number) = place(node, peer);
        format!("10.{network}.{number}").parse().expect("an address")
    }

    fn address6(&self, node: &str, peer: &str) -> IpAddr {
        let (network, number) = place(node, peer);
        format!("{}::{number}", v6(network)).parse().expect("an address")
    }

    /// Packets that a node sent to another.
    fn sent(&self, node: &str, peer: &str) -> u64 {
        self.inside(node, || {
            let text = std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
            let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{peer}:"))).expect("the link");
            line.split_whitespace().nth(9).expect("packets").parse().expect("a number")
        })
    }

    /// UDP datagrams that came to a port of `host2` without a socket.
    fn unwanted(&self) -> u64 {
        self.inside("host2", || {
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
            let line = text.lines().rfind(|line| line.starts_with("Udp:")).expect("a row");
            line.split_whitespace().nth(2).expect("NoPorts").parse().expect("a number")
        })
    }

    /// Spine that the first leaf chooses for a source port, as its kernel says.
    fn spine(&self, source_port: u16) -> &'static str {
        let way = format!("route get {B} from {A} iif host1 ipproto udp sport {source_port} dport 4791");
        let route = self.ip("leaf1", &way);
        if route.contains("dev spine1") { "spine1" } else { "spine2" }
    }

    /// Path through a spine, by the addresses at which packets come in.
    fn path(&self, spine: &str) -> Vec<Vec<IpAddr>> {
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

#[expect(clippy::disallowed_methods, reason = "a test sets up its routers; the agent starts no process")]
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A tracer at host `host1`, in the thread that made it.
struct Agent {
    tracer: Tracer<Live>,
    address: IpAddr,
    paths: HashMap<u16, TracedPath>,
}

impl Agent {
    fn new(own: &str, target: &str) -> Self {
        let mut tracer = Tracer::new(Live, 200, 7);
        let local = LocalPort { name: "rxe0/1".into(), address: parse(own), device: Some("leaf1".into()) };
        tracer.set_ports(vec![local], Instant::now());
        Self { tracer, address: parse(target), paths: HashMap::new() }
    }

    fn plan(&mut self, source_ports: &[u16]) {
        let pair = ReportedPair { from: "rxe0/1".into(), host: "b".into(), port: "rxe0/1".into() };
        let target = TraceTarget {
            pair: Arc::new(pair),
            address: self.address,
            traffic_class: 104,
            source_ports: source_ports.to_vec(),
            every: Duration::from_secs(5),
        };
        self.tracer.set_targets(vec![target], Instant::now());
    }

    /// Runs until it holds.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            let now = Instant::now();
            assert!(now < end, "{what}: {:?} {:?}", self.paths, self.tracer.stats());
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
            for found in self.tracer.step(now, wall.as_nanos() as u64) {
                self.paths.insert(found.path.source_port as u16, found.path);
            }
            self.tracer.wait(now, now + Duration::from_millis(100));
        }
    }

    fn hops(&self, source_port: u16) -> Option<Vec<Vec<IpAddr>>> {
        let address = |bytes: &Vec<u8>| match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes.as_slice()).expect("four bytes")),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes.as_slice()).expect("sixteen bytes")),
        };
        let path = self.paths.get(&source_port)?;
        Some(path.hops.iter().map(|hop| hop.addresses.iter().map(address).collect()).collect())
    }

    fn is_complete(&self, source_port: u16) -> bool {
        self.paths.get(&source_port).is_some_and(|path| path.complete)
    }
}

fn parse(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
#[ignore = "needs: network-namespaces"]
fn paths_are_those_of_the_routers_own_counters() {
    let routers = Routers::new();
    let ports: Vec<u16> = (50_000..50_016).collect();
    routers.inside("host1", || {
        let mut agent = Agent::new(A, B);
        // The search for the target is over before counters are compared.
        agent.plan(&[49_999]);
        agent.until("the first path", |agent| agent.paths.len() == 1);
        let mut by_spine = HashMap::new();
        for port in &ports {
            let before = ["spine1", "spine2"].map(|spine| routers.sent("leaf1", spine));
            agent.plan(&[*port]);
            agent.until("a path", |agent| agent.hops(*port).is_some());
            let after = ["spine1", "spine2"].map(|spine| routers.sent("leaf1", spine));
            // Three datagrams for the spine and three for the second leaf, and perhaps neighbor discovery.
            let [first, second] = [after[0] - before[0], after[1] - before[1]];
            let (spine, used, other) =
                if first > second { ("spine1", first, second) } else { ("spine2", second, first) };
            assert!(used >= 6 && other < 3, "source port {port} by {spine}: {first} and {second} packets");
            assert_eq!(spine, routers.spine(*port), "source port {port}");
            assert_eq!(agent.hops(*port), Some(routers.path(spine)), "source port {port}");
            assert!(agent.is_complete(*port));
            *by_spine.entry(spine).or_insert(0) += 1;
        }
        assert!(by_spine.len() == 2 && by_spine.values().all(|count| *count >= 3), "{by_spine:?}");
    });
    assert_eq!(routers.unwanted(), 1, "one datagram of the search arrived, and none of a trace");
}

#[test]
#[ignore = "needs: network-namespaces"]
fn paths_over_ipv6_are_traced_too() {
    let routers = Routers::new();
    routers.inside("host1", || {
        let mut agent = Agent::new("fd00:0:1::1", "fd00:0:2::1");
        let ports: Vec<u16> = (50_000..50_016).collect();
        agent.plan(&ports);
        agent.until("all paths", |agent| ports.iter().all(|port| agent.is_complete(*port)));
        let spines = ["spine1", "spine2"].map(|spine| routers.address6(spine, "leaf1"));
        let mut counts = [0, 0];
        for port in &ports {
            let hops = agent.hops(*port).expect("a path");
            assert_eq!(hops.len(), 3, "{hops:?}");
            let spine = spines.iter().position(|address| hops[1] == [*address]).expect("a spine");
            counts[spine] += 1;
        }
        assert!(counts.iter().all(|count| *count >= 2), "{counts:?}");
    });
}

#[test]
#[ignore = "needs: network-namespaces"]
fn a_router_that_sends_no_icmp_leaves_its_hop_empty() {
    let routers = Routers::new();
    // Packets that the router itself sends to the first host's network end; those that it forwards do not.
    routers.ip("spine1", "rule add iif lo to 10.0.1.0/24 blackhole");
    let of = |spine| (50_000..).find(|port| routers.spine(*port) == spine).expect("a source port");
    let (hidden, open) = (of("spine1"), of("spine2"));
    routers.inside("host1", || {
        let mut agent = Agent::new(A, B);
        agent.plan(&[hidden, open]);
        agent.until("both paths", |agent| agent.paths.len() == 2);
        let mut hops = routers.path("spine1");
        hops[1].clear();
        assert_eq!((agent.hops(hidden), agent.hops(open)), (Some(hops), Some(routers.path("spine2"))));
        assert!(agent.is_complete(hidden), "the switch is known to be there");
        assert_eq!(agent.tracer.paths(), Paths { known: 1, partial: 1, ..Paths::default() });
    });
}

#[test]
#[ignore = "needs: network-namespaces"]
fn a_link_that_fails_moves_the_paths_and_a_target_that_is_gone_ends_them() {
    let routers = Routers::new();
    let ports: Vec<u16> = (50_000..50_008).collect();
    routers.inside("host1", || {
        let mut agent = Agent::new(A, B);
        agent.plan(&ports);
        agent.until("all paths", |agent| agent.paths.len() == ports.len());
        routers.ip("leaf1", "link set spine1 down");
        let moved = Some(routers.path("spine2"));
        agent.until("all paths by the other spine", |agent| ports.iter().all(|port| agent.hops(*port) == moved));
        routers.ip("host2", "link set leaf2 down");
        // Targets are searched for again when the paths move, and each ten minutes; a plan that names another port does too.
        let mut gone = Agent::new(A, B);
        gone.plan(&ports);
        gone.until("paths without their end", |agent| {
            ports.iter().all(|port| agent.paths.contains_key(port) && !agent.is_complete(*port))
        });
    });
}

#[test]
#[ignore = "needs: network-namespaces"]
fn what_the_kernel_refuses_is_named() {
    let routers = Routers::new();
    routers.inside("host1", || {
        let open = routers.path(routers.spine(50_001));
        let taken = UdpSocket::bind((A, 50_000)).expect("bound");
        let mut agent = Agent::new(A, B);
        agent.plan(&[50_000, 50_001]);
        agent.until("both", |agent| agent.paths.len() == 2);
        assert_eq!(agent.hops(50_001), Some(open));
        let problems = agent.tracer.problems();
        assert!(problems.len() == 1 && problems[0].contains("source port 50000: another socket"), "{problems:?}");
        drop(taken);
        // An address that the host does not have.
        let mut lost = Agent::new("10.0.1.77", B);
        lost.plan(&[50_000]);
        lost.until("told", |agent| !agent.tracer.problems().is_empty());
        assert!(lost.tracer.problems()[0].contains("lost the address"), "{:?}", lost.tracer.problems());
    });
}
