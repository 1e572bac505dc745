//! What an agent found: paths hop by hop, and the result of each probe.

/// An agent reports what it found since its last report.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportRequest {
    /// Host name of the agent, as in its samples.
    #[prost(string, tag = "1")]
    pub host: String,
    /// Number of the agent process, as in [`crate::PlanRequest::agent`].
    #[prost(fixed64, tag = "2")]
    pub agent: u64,
    /// Pairs of ports that paths and results name by their position here.
    #[prost(message, repeated, tag = "3")]
    pub pairs: Vec<ReportedPair>,
    /// Paths that are new or have changed, and all others each few minutes.
    #[prost(message, repeated, tag = "4")]
    pub paths: Vec<TracedPath>,
    /// Results of probes, in the order in which they were known; with the paths at most [`crate::RESULTS`].
    #[prost(message, repeated, tag = "5")]
    pub probes: Vec<ProbeResult>,
    /// Results that the agent dropped because it could not report them in time.
    #[prost(uint64, tag = "6")]
    pub dropped: u64,
}

/// A pair of ports.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct ReportedPair {
    /// Port of the agent's host.
    #[prost(string, tag = "1")]
    pub from: String,
    /// The other host.
    #[prost(string, tag = "2")]
    pub host: String,
    /// The other host's port.
    #[prost(string, tag = "3")]
    pub port: String,
}

/// The path of one source port, as traced.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TracedPath {
    /// Position in [`ReportRequest::pairs`].
    #[prost(uint32, tag = "1")]
    pub pair: u32,
    /// UDP source port.
    #[prost(uint32, tag = "2")]
    pub source_port: u32,
    /// When the trace ended, Unix nanoseconds.
    #[prost(fixed64, tag = "3")]
    pub traced_ns: u64,
    /// Switches by distance from the host, the first leaf first. The target's host is not among them.
    #[prost(message, repeated, tag = "4")]
    pub hops: Vec<Hop>,
    /// Whether all switches up to the target's host are among the hops, also those that do not answer.
    #[prost(bool, tag = "5")]
    pub complete: bool,
}

/// The switches that answered at one distance.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Hop {
    /// Their addresses, 4 or 16 bytes each, without duplicates. None: no answer. Several: the packets of one source port do not
    /// all take one path.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub addresses: Vec<Vec<u8>>,
}

/// The result of one probe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProbeResult {
    /// Position in [`ReportRequest::pairs`].
    #[prost(uint32, tag = "1")]
    pub pair: u32,
    /// UDP source port; 0 if unknown, on InfiniBand, and for TCP.
    #[prost(uint32, tag = "2")]
    pub source_port: u32,
    /// When it was sent, Unix nanoseconds.
    #[prost(fixed64, tag = "3")]
    pub sent_ns: u64,
    /// Time on the network, without both hosts, nanoseconds; none if no answer came in time. For TCP, the responder's time is
    /// in it.
    #[prost(uint64, optional, tag = "4")]
    pub rtt_ns: Option<u64>,
    /// Time that the responder took, nanoseconds; none if no answer came, and for TCP.
    #[prost(uint64, optional, tag = "5")]
    pub turn_ns: Option<u64>,
    /// Time that the prober's own host took, nanoseconds.
    #[prost(uint64, tag = "6")]
    pub own_ns: u64,
    /// What carried it.
    #[prost(enumeration = "ProbeTransport", tag = "7")]
    pub transport: i32,
}

/// What carries a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ProbeTransport {
    /// Not told.
    Unknown = 0,
    /// A datagram of a UD queue pair, timed by the NIC.
    Rdma = 1,
    /// A datagram of a UD queue pair, timed by the host.
    RdmaSoftwareTime = 2,
    /// A TCP connection between the same addresses, with the same DSCP.
    Tcp = 3,
}

/// Answer of the collector.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReportReply {
    /// Paths and results that were not taken.
    #[prost(uint32, tag = "1")]
    pub refused: u32,
    /// Why, for the first of them.
    #[prost(string, tag = "2")]
    pub why: String,
}
