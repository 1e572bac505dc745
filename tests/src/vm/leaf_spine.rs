//! Four hosts with soft-RoCE behind leaves and spines, with a collector that knows the cables.

use super::Lab;
use crate::lab::agent;
use crate::lab::collector::Collector;
use crate::lab::config::{Cable, Config};
use crate::lab::routers::{Plan, Routers, SPINES, Trunk, gateway, host_address};
use crate::lab::vm::Vm;
use anyhow::{Context, Result};
use std::fs;

/// Memory of a host's guest, MiB.
const MEMORY: u32 = 256;

/// The fabric, without agents.
pub struct LeafSpine {
    /// Leaves and spines.
    pub routers: Routers,
    /// `h1` and so on.
    pub hosts: Vec<Vm>,
    /// Collector on this host.
    pub collector: Collector,
}

impl LeafSpine {
    /// Boots all guests, and waits until each host reaches all others.
    ///
    /// # Errors
    /// When a guest does not come up, or a host does not reach another.
    pub fn start(lab: &Lab, plan: Plan) -> Result<Self> {
        let topology = lab.folder().join("topology.json");
        fs::write(&topology, plan.topology().to_string())?;
        let config = format!("[topology]\nfiles = [\"{}\"]\n", topology.display());
        let collector = Collector::start_as(&lab.programs.collector, lab.folder(), &config)?;
        let socket = |host: u8, end: &str| lab.folder().join(format!("{end}-{host}"));
        let mut configs = vec![Config { memory: MEMORY, ..Config::new("routers", 100, "router") }];
        for host in plan.hosts() {
            let (own, other) = (socket(host, "host"), socket(host, "leaf"));
            configs[0].cables.push(Cable::Guest { own: other.clone(), other: own.clone() });
            let guest = Config::new(&format!("h{host}"), host, "rxe");
            configs.push(Config { memory: MEMORY, ..guest.cable(Cable::Guest { own, other }) });
        }
        let mut guests = lab.boot(&configs)?.into_iter();
        let routers = Routers::set_up(guests.next().context("routers")?, plan)?;
        let hosts: Vec<Vm> = guests.collect();
        for (host, guest) in plan.hosts().zip(&hosts) {
            guest.sh(&format!(
                "ip addr flush dev fab0 && ip addr add {}/24 dev fab0 && ip route add 10.76.0.0/14 via {} && \
                 rdma link add rxe0 type rxe netdev fab0",
                host_address(host),
                gateway(host)
            ))?;
        }
        let fabric = Self { routers, hosts, collector };
        for from in plan.hosts() {
            for to in plan.hosts().filter(|to| *to != from) {
                let ping = format!("ping -c 1 -W 5 {}", host_address(to));
                fabric.host(from).sh(&ping).with_context(|| format!("h{from} does not reach h{to}"))?;
            }
        }
        Ok(fabric)
    }

    /// Guest of a host.
    ///
    /// # Panics
    /// When there is no such host.
    #[must_use]
    pub fn host(&self, number: u8) -> &Vm {
        &self.hosts[usize::from(number) - 1]
    }

    /// Starts an agent in every host.
    ///
    /// # Errors
    /// When a command in a guest fails.
    pub fn start_agents(&self, lab: &Lab, config: &str) -> Result<()> {
        self.hosts.iter().try_for_each(|host| agent::start_as(host, &lab.programs.agent, &self.collector, config))
    }

    /// Ends all agents.
    ///
    /// # Errors
    /// When an agent does not run.
    pub fn end_agents(&self) -> Result<()> {
        self.hosts.iter().try_for_each(agent::end)
    }

    /// Ends all agents and starts them again.
    ///
    /// # Errors
    /// When a command in a guest fails.
    pub fn restart_agents(&self) -> Result<()> {
        self.hosts.iter().try_for_each(|host| {
            agent::end(host)?;
            agent::restart(host, &self.collector)
        })
    }

    /// Memory of all guests, MiB.
    ///
    /// # Errors
    /// When a guest has ended.
    pub fn memory(&self) -> Result<u64> {
        self.hosts.iter().chain([&self.routers.guest]).map(Vm::memory).sum()
    }
}

/// RoCE traffic of `queue_pairs` connected queue pairs from one host to another, `messages` of 4 KiB each.
///
/// # Errors
/// When it fails.
pub fn traffic(fabric: &LeafSpine, from: u8, to: u8, queue_pairs: u32, messages: u32) -> Result<()> {
    let common = format!("ib_send_bw -d rxe0 -x 1 -q {queue_pairs} -n {messages} -s 4096 -u 20 -e -F");
    agent::perftest(fabric.host(from), fabric.host(to), &host_address(to), &common).map(drop)
}

/// Spine and packets of each source port between two hosts of different leaves, as that leaf has counted.
///
/// # Errors
/// When the counters cannot be read.
pub fn counted(fabric: &LeafSpine, leaf: u8) -> Result<Vec<(u16, u8, u64)>> {
    let mut all = Vec::new();
    for spine in SPINES {
        let ports = fabric.routers.sent(Trunk { leaf, spine })?;
        all.extend(ports.into_iter().map(|(port, packets)| (port, spine, packets)));
    }
    all.sort_unstable();
    Ok(all)
}
