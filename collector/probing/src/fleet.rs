//! Fleets for tests and benchmarks: what agents offer, the topology, and what jobs send.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use fabriclens_base::Sender;
use fabriclens_correlate::{AddressOwner, FlowName, Link, LinkEnd, Node, PortName, QueuePairFlows, Role, Topology};
use fabriclens_probe_plan::{PlanRequest, ProbedPort};

use crate::demand::Demand;
use crate::registry::{Offer, PortRegistry};

/// Pods of `hosts` hosts, of which there are `leaves`: each host has a port on each of the `rails` leaves of its pod, and all leaves are
/// below the same `spines` spines.
#[derive(Clone, Copy)]
pub(crate) struct Fleet {
    pub leaves: usize,
    pub hosts: usize,
    pub rails: usize,
    pub spines: usize,
}

/// Two thousand hosts with eight ports.
pub(crate) const LARGE: Fleet = Fleet { leaves: 63, hosts: 32, rails: 8, spines: 32 };

/// Queue pairs of a port to others of its rail, and hosts that they lead to.
const QUEUE_PAIRS: u32 = 16;
const PEERS: usize = 8;
/// Hosts between two peers: more than a pod has, so that jobs cross the spines.
const APART: usize = 37;

impl Fleet {
    /// Number of all hosts.
    pub fn all(&self) -> usize {
        self.leaves * self.hosts
    }

    /// The port of a host on a rail.
    pub fn port(&self, host: usize, rail: usize) -> ProbedPort {
        let [high, low] = ((host * self.rails + rail) as u16).to_be_bytes();
        ProbedPort {
            name: port_name(rail),
            address: vec![10, 0, high, low],
            queue_pair: 100,
            tcp_port: 18_515,
            traces: true,
            ..ProbedPort::default()
        }
    }

    /// The offer of a host; `change` changes its ports by host and rail.
    pub fn request(&self, host: usize, change: impl Fn(usize, usize, &mut ProbedPort)) -> PlanRequest {
        let port = |rail| {
            let mut port = self.port(host, rail);
            change(host, rail, &mut port);
            port
        };
        PlanRequest { host: name(host), agent: 1, ports: (0..self.rails).map(port).collect() }
    }

    /// The offers of all hosts.
    pub fn offers(&self, change: impl Fn(usize, usize, &mut ProbedPort)) -> Vec<Offer> {
        let mut registry = PortRegistry::new(usize::MAX);
        for host in 0..self.all() {
            registry.offer(Sender::Bound, &self.request(host, &change), Instant::now()).unwrap();
        }
        registry.all()
    }

    /// Hosts, leaves by pod and rail, spines, all cables, and an address of each spine.
    pub fn topology(&self) -> Topology {
        let mut nodes: Vec<Node> = (0..self.all()).map(|host| Node { name: name(host), role: Role::Host }).collect();
        let first_leaf = nodes.len();
        let switch = |kind: &str, n: usize, role| Node { name: format!("{kind}{n}"), role };
        nodes.extend((0..self.leaves * self.rails).map(|n| switch("leaf", n, Role::Leaf)));
        let first_spine = nodes.len();
        nodes.extend((0..self.spines).map(|n| switch("spine", n, Role::Spine)));
        let end = |node, port: String| LinkEnd { node, port };
        let mut links = Vec::new();
        for host in 0..self.all() {
            for rail in 0..self.rails {
                let leaf = first_leaf + self.leaf(host, rail);
                links.push(Link::new([end(host, port_name(rail)), end(leaf, (host % self.hosts).to_string())], None));
            }
        }
        for leaf in first_leaf..first_spine {
            for spine in 0..self.spines {
                let ends = [end(leaf, format!("up{spine}")), end(first_spine + spine, format!("down{leaf}"))];
                links.push(Link::new(ends, None));
            }
        }
        let mut topology = Topology::new(nodes, links);
        let owner = |spine| (spine_address(spine), AddressOwner { node: first_spine + spine, port: None });
        topology.addresses.extend((0..self.spines).map(owner));
        topology
    }

    /// Number of the leaf of a host's port.
    pub fn leaf(&self, host: usize, rail: usize) -> usize {
        host / self.hosts * self.rails + rail
    }

    /// What jobs send: each port has queue pairs to eight others of its rail, in other pods.
    pub fn demand(&self) -> Demand {
        let (mut demand, all) = (Demand::default(), self.all());
        for (host, rail) in (0..all).flat_map(|host| (0..self.rails).map(move |rail| (host, rail))) {
            let port = |host: usize| PortName { node: name(host % all), port: port_name(rail) };
            let flow = |n: u32| FlowName {
                from: port(host),
                to: port(host + 1 + APART * (n as usize % PEERS)),
                source_port: Some(49_153 + (n * 97 + host as u32) as u16 % 16_000),
            };
            let flows: QueuePairFlows = (0..QUEUE_PAIRS).map(|n| (n, flow(n))).collect();
            let of = (name(host), port_name(rail));
            demand.bytes.insert(of.clone(), [1e10, 1e10]);
            demand.flows.insert(of, Arc::new(flows));
        }
        demand
    }
}

/// Name of a host.
pub(crate) fn name(host: usize) -> String {
    format!("gpu-{host:04}")
}

/// Name of a host's port on a rail.
pub(crate) fn port_name(rail: usize) -> String {
    format!("mlx5_{rail}/1")
}

/// The address by which a spine answers traces.
pub(crate) fn spine_address(spine: usize) -> IpAddr {
    Ipv4Addr::from(0x0A09_0000 + spine as u32 + 1).into()
}

/// Leaves offered ports as they are.
pub(crate) fn no_change(_: usize, _: usize, _: &mut ProbedPort) {}
