//! The request, its parts, and the reply.

use bytes::Bytes;

/// The reader of a subnet tells what is new or has changed. Requests of a telling are numbered from 0.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TellRequest {
    /// Host name of the agent, as in its samples.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Number of the agent process, as in its request for the lease of the subnet.
    #[prost(fixed64, tag = "2")]
    pub agent: u64,
    /// Number of the telling.
    #[prost(fixed64, tag = "3")]
    pub telling: u64,
    /// Number of the request within the telling; 0 voids what was told of the subnet before.
    #[prost(uint32, tag = "4")]
    pub number: u32,
    /// Whether the collector now knows all that the reader knows.
    #[prost(bool, tag = "5")]
    pub complete: bool,
    /// Switches that are new or have changed.
    #[prost(message, repeated, tag = "6")]
    pub switches: Vec<SwitchTables>,
    /// Adapter ports that are new or have changed.
    #[prost(message, repeated, tag = "7")]
    pub adapters: Vec<AdapterPort>,
    /// GUIDs of switches that are gone.
    #[prost(fixed64, repeated, tag = "8")]
    pub gone_switches: Vec<u64>,
    /// Adapter ports that are gone.
    #[prost(message, repeated, tag = "9")]
    pub gone_adapters: Vec<PortId>,
}

/// A port by its node's GUID and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct PortId {
    /// GUID of the node.
    #[prost(fixed64, tag = "1")]
    pub guid: u64,
    /// Number of the port.
    #[prost(uint32, tag = "2")]
    pub port: u32,
}

/// How a switch forwards, and what its ports are connected to.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SwitchTables {
    /// GUID of the node.
    #[prost(fixed64, tag = "1")]
    pub guid: u64,
    /// Name as in the samples of its ports.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Number of its physical ports.
    #[prost(uint32, tag = "3")]
    pub ports: u32,
    /// Linear forwarding table: egress port by LID. [`crate::NO_ROUTE`], and LIDs beyond the end, have no route.
    #[prost(bytes = "bytes", tag = "4")]
    pub table: Bytes,
    /// Virtual lanes by service level, as far as they were read.
    #[prost(message, repeated, tag = "5")]
    pub lanes: Vec<Lanes>,
    /// Ports with a cable whose other end is known.
    #[prost(message, repeated, tag = "6")]
    pub cables: Vec<Cable>,
    /// Whether it routes adaptively.
    #[prost(enumeration = "Adaptive", tag = "7")]
    pub adaptive: i32,
}

/// The virtual lanes of packets from one port of a switch to another.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Lanes {
    /// Port by which they come in.
    #[prost(uint32, tag = "1")]
    pub ingress: u32,
    /// Port by which they leave.
    #[prost(uint32, tag = "2")]
    pub egress: u32,
    /// Virtual lane of each service level, four bits each; service level 0 in the lowest.
    #[prost(fixed64, tag = "3")]
    pub by_service_level: u64,
}

/// The other end of a switch port's cable.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Cable {
    /// Port of the switch.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// GUID of the node at the other end.
    #[prost(fixed64, tag = "2")]
    pub far_guid: u64,
    /// Port of that node.
    #[prost(uint32, tag = "3")]
    pub far_port: u32,
}

/// A port of an adapter.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AdapterPort {
    /// GUID of the node.
    #[prost(fixed64, tag = "1")]
    pub guid: u64,
    /// Number of the port.
    #[prost(uint32, tag = "2")]
    pub port: u32,
    /// Base LID.
    #[prost(uint32, tag = "3")]
    pub lid: u32,
    /// 2^lmc LIDs from the base LID belong to the port.
    #[prost(uint32, tag = "4")]
    pub lmc: u32,
    /// Host, by the node description; empty if that names none.
    #[prost(string, tag = "5")]
    pub host: String,
    /// Port of that host as in samples, for instance `mlx5_0/1`.
    #[prost(string, tag = "6")]
    pub name: String,
}

/// Whether a switch routes adaptively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Adaptive {
    /// The switch did not answer. Its table may be one of several ways.
    Unknown = 0,
    /// It forwards by its table alone.
    Off = 1,
    /// Its table is one of several ways.
    On = 2,
}

/// Answer of the collector.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TellReply {
    /// The collector does not know the telling, for instance after its restart, or missed a request: begin a new one.
    #[prost(bool, tag = "1")]
    pub again: bool,
}
