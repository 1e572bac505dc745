//! Traces through Linux routers: two hosts, two leaves, two spines, each a network namespace, which choose links by the hash
//! over addresses and ports. Needs root and iproute2.

use fabriclens_agent_tracer::transport::Live;
use fabriclens_agent_tracer::{LocalPort, Paths, TraceTarget, Tracer};
use fabriclens_probe_plan::{ReportedPair, TracedPath};
use fabriclens_testing::routers::{HOST1, HOST2, Routers};
use std::collections::HashMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A tracer at host `host1`, in the thread that made it.
struct Agent {
    tracer: Tracer<Live>,
    address: IpAddr,
    every: Duration,
    paths: HashMap<u16, TracedPath>,
}

impl Agent {
    fn new(own: &str, target: &str) -> Self {
        let mut tracer = Tracer::new(Live, 200, 7);
        let local = LocalPort { name: "rxe0/1".into(), address: parse(own), device: Some("leaf1".into()) };
        tracer.set_ports(vec![local], Instant::now());
        Self { tracer, address: parse(target), every: Duration::from_secs(5), paths: HashMap::new() }
    }

    fn plan(&mut self, source_ports: &[u16]) {
        let pair = ReportedPair { from: "rxe0/1".into(), host: "b".into(), port: "rxe0/1".into() };
        let target = TraceTarget {
            pair: Arc::new(pair),
            address: self.address,
            traffic_class: 104,
            source_ports: source_ports.to_vec(),
            every: self.every,
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
            for found in self.tracer.step(now, 7) {
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
    let routers = Routers::start();
    let ports: Vec<u16> = (50_000..50_016).collect();
    routers.inside("host1", || {
        let mut agent = Agent::new(HOST1, HOST2);
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
    let routers = Routers::start();
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
    let routers = Routers::start();
    // Packets that the router itself sends to the first host's network end; those that it forwards do not.
    routers.ip("spine1", "rule add iif lo to 10.0.1.0/24 blackhole");
    let of = |spine| (50_000..).find(|port| routers.spine(*port) == spine).expect("a source port");
    let (hidden, open) = (of("spine1"), of("spine2"));
    routers.inside("host1", || {
        let mut agent = Agent::new(HOST1, HOST2);
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
fn routers_that_limit_their_answers_as_linux_does_by_default_are_known_soon() {
    let routers = Routers::start();
    for node in ["leaf1", "leaf2", "spine1", "spine2", "host2"] {
        routers.set(node, "ipv4/icmp_ratelimit", "1000");
    }
    let ports: Vec<u16> = (50_000..50_008).collect();
    routers.inside("host1", || {
        let mut agent = Agent::new(HOST1, HOST2);
        agent.every = Duration::from_secs(30);
        agent.plan(&ports);
        let is_known = |agent: &Agent, port: &u16| agent.hops(*port) == Some(routers.path(routers.spine(*port)));
        agent.until("all paths", |agent| agent.tracer.paths().known == ports.len());
        assert!(ports.iter().all(|port| is_known(&agent, port)), "{:?}", agent.paths);
    });
}

#[test]
#[ignore = "needs: network-namespaces"]
fn a_link_that_fails_moves_the_paths_and_a_target_that_is_gone_ends_them() {
    let routers = Routers::start();
    let ports: Vec<u16> = (50_000..50_008).collect();
    routers.inside("host1", || {
        let mut agent = Agent::new(HOST1, HOST2);
        agent.plan(&ports);
        agent.until("all paths", |agent| agent.paths.len() == ports.len());
        routers.ip("leaf1", "link set spine1 down");
        let moved = Some(routers.path("spine2"));
        agent.until("all paths by the other spine", |agent| ports.iter().all(|port| agent.hops(*port) == moved));
        routers.ip("host2", "link set leaf2 down");
        // Targets are searched for again when the paths move, and each ten minutes; a plan that names another port does too.
        let mut gone = Agent::new(HOST1, HOST2);
        gone.plan(&ports);
        gone.until("paths without their end", |agent| {
            ports.iter().all(|port| agent.paths.contains_key(port) && !agent.is_complete(*port))
        });
    });
}

#[test]
#[ignore = "needs: network-namespaces"]
fn what_the_kernel_refuses_is_named() {
    let routers = Routers::start();
    routers.inside("host1", || {
        let open = routers.path(routers.spine(50_001));
        let taken = UdpSocket::bind((HOST1, 50_000)).expect("bound");
        let mut agent = Agent::new(HOST1, HOST2);
        agent.plan(&[50_000, 50_001]);
        agent.until("both", |agent| agent.paths.len() == 2);
        assert_eq!(agent.hops(50_001), Some(open));
        let problems = agent.tracer.problems();
        assert!(problems.len() == 1 && problems[0].contains("source port 50000: another socket"), "{problems:?}");
        drop(taken);
        // An address that the host does not have.
        let mut lost = Agent::new("10.0.1.77", HOST2);
        lost.plan(&[50_000]);
        lost.until("told", |agent| !agent.tracer.problems().is_empty());
        assert!(lost.tracer.problems()[0].contains("lost the address"), "{:?}", lost.tracer.problems());
    });
}
