//! An agent's ports, and what the collector lets it trace and probe.

/// An agent asks for its plan, and tells how its ports answer probes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlanRequest {
    /// Host name of the agent, as in its samples.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Number of the agent process; a new one voids what was told before.
    #[prost(fixed64, tag = "2")]
    pub agent: u64,
    /// Ports that may be traced and probed; at most [`crate::PORTS`].
    #[prost(message, repeated, tag = "3")]
    pub ports: Vec<ProbedPort>,
}

/// A port of the agent's host, and how it answers probes.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ProbedPort {
    /// Name as in the agent's samples, for instance `mlx5_0/1`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// RoCE v2: IP address of the port's GID, 4 or 16 bytes; empty if it has none.
    #[prost(bytes = "vec", tag = "2")]
    pub address: Vec<u8>,
    /// InfiniBand: LID; 0 on Ethernet.
    #[prost(uint32, tag = "3")]
    pub lid: u32,
    /// Number of the UD queue pair that answers RDMA probes; 0 if the port answers none.
    #[prost(uint32, tag = "4")]
    pub queue_pair: u32,
    /// TCP port that answers the TCP twin of a probe; 0 if none.
    #[prost(uint32, tag = "5")]
    pub tcp_port: u32,
    /// UDP source ports from which the port can send RDMA probes, where its driver fixes them; empty: any. The first is that
    /// of `queue_pair`, by which answers come.
    #[prost(uint32, repeated, tag = "6")]
    pub source_ports: Vec<u32>,
    /// Whether times of probes are the NIC's; otherwise they are the host's.
    #[prost(bool, tag = "7")]
    pub hardware_time: bool,
    /// Whether the agent traces from this port.
    #[prost(bool, tag = "8")]
    pub traces: bool,
    /// RoCE: traffic class of its queue pairs, as far as settings of the host tell it.
    #[prost(uint32, optional, tag = "9")]
    pub traffic_class: Option<u32>,
    /// Setting that tells the traffic class.
    #[prost(enumeration = "ClassSource", tag = "10")]
    pub class_source: i32,
}

/// Setting of a host that tells the traffic class of RoCE packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ClassSource {
    /// Not known.
    Unknown = 0,
    /// The driver forces it on all queue pairs.
    Driver = 1,
    /// RDMA-CM gives it to the connections that it makes.
    RdmaCm = 2,
}

/// The plan of an agent. It replaces the plan before.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PlanReply {
    /// Time that the plan lasts after the request, milliseconds.
    #[prost(uint32, tag = "1")]
    pub lasts_ms: u32,
    /// What to trace and probe, the most important first; at most [`crate::TARGETS`].
    #[prost(message, repeated, tag = "2")]
    pub targets: Vec<Target>,
}

/// One pair of ports to trace, to probe, or both.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Target {
    /// Port of the agent's host from which packets are sent, as in [`ProbedPort::name`].
    #[prost(string, tag = "1")]
    pub from: String,
    /// Host to which packets are sent.
    #[prost(string, tag = "2")]
    pub host: String,
    /// Port of that host, with what it told of itself.
    #[prost(message, optional, tag = "3")]
    pub to: Option<ProbedPort>,
    /// UDP source ports (RoCE v2): each is traced, and probes take them in turn; at most [`crate::SOURCE_PORTS`].
    /// Empty on InfiniBand.
    #[prost(uint32, repeated, tag = "4")]
    pub source_ports: Vec<u32>,
    /// Traffic class of the packets (DSCP in the upper six bits).
    #[prost(uint32, tag = "5")]
    pub traffic_class: u32,
    /// InfiniBand: service level.
    #[prost(uint32, tag = "6")]
    pub service_level: u32,
    /// Interval at which each source port is traced again, milliseconds; 0: no tracing.
    #[prost(uint32, tag = "7")]
    pub trace_every_ms: u32,
    /// Interval between two probes of this target, milliseconds; 0: no probes.
    #[prost(uint32, tag = "8")]
    pub probe_every_ms: u32,
    /// Whether each probe has a TCP twin.
    #[prost(bool, tag = "9")]
    pub tcp_twin: bool,
    /// Class of the pair, by which the agent sums up its series.
    #[prost(enumeration = "PairClass", tag = "10")]
    pub class: i32,
}

/// Class of a pair of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PairClass {
    /// Not known.
    Unknown = 0,
    /// Both ports are on one leaf.
    SameLeaf = 1,
    /// The ports are on different leaves.
    CrossLeaf = 2,
    /// A running job exchanges data between the ports.
    Job = 3,
}
