//! TCP bytes and segments by cgroup, interface and destination class, counted by a probe in the kernel
//! (`ebpf/probes/src/bin/tcp_traffic.rs`): shows jobs that use sockets instead of RDMA.
//!
//! Every segment that a socket of this host sends or receives is counted, retransmissions included. The probe counts
//! from the IP header on, with the headers of each segment if the kernel passes several at once; the link header is
//! added here, so that the result compares to the interface's counters. Not counted: forwarded traffic, and segments
//! without a socket (refused ones, and last acknowledgements of closed connections).

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use aya::include_bytes_aligned;
use aya::maps::{MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::CgroupSkbAttachType;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_agent_probes::accumulator::CounterAccumulator;
use fabriclens_agent_probes::cgroup_names::CgroupNames;
use fabriclens_agent_probes::{AttachPoint, Hook, Interfaces, Peers, Probe, ProbeSpec, SOCKETS, mount, summed};
use fabriclens_base::error_chain::with_causes;
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::metrics::host::{TCP_IO, TCP_IO_CE, TCP_IO_SEGMENTS, TCP_IO_UNPLACED, TCP_WINDOW_CLOSED};
use fabriclens_ebpf_abi::INTERFACES;
use fabriclens_ebpf_abi::destination::CLASSES;
use fabriclens_ebpf_abi::tcp_traffic::{
    Key, RECEIVED_BYTES, RECEIVED_CE, RECEIVED_CLOSED, RECEIVED_SEGMENTS, Record, SENT_BYTES, SENT_CLOSED,
    SENT_SEGMENTS, WORDS,
};
use fabriclens_wire::Value;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcp_traffic",
    source: CounterSource::Ebpf,
    period: Period::Full,
    default: true,
    needs: SOCKETS,
    applies: SamplingTarget::is_host,
    open,
};

/// Definition of the probe.
pub static DESIGN: ProbeSpec = ProbeSpec {
    name: SPEC.name,
    object: include_bytes_aligned!("../../../../ebpf/objects/tcp_traffic.o"),
    hooks: &[
        Hook { program: "received", at: AttachPoint::Sockets(CgroupSkbAttachType::Ingress) },
        Hook { program: "sent", at: AttachPoint::Sockets(CgroupSkbAttachType::Egress) },
    ],
    members: &[],
};

/// Interval between two reads of the host's addresses, which change rarely.
const REFRESH: Duration = Duration::from_secs(10);
/// Samples between two removals of cgroups that no longer exist.
const SWEEP: u32 = 60;
/// Link types by the kernel's number (`ARPHRD_`), with the header bytes that the interface counts.
const LINKS: &[(&str, u64)] = &[("1", 14), ("32", 4)];

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let places = (INTERFACES * CLASSES) as u32;
    let mut probe = Probe::load(&target.roots, &DESIGN, &[("OTHER", places)])?;
    let mut opened = TcpTraffic {
        table: probe.by_key("TRAFFIC")?,
        other: probe.per_cpu("OTHER")?,
        interfaces: probe.interfaces()?,
        peers: probe.peers()?,
        names: CgroupNames::new(mount(&target.roots)?),
        ledger: CounterAccumulator::default(),
        links: HashMap::new(),
        refreshed: Instant::now(),
        samples: 0,
        target: target.clone(),
        probe,
    };
    // Addresses first: the probe counts unknown interfaces under `other`.
    opened.refresh()?;
    opened.probe = opened.probe.attach()?;
    Ok(Box::new(opened))
}

struct TcpTraffic {
    table: PerCpuHashMap<MapData, Key, Record>,
    other: PerCpuArray<MapData, Record>,
    interfaces: Interfaces,
    peers: Peers,
    names: CgroupNames,
    ledger: CounterAccumulator,
    /// Bytes of the link header, by interface.
    links: HashMap<String, u64>,
    refreshed: Instant,
    samples: u32,
    target: SamplingTarget,
    probe: Probe,
}

impl Sampler for TcpTraffic {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        if self.refreshed.elapsed() > REFRESH {
            self.refresh()?;
        }
        let places: Vec<_> = self.peers.places().collect();
        let mut counts = [0; WORDS];
        for (place, ..) in &places {
            summed(&self.other, *place, &mut counts)?;
            self.ledger.take_other(*place, &counts);
        }
        let mut table = Vec::new();
        for entry in self.table.iter() {
            let (key, counts) = entry.map_err(reading)?;
            table.push((key, sum(&counts)));
        }
        table.iter().for_each(|(key, _)| _ = self.names.name(key[0]));
        self.names.look();
        let silent = self.ledger.take(table.into_iter(), &mut self.names);
        for (cgroup, place, counts) in self.ledger.totals() {
            if let Some((_, netdev, destination)) = places.iter().find(|(known, ..)| *known == place) {
                let link = self.links.get(*netdev).copied().unwrap_or_default();
                tell(out, [cgroup, destination, netdev], counts, link);
            }
        }
        out.fact(&TCP_IO_UNPLACED, &[], Value::Int(self.ledger.unplaced()));
        self.probe.tell(out)?;
        self.clear(&silent)
    }
}

impl TcpTraffic {
    fn refresh(&mut self) -> Result<(), SampleError> {
        self.peers.refresh(&self.target.roots, &*self.target.calls, &self.target.destinations)?;
        self.interfaces.tell(&self.peers)?;
        for (_, netdev, _) in self.peers.places() {
            if !self.links.contains_key(netdev) {
                self.links.insert(netdev.to_owned(), link_header(&self.target.roots, netdev));
            }
        }
        self.refreshed = Instant::now();
        Ok(())
    }

    /// Frees entries of the kernel's table: those of removed cgroups, and quiet ones when it gets full.
    fn clear(&mut self, silent: &[Key]) -> Result<(), SampleError> {
        let crowded = self.ledger.is_crowded();
        for key in silent {
            if !crowded && self.names.lives(key[0]) {
                self.ledger.spare(key);
                continue;
            }
            // Only counts between these two calls are lost.
            let now = sum(&self.table.get(key, 0).map_err(reading)?);
            if self.ledger.last(key) == Some(&now) {
                self.table.remove(key).map_err(reading)?;
                self.ledger.left(key);
            }
        }
        self.samples = self.samples.wrapping_add(1);
        if self.samples.is_multiple_of(SWEEP) {
            for name in self.names.sweep(|id| self.ledger.has(id)) {
                self.ledger.end(&name);
            }
        }
        Ok(())
    }
}

/// Link header bytes of an interface; 0 for `other`, whose interfaces are unknown.
fn link_header(roots: &Roots, netdev: &str) -> u64 {
    let kind = maybe(&roots.sys().join("class/net").join(netdev).join("type")).unwrap_or_default();
    LINKS.iter().find(|(link, _)| *link == kind.trim()).map_or(0, |(_, bytes)| *bytes)
}

fn tell(out: &mut Batch, [cgroup, destination, netdev]: [&str; 3], counts: &Record, link: u64) {
    // A zero window in a received segment stops transmission, and the other way round.
    let directions = [
        ("receive", RECEIVED_BYTES, RECEIVED_SEGMENTS, SENT_CLOSED),
        ("transmit", SENT_BYTES, SENT_SEGMENTS, RECEIVED_CLOSED),
    ];
    for (direction, bytes, segments, closed) in directions {
        let labels = [("cgroup", cgroup), ("destination", destination), ("direction", direction), ("netdev", netdev)];
        out.fact(&TCP_IO, &labels, Value::Int(counts[bytes] + counts[segments] * link));
        out.fact(&TCP_IO_SEGMENTS, &labels, Value::Int(counts[segments]));
        out.fact(&TCP_WINDOW_CLOSED, &labels, Value::Int(counts[closed]));
    }
    let labels = [("cgroup", cgroup), ("destination", destination), ("netdev", netdev)];
    out.fact(&TCP_IO_CE, &labels, Value::Int(counts[RECEIVED_CE]));
}

fn sum(cpus: &[Record]) -> Record {
    let add = |sum: Record, cpu: &Record| std::array::from_fn(|i| sum[i].wrapping_add(cpu[i]));
    cpus.iter().fold([0; WORDS], add)
}

fn reading(error: aya::maps::MapError) -> SampleError {
    SampleError::Failed(format!("reading the probe's table: {}", with_causes(&error)))
}
