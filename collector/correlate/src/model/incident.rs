//! An incident as the API and a back-test tell it.

use crate::fabric::Fabric;
use crate::finding::{Evidence, Kind, Root};
use crate::priority::Priorities;
use crate::topology::{End, Link};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How bad.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nobody suffers yet.
    Warning,
    /// Jobs suffer.
    Critical,
}

/// Where it is, by names.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Place {
    /// A port.
    Port {
        /// Host or switch.
        node: String,
        /// The port on it.
        port: String,
    },
    /// A link between two nodes, which may have several.
    Link {
        /// One.
        a: String,
        /// Its port; `""` if nobody knows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        a_port: String,
        /// The other.
        b: String,
        /// Its port; `""` if nobody knows it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        b_port: String,
    },
    /// A switch.
    Switch {
        /// Its name.
        node: String,
    },
    /// A host.
    Host {
        /// Its name.
        node: String,
    },
    /// A job.
    Job {
        /// Its id.
        job: String,
    },
    /// More than one place.
    Fabric,
}

impl Place {
    /// Of a root.
    pub fn of(fabric: &Fabric, root: &Root) -> Self {
        let node = |n: usize| fabric.topology.nodes[n].name.clone();
        match root {
            Root::Port(port) => {
                let end = &fabric.ports.list[*port].end;
                Self::Port { node: node(end.node), port: end.port.clone() }
            }
            Root::Link(link) => {
                let [a, b] = &fabric.topology.links[*link].ends;
                let port = |end: &End| if end.is_unknown() { String::new() } else { end.port.clone() };
                Self::Link { a: node(a.node), a_port: port(a), b: node(b.node), b_port: port(b) }
            }
            Root::Switch(n) => Self::Switch { node: node(*n) },
            Root::Host(n) => Self::Host { node: node(*n) },
            Root::Job(job) => Self::Job { job: fabric.jobs[*job].id.clone() },
            Root::Fabric => Self::Fabric,
        }
    }

    /// Hosts and switches that it names; none if it is a job or more than one place.
    pub fn nodes(&self) -> Vec<String> {
        match self {
            Self::Port { node, .. } | Self::Switch { node } | Self::Host { node } => vec![node.clone()],
            Self::Link { a, b, .. } if a == b => vec![a.clone()],
            Self::Link { a, b, .. } => vec![a.clone(), b.clone()],
            Self::Job { .. } | Self::Fabric => Vec::new(),
        }
    }

    /// The root of this name, if the fabric has it.
    pub fn find(&self, fabric: &Fabric) -> Option<Root> {
        let node = |name: &String| fabric.topology.node(name);
        Some(match self {
            Self::Port { node: n, port } => Root::Port(fabric.ports.at(&End { node: node(n)?, port: port.clone() })?),
            Self::Link { a, a_port, b, b_port } => {
                let ends = [(node(a)?, a_port), (node(b)?, b_port)];
                // Somebody may name the ports only later, or the other end first.
                let is = |end: &End, (node, port): (usize, &String)| {
                    end.node == node && (port.is_empty() || end.is_unknown() || end.port == *port)
                };
                let fits = |l: &Link| {
                    let [one, other] = &l.ends;
                    is(one, ends[0]) && is(other, ends[1]) || is(one, ends[1]) && is(other, ends[0])
                };
                Root::Link(fabric.topology.links.iter().position(fits)?)
            }
            Self::Switch { node: n } => Root::Switch(node(n)?),
            Self::Host { node: n } => Root::Host(node(n)?),
            Self::Job { job } => Root::Job(fabric.jobs.iter().position(|j| j.id == *job)?),
            Self::Fabric => Root::Fabric,
        })
    }
}

/// A port that sends, and whose it is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Where.
    #[serde(flatten)]
    pub port: Place,
    /// Its job, if it has one alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// See the module. Times are Unix nanoseconds.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Incident {
    /// Unique, and the same as long as it lives.
    pub id: String,
    /// What.
    pub kind: Kind,
    /// When it began.
    pub start_ns: i64,
    /// When it was seen.
    pub detected_ns: i64,
    /// When it was over; `None`: it is not.
    pub end_ns: Option<i64>,
    /// The id of another that it proved to be a part of; it ended then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
    /// The id of another that it was taken for a part of until it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_from: Option<String>,
    /// How bad.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// Where.
    pub root: Place,
    /// Priorities that are paused because of it; none where counters do not say.
    #[serde(default, skip_serializing_if = "Priorities::is_unknown")]
    pub priorities: Priorities,
    /// Jobs that cause it.
    pub culprit_jobs: Vec<String>,
    /// Jobs that suffer.
    pub victim_jobs: Vec<String>,
    /// Jobs that moved less than usual already before it began, and the share of it: only what they lose beyond that counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub low_before: BTreeMap<String, f64>,
    /// Ports that are kept from sending.
    pub victim_ports: Vec<Place>,
    /// Ports that send what is too much for a receiver, the loudest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<Sender>,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// In plain words.
    pub explanation: String,
    /// What to do next.
    pub action: String,
}

/// What to do about a kind of trouble.
pub fn action(kind: Kind) -> &'static str {
    match kind {
        Kind::PfcStorm => {
            "Take the host out of service and reset its NIC; check its firmware, and PFC watchdog and stall prevention, \
             which would have contained it."
        }
        Kind::SlowReceiver => {
            "Look at the host: PCIe width and speed, stalls, IOMMU, memory and CPU pressure, receive buffers."
        }
        Kind::Incast => "Look at the job's pattern: fewer senders at once, more receivers, or smaller bursts.",
        Kind::DegradedLink => {
            "Check cable and transceivers at both ends; take the link out of ECMP until it is mended."
        }
        Kind::LossyLink => "Clean or replace cable and transceivers; until then take the link out of service.",
        Kind::LinkFlap => "Replace the cable or transceiver; until then keep the link down.",
        Kind::LinkDown => "Check cable, transceivers and the port at the other end.",
        Kind::UplinkCongestion => "Spread jobs over leaves, or add links; check that traffic uses all uplinks.",
        Kind::EcmpCollision => {
            "Change the entropy of the flows (source ports, more queue pairs) or use adaptive routing; restart one of the \
             jobs if it cannot wait."
        }
        Kind::EcnMisconfigured => {
            "Compare ECN marking on the switches and DCQCN on the NICs with the rest of the fabric, for this priority."
        }
        Kind::NoisyNeighbour => "Limit the job's rate or move it; give it a priority of its own.",
        Kind::TransportErrors => {
            "Look for lost packets on the way: discards of switches, errors of links, PFC missing on one hop; on one host \
             alone its NIC, firmware and QP time-outs."
        }
        Kind::PcieBottleneck => {
            "Reseat the adapter, or move it to a slot of full width; check BIOS settings, payload size, relaxed ordering and \
             NUMA placement."
        }
        Kind::OpticsDegraded => {
            "Clean the connectors and reseat the module; check its cooling; replace it before it fails."
        }
        Kind::StragglerRail => {
            "Look at this rail's NIC, cable and switch port; check that the job's library uses all rails."
        }
        Kind::TcpFallback => {
            "Check the job's library and its log (NCCL_IB_DISABLE, GIDs, memlock limits, plugins, device in the container): \
             RDMA was not used."
        }
        Kind::FabricCongestion => "See which ports are paused; counters of the switches would tell where it begins.",
    }
}
